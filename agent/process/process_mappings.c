// SPDX-License-Identifier: Apache-2.0
// A process's mappings, kept current by mmap events and by reading /proc again, and the files behind them.
#include "agent/process/process_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "agent/elf/foreign_file.h"
#include "agent/process/mapped_file.h"

enum {
	EAGER_FILES_MAX = 512,  // opened when mappings are first read: PyTorch maps about 300
	USER_ADDRESS_BITS = 56, // with five-level page tables
	// Mappings that events may move per process and export interval: some 50 ms of CPU time. Past it they
	// are read again on demand.
	MOVED_MAX = 8 << 20,
};

#define MAPPINGS_WAIT_MIN_NS (100 * NS_PER_MS)
#define MAPPINGS_WAIT_MAX_NS (60 * NS_PER_SECOND)
// Without events nothing reports that a library was unloaded and another took its place.
#define MAPPINGS_STALE_NS (60 * NS_PER_SECOND)
// With events only unmapping is not reported.
#define MAPPINGS_STALE_WITH_EVENTS_NS (600 * NS_PER_SECOND)
#define MAPPINGS_OUTDATED_NS          NS_PER_SECOND // after events were lost
#define REOPEN_NS                     NS_PER_SECOND

/* ---- files --------------------------------------------------------------------------------- */

/* Mark the list as different from all earlier ones. */
static void renew_generation(struct mapping_list *list, struct process_context *context)
{
	list->generation = ++context->mapping_generation;
}

static void use_executable(struct mapping_list *list, struct mapping *mapping,
			   struct executable *executable, struct process_context *context)
{
	if (mapping->executable != executable)
		renew_generation(list, context);
	executable_hold(executable);
	executable_release(mapping->executable);
	mapping->executable = executable;
	mapping->file = MAPPING_FILE_OPENED;
}

static bool is_vdso(const struct mapping_list *list, const struct mapping *mapping)
{
	return strcmp(mapping_path(list, mapping), "[vdso]") == 0;
}

/* Is it the file of the mmap event? Without a build id it may be. */
static bool is_file_of(const struct mapping_list *list, const struct mapping *mapping,
		       const struct executable *executable)
{
	const char *build_id = mapping_build_id(list, mapping);

	return !build_id[0] || !executable->has_build_id || strcmp(build_id, executable->id) == 0;
}

/* @folder is of the process in whose root the file lies. */
static int use_file(struct mapping_list *list, struct mapping *mapping, int fd, int folder,
		    struct process_context *context)
{
	struct executable *executable;
	int rc = executable_table_open_of(context->executables, fd, folder,
					  mapping_path(list, mapping), &executable, NULL);

	if (rc)
		return rc;
	if (!is_file_of(list, mapping, executable))
		return -ESTALE;
	use_executable(list, mapping, executable, context);
	return 0;
}

/* The kernel's own: no process pays for it, or waits until it can. NULL: the kernel maps none. */
static struct executable *find_vdso(struct process_context *context)
{
	struct executable *executable;

	if (context->vdso && !executable_wants_file(context->vdso))
		return context->vdso;
	_cleanup_close_ int fd = mapped_file_open_vdso();
	if (fd < 0 || executable_table_open(context->executables, fd, "[vdso]", &executable, NULL))
		return context->vdso;
	executable_hold(executable);
	executable_release(context->vdso);
	context->vdso = executable;
	return executable;
}

/* Most files are known from other processes, by stat(); a build id is the file's own word. */
static struct executable *find_known(const struct mapping_list *list, const struct mapping *mapping,
				     int folder, struct process_context *context)
{
	struct stat status;

	if (is_vdso(list, mapping))
		return find_vdso(context);
	if (mapping->executable)
		return mapping->executable;
	if (folder >= 0 && mapped_file_stat(folder, mapping, &status) == 0)
		return executable_table_find_file(context->executables, &status);
	return NULL;
}

/* True if no file must be opened any more. @folder is the process's; -1: none. */
static bool use_known(struct mapping_list *list, struct mapping *mapping, int folder,
		      struct process_context *context)
{
	struct executable *executable = find_known(list, mapping, folder, context);

	if (executable)
		use_executable(list, mapping, executable, context);
	return executable && !executable_wants_file(executable);
}

static int open_mapped(struct mapping_list *list, struct mapping *mapping, const struct proc *proc,
		       struct process_context *context)
{
	_cleanup_close_ int fd = mapped_file_open(proc->files, list, mapping);

	return fd < 0 ? fd : use_file(list, mapping, fd, proc->files, context);
}

/* Hashing a new file takes time, by its size: the process pays. A file that is not opened now is later. */
static void open_living(struct mapping_list *list, struct mapping *mapping, const struct proc *proc,
			struct work_budget *budget, struct process_context *context)
{
	uint64_t bytes = mapping->limit - mapping->start;
	struct work work;
	bool is_known = use_known(list, mapping, proc->files, context);

	if (mapping->executable)
		executable_table_charge(context->executables, mapping->executable, budget->payer);
	if (is_known || (context->put_off_bytes && bytes > context->put_off_bytes) ||
	    !work_begin(&work, budget, "identifying files"))
		return;
	int rc = open_mapped(list, mapping, proc, context);
	work_end(&work);
	if (rc && rc != -EAGAIN && !mapping->executable)
		mapping->file = MAPPING_FILE_REFUSED;
}

static void open_all_living(struct mapping_list *list, const struct proc *proc,
			    struct work_budget *budget, struct process_context *context)
{
	uint32_t files = 0;

	for (uint32_t i = 0; i < list->count && files < EAGER_FILES_MAX; i++)
		if (list->mappings[i].file == MAPPING_FILE_UNKNOWN) {
			open_living(list, &list->mappings[i], proc, budget, context);
			files++;
		}
}

static bool wants_file(const struct mapping *mapping)
{
	return mapping->file == MAPPING_FILE_UNKNOWN ||
	       (mapping->executable && executable_wants_file(mapping->executable));
}

/* For a process that is gone. A file that only root writes is what others map under its build id, too. */
static bool use_system_file(struct mapping_list *list, struct mapping *mapping,
			    struct process_context *context)
{
	const char *build_id = mapping_build_id(list, mapping);
	struct executable *executable =
		build_id[0] && !mapping->executable
			? executable_table_find_system_file(context->executables, build_id)
			: NULL;

	if (executable)
		use_executable(list, mapping, executable, context);
	return executable && !executable_wants_file(executable);
}

int process_entry_open_file(struct process_entry *entry, struct mapping *mapping,
			    struct process_context *context)
{
	struct proc proc;

	if (!wants_file(mapping) || use_known(entry->mappings, mapping, -1, context))
		return 0;
	uint64_t now = clock_monotonic_ns();
	if (entry->gone && mapping->executable && now < entry->reopen_ns)
		return 0;
	entry->reopen_ns = now + REOPEN_NS;
	int rc = process_entry_open_proc(entry, &proc);
	if (rc == -ESRCH && use_system_file(entry->mappings, mapping, context))
		return 0;
	if (rc)
		return rc == -ESRCH ? rc : 0;
	open_living(entry->mappings, mapping, &proc, &entry->process.budget, context);
	proc_close(&proc);
	return 0;
}

void process_entry_open_files(struct process_entry *entry, struct process_context *context)
{
	struct mapping_list *list = entry->mappings;
	bool unknown = false;
	struct proc proc;

	for (uint32_t i = 0; list && i < list->count; i++)
		if (list->mappings[i].file == MAPPING_FILE_UNKNOWN)
			unknown |= !use_known(list, &list->mappings[i], -1, context);
	if (!unknown || process_entry_open_proc(entry, &proc))
		return;
	open_all_living(list, &proc, &entry->process.budget, context);
	proc_close(&proc);
}

/* By path alone, where another file may be: only one with the same inode or build id is used. */
static int open_in_root(struct mapping_list *list, struct mapping *mapping, int folder,
			struct work_budget *budget, struct process_context *context)
{
	struct work work;
	const char *path = mapping_path(list, mapping);
	bool is_identified = mapping->inode || mapping->build_id;

	if (path[0] != '/' || !is_identified)
		return -ENOENT;
	if (!work_begin(&work, budget, "identifying files"))
		return -EDQUOT;
	_cleanup_close_ int fd = foreign_file_open(folder, path, mapping->inode);
	int rc = fd < 0 ? fd : use_file(list, mapping, fd, folder, context);
	work_end(&work);
	return rc;
}

int process_entry_open_file_of(struct process_entry *entry, struct mapping *mapping,
			       struct process_entry *other, struct process_context *context)
{
	struct proc proc;
	int rc = other ? process_entry_open_proc(other, &proc) : proc_open(getpid(), &proc);

	if (rc)
		return rc;
	if (other && other->mappings == entry->mappings) // shared since fork
		open_living(entry->mappings, mapping, &proc, &entry->process.budget, context);
	else
		open_in_root(entry->mappings, mapping, proc.files, &entry->process.budget, context);
	proc_close(&proc);
	return wants_file(mapping) ? -ENOENT : 0;
}

void process_entry_refuse_file(struct process_entry *entry, struct mapping *mapping,
			       struct process_context *context)
{
	const char *build_id = mapping_build_id(entry->mappings, mapping);
	struct executable *executable = NULL;

	if (mapping->executable)
		return;
	if (build_id[0])
		executable = executable_table_add_id(context->executables, build_id,
						     mapping_path(entry->mappings, mapping));
	if (executable)
		use_executable(entry->mappings, mapping, executable, context);
	else if (entry->mappings->holders == 1) // with others, another process may open it
		mapping->file = MAPPING_FILE_REFUSED;
}

/* ---- mappings ------------------------------------------------------------------------------ */

void process_entry_set_mappings(struct process_entry *entry, struct mapping_list *list,
				struct process_context *context)
{
	if (!list)
		return;
	mapping_list_release(entry->mappings);
	entry->mappings = list;
	entry->mappings_read_ns = clock_monotonic_ns();
	entry->outdated = false;
	renew_generation(list, context);
}

static int read_maps(struct process_entry *entry, const struct proc *proc,
		     struct process_context *context)
{
	_cleanup_close_ int fd = openat(proc->files, "maps", O_RDONLY | O_CLOEXEC);
	struct mapping_list *list;

	if (fd < 0)
		return -errno;
	int rc = mapping_list_read(fd, &list);
	if (rc)
		return rc;
	if (!list->count && entry->mappings) { // exiting: the known mappings stay
		mapping_list_release(list);
		return -ESRCH;
	}
	if (mapping_list_equals(list, entry->mappings)) { // keeps a list that may be shared
		mapping_list_release(list);
		return 0;
	}
	mapping_list_inherit(list, entry->mappings);
	open_all_living(list, proc, &entry->process.budget, context);
	process_entry_set_mappings(entry, list, context);
	return 0;
}

void process_entry_read_mappings(struct process_entry *entry, const struct proc *proc,
				 struct process_context *context)
{
	if (entry->mappings) {
		open_all_living(entry->mappings, proc, &entry->process.budget, context);
	} else if (!entry->kernel_thread) {
		entry->mappings_read_ns = entry->refreshed_ns = clock_monotonic_ns();
		read_maps(entry, proc, context);
	}
}

/*
 * Reading maps blocks the process's page faults: at most a hundredth of the time is spent on it. A caller whose
 * address was not found waits longer.
 */
static void refresh_mappings(struct process_entry *entry, struct process_context *context,
			     uint64_t now)
{
	struct proc proc;
	struct work work;

	if (!work_begin(&work, &entry->process.budget, "reading mappings"))
		return;
	entry->mappings_read_ns = entry->refreshed_ns = now;
	entry->outdated = false;
	int rc = process_entry_open_proc(entry, &proc);
	if (!rc) {
		read_maps(entry, &proc, context);
		proc_close(&proc);
	}
	work_end(&work);
	if (!rc)
		entry->mappings_wait_ns = 100 * (clock_monotonic_ns() - now);
}

static uint64_t longer_wait(uint64_t wait_ns)
{
	if (wait_ns < MAPPINGS_WAIT_MIN_NS)
		return MAPPINGS_WAIT_MIN_NS;
	return wait_ns < MAPPINGS_WAIT_MAX_NS / 2 ? wait_ns * 2 : MAPPINGS_WAIT_MAX_NS;
}

static bool is_outdated(const struct process_entry *entry, const struct process_context *context)
{
	return entry->mappings && context->has_events &&
	       (entry->outdated || entry->mappings_read_ns < context->lost_ns);
}

void process_entry_refresh_lost(struct process_entry *entry, struct process_context *context)
{
	uint64_t now, wait = entry->mappings_wait_ns;

	if (!is_outdated(entry, context))
		return;
	now = clock_monotonic_ns();
	if (wait < MAPPINGS_OUTDATED_NS)
		wait = MAPPINGS_OUTDATED_NS;
	if (!entry->refreshed_ns || now - entry->refreshed_ns >= wait)
		refresh_mappings(entry, context, now);
}

/* How old mappings may be, depending on whether the address was found in them. */
static uint64_t age_max(const struct process_entry *entry, bool found,
			const struct process_context *context)
{
	if (!found)
		return entry->mappings_wait_ns;
	return context->has_events ? MAPPINGS_STALE_WITH_EVENTS_NS : MAPPINGS_STALE_NS;
}

static bool is_users(const struct process_entry *entry, uint64_t address)
{
	return !entry->kernel_thread && address >> USER_ADDRESS_BITS == 0;
}

bool process_entry_maps(const struct process_entry *entry, uint64_t address)
{
	return !is_users(entry, address) || mapping_list_find(entry->mappings, address);
}

struct mapping *process_entry_find_mapping(struct process_entry *entry,
					   struct process_context *context, uint64_t address)
{
	process_entry_refresh_lost(entry, context);
	uint64_t now = clock_coarse_ns(); // this is done for each frame

	entry->used_ns = now;
	if (!is_users(entry, address))
		return NULL;
	struct mapping *mapping = mapping_list_find(entry->mappings, address);
	if (ns_between(entry->mappings_read_ns, now) < age_max(entry, mapping, context))
		return mapping;

	uint64_t wait = entry->mappings_wait_ns;
	refresh_mappings(entry, context, clock_monotonic_ns());
	mapping = mapping_list_find(entry->mappings, address);
	if (!mapping && entry->mappings_wait_ns < longer_wait(wait))
		entry->mappings_wait_ns = longer_wait(wait);
	return mapping;
}

/* ---- mmap events ---------------------------------------------------------------------------- */

static void encode_build_id(const struct mmap_event *event, char ret_text[])
{
	for (uint32_t i = 0; i < event->build_id_size; i++)
		sprintf(ret_text + 2 * i, "%02x", event->build_id[i]);
	ret_text[2 * event->build_id_size] = '\0';
}

int mapping_list_apply(struct mapping_list *list, const struct mmap_event *event)
{
	char build_id[2 * MMAP_EVENT_BUILD_ID_BYTES + 1];
	struct mapping mapping = {
		.start = event->start,
		.limit = event->limit,
		.file_offset = event->file_offset,
		.inode = event->inode,
		.device_major = event->device_major,
		.device_minor = event->device_minor,
	};

	encode_build_id(event, build_id);
	return mapping_list_put(list, &mapping, event->path, build_id);
}

/* Copy a list that is shared with forked children. */
static int own_mappings(struct process_entry *entry)
{
	struct mapping_list *copy;

	if (entry->mappings->holders == 1)
		return 0;
	copy = mapping_list_copy(entry->mappings);
	if (!copy)
		return -ENOMEM;
	copy->generation = entry->mappings->generation;
	mapping_list_release(entry->mappings);
	entry->mappings = copy;
	entry->moved_count += copy->count;
	return 0;
}

/* Past MOVED_MAX events are skipped and the mappings are read again on demand. */
static bool may_change(struct process_entry *entry)
{
	if (!entry->mappings || entry->outdated)
		return false;
	entry->moved_count += entry->mappings->count;
	entry->outdated = entry->moved_count > MOVED_MAX || own_mappings(entry);
	return !entry->outdated;
}

/* @rc as mapping_list_put() returned it. */
static void note_change(struct process_entry *entry, int rc, struct process_context *context)
{
	if (rc > 0)
		renew_generation(entry->mappings, context);
	entry->outdated |= rc < 0;
}

void process_entry_apply_mmap(struct process_entry *entry, const struct mmap_event *event,
			      struct process_context *context)
{
	if (may_change(entry))
		note_change(entry, mapping_list_apply(entry->mappings, event), context);
}

void process_entry_add_mappings(struct process_entry *entry, const struct mapping_list *list,
				struct process_context *context)
{
	for (uint32_t i = 0; i < list->count && may_change(entry); i++) {
		const struct mapping *mapping = &list->mappings[i];
		int rc = mapping_list_put(entry->mappings, mapping, mapping_path(list, mapping),
					  mapping_build_id(list, mapping));

		note_change(entry, rc, context);
	}
}

int process_entry_code(const struct process_entry *entry, const struct mapping *mapping,
		       uint64_t address, struct code_address *ret_code)
{
	if (mapping && mapping->executable) {
		*ret_code = (struct code_address){
			.executable = mapping->executable,
			.offset = address - mapping->start + mapping->file_offset,
		};
		return 0;
	}
	*ret_code = (struct code_address){
		.is_data = !mapping && entry->mappings && entry->mappings->count,
		.is_unknown = !entry->mappings || !entry->mappings->count,
		.is_jit = mapping && mapping_is_jit(entry->mappings, mapping),
	};
	return -ENOENT;
}
