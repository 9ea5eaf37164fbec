// SPDX-License-Identifier: Apache-2.0
#include "agent/process/process_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "agent/process/cgroup.h"
#include "agent/elf/foreign_file.h"
#include "agent/process/mapped_file.h"
#include "agent/process/proc.h"
#include "agent/process/process_labels.h"
#include "base/utf8.h"

enum {
	EAGER_FILES_MAX = 512, // opened when mappings are first read: PyTorch maps about 300
	LABEL_TRIES_MAX = 8,
	USER_ADDRESS_BITS = 56, // with five-level page tables; nothing of user space lies above
	// A process that maps more than this in a window is not followed: some 50 ms of moving.
	MOVED_MAX = 8 << 20,
};

#define LABEL_AGAIN_NS       NS_PER_SECOND    // a forked child is looked at itself
#define LABEL_AGAIN_MIN_NS   (20 * NS_PER_MS) // after exec, doubled with each try: 2.5 s in all
#define MAPPINGS_WAIT_MIN_NS (100 * NS_PER_MS)
#define MAPPINGS_WAIT_MAX_NS (60 * NS_PER_SECOND)
// A library may have been unloaded and another put in its place: without events nothing tells us.
#define MAPPINGS_STALE_NS (60 * NS_PER_SECOND)
// Only unmapping is not told by the kernel's events.
#define MAPPINGS_STALE_FOLLOWED_NS (600 * NS_PER_SECOND)
#define MAPPINGS_OUTDATED_NS       NS_PER_SECOND // after events were lost
#define REOPEN_NS                  NS_PER_SECOND

uint64_t process_start_ticks(uint64_t start_ns)
{
	return start_ns / (NS_PER_SECOND / PROC_TICKS_PER_SECOND);
}

/* ---- life ---------------------------------------------------------------------------------- */

static void release_labels(struct label_set *labels)
{
	if (!labels || --labels->holders)
		return;
	labels_deinit(&labels->labels);
	free(labels);
}

static struct label_set *hold_labels(struct label_set *labels)
{
	if (labels)
		labels->holders++;
	return labels;
}

/* The public labels are a view of the set. */
static void use_labels(struct process_entry *entry, struct label_set *labels)
{
	release_labels(entry->labels);
	entry->labels = labels;
	entry->process.labels = labels ? labels->labels : (struct labels){ 0 };
}

void process_entry_free(struct process_entry *entry)
{
	if (!entry)
		return;
	use_labels(entry, NULL);
	release_labels(entry->former_labels);
	mapping_list_release(entry->mappings);
	process_jit_free(entry->jit);
	free(entry);
}

void process_entry_replace(struct process_entry *entry, const struct process_entry *former)
{
	const struct label_set *labels = former->labels ? former->labels : former->former_labels;

	release_labels(entry->former_labels);
	entry->former_labels = hold_labels((struct label_set *)labels);
	entry->ancestor = former->ancestor;
}

void process_entry_inherit(struct process_entry *child, const struct process_entry *parent)
{
	if (!child->mappings && parent->mappings) {
		child->mappings = mapping_list_hold(parent->mappings);
		child->mappings_read_ns = parent->mappings_read_ns;
	}
	if (!child->labels && parent->labels)
		use_labels(child, hold_labels(parent->labels));
	if (!child->former_labels)
		child->former_labels = hold_labels(parent->former_labels);
	if (!child->process.name[0])
		memcpy(child->process.name, parent->process.name, sizeof(child->process.name));
}

/* ---- /proc --------------------------------------------------------------------------------- */

/* The entry's folder in /proc, if it is still this process that is shown there. */
static int open_proc(struct process_entry *entry, struct proc *ret_proc)
{
	struct proc proc;

	if (entry->gone || entry->process.exited)
		return -ESRCH;
	int rc = proc_open((pid_t)entry->process.key.pid, &proc);
	if (!rc && proc.stat.start_ticks != process_start_ticks(entry->process.key.start_ns)) {
		proc_close(&proc);
		rc = -ESRCH; // the pid is another process's by now
	}
	if (rc == -ESRCH)
		entry->gone = true;
	if (!rc)
		*ret_proc = proc;
	return rc;
}

/* ---- labels -------------------------------------------------------------------------------- */

/* What exec does not change: all but the names of the program. */
static int add_former_labels(struct labels *labels, const struct label_set *former)
{
	for (uint32_t i = 0; former && i < former->labels.count; i++) {
		const struct label *label = &former->labels.pairs[i];

		if (labels_get(labels, label->name))
			continue;
		int rc = labels_set(labels, label->name, label->value);
		if (rc == -ENOMEM)
			return rc;
	}
	return 0;
}

static int detect_labels(struct process_entry *entry, const struct process_traits *traits,
			 struct process_surroundings *surroundings)
{
	struct label_set *labels = calloc(1, sizeof(*labels));

	if (!labels)
		return -ENOMEM;
	labels->holders = 1;
	int rc = process_labels_detect(traits, &surroundings->extra_labels, &labels->labels);
	if (!rc && entry->gone)
		rc = add_former_labels(&labels->labels, entry->former_labels);
	if (rc) {
		release_labels(labels);
		return rc;
	}
	release_labels(entry->former_labels);
	entry->former_labels = NULL;
	use_labels(entry, labels);
	return 0;
}

/*
 * A file that may not be read is as one that is empty. During exec the environment is not there yet,
 * for as long as reading the program from disk takes: the labels are read again then.
 */
static int read_labels(struct process_entry *entry, const struct proc *proc,
		       struct process_surroundings *surroundings)
{
	_cleanup_(buffer_deinit) struct buffer environment = { 0 };
	_cleanup_(buffer_deinit) struct buffer cgroup = { 0 };
	char executable[MAPPING_PATH_BYTES_MAX];
	bool has_executable = proc_read_link(proc->fd, "exe", executable, sizeof(executable)) == 0;

	if (!proc->stat.kernel_thread)
		proc_read(proc->files, "environ", ENVIRON_BYTES_MAX, &environment);
	proc_read(proc->fd, "cgroup", CGROUP_FILE_BYTES_MAX, &cgroup);

	bool again = !environment.size && !proc->stat.kernel_thread &&
		     ++entry->label_tries < LABEL_TRIES_MAX;
	entry->label_again_ns =
		again ? clock_monotonic_ns() + (LABEL_AGAIN_MIN_NS << (entry->label_tries - 1)) : 0;
	struct process_traits traits = {
		.name = entry->process.name,
		.executable = has_executable ? executable : NULL,
		.environ_ = (const char *)environment.bytes,
		.environ_size = environment.size,
		.cgroup = (const char *)cgroup.bytes,
		.cgroup_size = cgroup.size,
		.node = surroundings->node,
		.kernel_thread = proc->stat.kernel_thread,
	};
	return detect_labels(entry, &traits, surroundings);
}

/* ---- files --------------------------------------------------------------------------------- */

/* The list differs from all that there were before. */
static void renew_generation(struct mapping_list *list, struct process_surroundings *surroundings)
{
	list->generation = ++surroundings->mapping_generation;
}

static void use_executable(struct mapping_list *list, struct mapping *mapping,
			   struct executable *executable, struct process_surroundings *surroundings)
{
	if (mapping->executable != executable)
		renew_generation(list, surroundings);
	executable_hold(executable);
	executable_release(mapping->executable);
	mapping->executable = executable;
	mapping->file = MAPPING_FILE_OPENED;
}

static bool is_vdso(const struct mapping_list *list, const struct mapping *mapping)
{
	return strcmp(mapping_path(list, mapping), "[vdso]") == 0;
}

/* What the kernel said of the file when it was mapped; without a word it may be any. */
static bool is_file_of(const struct mapping_list *list, const struct mapping *mapping,
		       const struct executable *executable)
{
	const char *build_id = mapping_build_id(list, mapping);

	return !build_id[0] || !executable->has_build_id || strcmp(build_id, executable->id) == 0;
}

/* Make an executable of the open file. */
static int use_file(struct mapping_list *list, struct mapping *mapping, int fd,
		    struct process_surroundings *surroundings)
{
	struct executable *executable;
	int rc = executable_table_open(surroundings->executables, fd, mapping_path(list, mapping),
				       &executable, NULL);

	if (rc)
		return rc;
	if (!is_file_of(list, mapping, executable))
		return -ESTALE;
	use_executable(list, mapping, executable, surroundings);
	if (is_vdso(list, mapping) && !surroundings->vdso)
		surroundings->vdso = executable_hold(executable);
	return 0;
}

/* Most files are known from other processes: by build id, or a stat() finds them. */
static struct executable *find_known(const struct mapping_list *list, const struct mapping *mapping,
				     int folder, const struct process_surroundings *surroundings)
{
	const char *build_id = mapping_build_id(list, mapping);
	struct stat status;

	if (is_vdso(list, mapping))
		return surroundings->vdso;
	if (mapping->executable)
		return mapping->executable;
	if (build_id[0])
		return executable_table_find_id(surroundings->executables, build_id);
	if (folder >= 0 && mapped_file_stat(folder, mapping, &status) == 0)
		return executable_table_find_file(surroundings->executables, &status);
	return NULL;
}

/* True if nothing needs to be opened any more. @folder is the process's, -1: it has none. */
static bool use_known(struct mapping_list *list, struct mapping *mapping, int folder,
		      struct process_surroundings *surroundings)
{
	struct executable *executable = find_known(list, mapping, folder, surroundings);

	if (executable)
		use_executable(list, mapping, executable, surroundings);
	return executable && !executable_wants_file(executable);
}

static void open_living(struct mapping_list *list, struct mapping *mapping, const struct proc *proc,
			struct process_surroundings *surroundings)
{
	if (use_known(list, mapping, proc->files, surroundings))
		return;
	_cleanup_close_ int fd = mapped_file_open(proc->files, list, mapping);
	int rc = fd < 0 ? fd : use_file(list, mapping, fd, surroundings);
	if (rc && !mapping->executable)
		mapping->file = MAPPING_FILE_REFUSED;
	if (!rc)
		executable_note_folder(mapping->executable, proc->files);
}

static void open_all_living(struct mapping_list *list, const struct proc *proc,
			    struct process_surroundings *surroundings)
{
	uint32_t files = 0;

	for (uint32_t i = 0; i < list->count && files < EAGER_FILES_MAX; i++)
		if (list->mappings[i].file == MAPPING_FILE_UNKNOWN) {
			open_living(list, &list->mappings[i], proc, surroundings);
			files++;
		}
}

static bool wants_file(const struct mapping *mapping)
{
	return mapping->file == MAPPING_FILE_UNKNOWN ||
	       (mapping->executable && executable_wants_file(mapping->executable));
}

int process_entry_open_file(struct process_entry *entry, struct mapping *mapping,
			    struct process_surroundings *surroundings)
{
	uint64_t now = clock_monotonic_ns();
	struct proc proc;

	if (!wants_file(mapping) || use_known(entry->mappings, mapping, -1, surroundings))
		return 0;
	if (entry->gone && mapping->executable && now < entry->reopen_ns)
		return 0;
	entry->reopen_ns = now + REOPEN_NS;
	int rc = open_proc(entry, &proc);
	if (rc)
		return rc == -ESRCH ? rc : 0;
	open_living(entry->mappings, mapping, &proc, surroundings);
	proc_close(&proc);
	return 0;
}

void process_entry_open_files(struct process_entry *entry,
			      struct process_surroundings *surroundings)
{
	struct mapping_list *list = entry->mappings;
	bool unknown = false;
	struct proc proc;

	for (uint32_t i = 0; list && i < list->count; i++)
		if (list->mappings[i].file == MAPPING_FILE_UNKNOWN)
			unknown |= !use_known(list, &list->mappings[i], -1, surroundings);
	if (!unknown || open_proc(entry, &proc))
		return;
	open_all_living(list, &proc, surroundings);
	proc_close(&proc);
}

/* By path alone, which may lead to another file there: only one that is known to be the same will do. */
static int open_in_root(struct mapping_list *list, struct mapping *mapping, int folder,
			struct process_surroundings *surroundings)
{
	const char *path = mapping_path(list, mapping);
	bool is_told = mapping->inode || mapping->build_id;

	if (!is_vdso(list, mapping) && (path[0] != '/' || !is_told))
		return -ENOENT;
	_cleanup_close_ int fd = is_vdso(list, mapping)
					 ? mapped_file_open(folder, list, mapping)
					 : foreign_file_open(folder, path, mapping->inode);
	return fd < 0 ? fd : use_file(list, mapping, fd, surroundings);
}

int process_entry_open_file_of(struct process_entry *entry, struct mapping *mapping,
			       struct process_entry *other,
			       struct process_surroundings *surroundings)
{
	struct proc proc;
	int rc = other ? open_proc(other, &proc) : proc_open(getpid(), &proc);

	if (rc)
		return rc;
	if (other && other->mappings == entry->mappings) // it maps the very same
		open_living(entry->mappings, mapping, &proc, surroundings);
	else
		open_in_root(entry->mappings, mapping, proc.files, surroundings);
	proc_close(&proc);
	return wants_file(mapping) ? -ENOENT : 0;
}

void process_entry_refuse_file(struct process_entry *entry, struct mapping *mapping,
			       struct process_surroundings *surroundings)
{
	const char *build_id = mapping_build_id(entry->mappings, mapping);
	struct executable *executable = NULL;

	if (mapping->executable)
		return;
	if (build_id[0])
		executable = executable_table_add_id(surroundings->executables, build_id,
						     mapping_path(entry->mappings, mapping));
	if (executable)
		use_executable(entry->mappings, mapping, executable, surroundings);
	else if (entry->mappings->holders == 1) // another process may still open it
		mapping->file = MAPPING_FILE_REFUSED;
}

/* ---- mappings ------------------------------------------------------------------------------ */

void process_entry_set_mappings(struct process_entry *entry, struct mapping_list *list,
				struct process_surroundings *surroundings)
{
	if (!list)
		return;
	mapping_list_release(entry->mappings);
	entry->mappings = list;
	entry->mappings_read_ns = clock_monotonic_ns();
	entry->outdated = false;
	renew_generation(list, surroundings);
}

static int read_mappings(struct process_entry *entry, const struct proc *proc,
			 struct process_surroundings *surroundings)
{
	_cleanup_close_ int fd = openat(proc->files, "maps", O_RDONLY | O_CLOEXEC);
	struct mapping_list *list;

	if (fd < 0)
		return -errno;
	int rc = mapping_list_read(fd, &list);
	if (rc)
		return rc;
	if (!list->count && entry->mappings) { // exiting: what was known says more
		mapping_list_release(list);
		return -ESRCH;
	}
	if (mapping_list_equals(list, entry->mappings)) { // may be shared: kept
		mapping_list_release(list);
		return 0;
	}
	mapping_list_inherit(list, entry->mappings);
	open_all_living(list, proc, surroundings);
	process_entry_set_mappings(entry, list, surroundings);
	return 0;
}

/*
 * Reading maps holds up the process's own page faults: the longer it takes, the rarer it is done.
 * The time to wait until the next read is set for one that helped.
 */
static void refresh_mappings(struct process_entry *entry, struct process_surroundings *surroundings,
			     uint64_t now)
{
	struct proc proc;

	entry->mappings_read_ns = entry->refreshed_ns = now;
	entry->outdated = false;
	if (open_proc(entry, &proc))
		return;
	read_mappings(entry, &proc, surroundings);
	proc_close(&proc);

	entry->mappings_wait_ns = 100 * (clock_monotonic_ns() - now);
}

static uint64_t longer_wait(uint64_t wait_ns)
{
	if (wait_ns < MAPPINGS_WAIT_MIN_NS)
		return MAPPINGS_WAIT_MIN_NS;
	return wait_ns < MAPPINGS_WAIT_MAX_NS / 2 ? wait_ns * 2 : MAPPINGS_WAIT_MAX_NS;
}

static bool is_outdated(const struct process_entry *entry,
			const struct process_surroundings *surroundings)
{
	return entry->mappings && surroundings->follows_mmaps &&
	       (entry->outdated || entry->mappings_read_ns < surroundings->lost_ns);
}

void process_entry_refresh_lost(struct process_entry *entry,
				struct process_surroundings *surroundings)
{
	uint64_t now = clock_monotonic_ns(), wait = entry->mappings_wait_ns;

	if (wait < MAPPINGS_OUTDATED_NS)
		wait = MAPPINGS_OUTDATED_NS;
	if (is_outdated(entry, surroundings) &&
	    (!entry->refreshed_ns || now - entry->refreshed_ns >= wait))
		refresh_mappings(entry, surroundings, now);
}

/* How old mappings may be: those in which an address was found, and those in which it was not. */
static uint64_t age_max(const struct process_entry *entry, bool found,
			const struct process_surroundings *surroundings)
{
	if (!found)
		return entry->mappings_wait_ns;
	return surroundings->follows_mmaps ? MAPPINGS_STALE_FOLLOWED_NS : MAPPINGS_STALE_NS;
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
					   struct process_surroundings *surroundings,
					   uint64_t address)
{
	process_entry_refresh_lost(entry, surroundings);
	uint64_t now = clock_monotonic_ns();

	entry->used_ns = now;
	if (!is_users(entry, address))
		return NULL;
	struct mapping *mapping = mapping_list_find(entry->mappings, address);
	if (now - entry->mappings_read_ns < age_max(entry, mapping, surroundings))
		return mapping;

	uint64_t wait = entry->mappings_wait_ns;
	refresh_mappings(entry, surroundings, now);
	mapping = mapping_list_find(entry->mappings, address);
	if (!mapping && entry->mappings_wait_ns < longer_wait(wait))
		entry->mappings_wait_ns = longer_wait(wait);
	return mapping;
}

/* ---- the kernel's events -------------------------------------------------------------------- */

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

/* A list of this process alone: children that it forked keep theirs. */
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

/* A process that maps more than we want to follow is read again when it is asked for. */
static bool may_change(struct process_entry *entry)
{
	if (!entry->mappings || entry->outdated)
		return false;
	entry->moved_count += entry->mappings->count;
	entry->outdated = entry->moved_count > MOVED_MAX || own_mappings(entry);
	return !entry->outdated;
}

/* @rc as mapping_list_put() returned it. */
static void note_change(struct process_entry *entry, int rc,
			struct process_surroundings *surroundings)
{
	if (rc > 0)
		renew_generation(entry->mappings, surroundings);
	entry->outdated |= rc < 0;
}

void process_entry_apply_mmap(struct process_entry *entry, const struct mmap_event *event,
			      struct process_surroundings *surroundings)
{
	if (may_change(entry))
		note_change(entry, mapping_list_apply(entry->mappings, event), surroundings);
}

void process_entry_add_mappings(struct process_entry *entry, const struct mapping_list *list,
				struct process_surroundings *surroundings)
{
	for (uint32_t i = 0; i < list->count && may_change(entry); i++) {
		const struct mapping *mapping = &list->mappings[i];
		int rc = mapping_list_put(entry->mappings, mapping, mapping_path(list, mapping),
					  mapping_build_id(list, mapping));

		note_change(entry, rc, surroundings);
	}
}

/* ---- generated code ------------------------------------------------------------------------- */

static void read_jit(struct process_entry *entry, bool known,
		     struct process_surroundings *surroundings)
{
	uint64_t now = clock_monotonic_ns();
	size_t before = process_jit_bytes(entry->jit);
	bool was_full = process_jit_is_full(entry->jit);
	struct proc proc;

	if (!process_jit_wants_read(entry->jit, known, now))
		return;
	if (surroundings->jit_bytes >= JIT_BYTES_MAX) {
		surroundings->jit_refused++;
		return;
	}
	if (open_proc(entry, &proc))
		return;
	process_jit_read(entry->jit, &proc, entry->mappings, now);
	proc_close(&proc);
	surroundings->jit_bytes += process_jit_bytes(entry->jit) - before;
	surroundings->jit_cut += process_jit_is_full(entry->jit) && !was_full;
}

const char *process_entry_jit_name(struct process_entry *entry, uint64_t address,
				   struct process_surroundings *surroundings)
{
	if (!entry->jit)
		entry->jit = process_jit_new();
	if (!entry->jit)
		return NULL;
	read_jit(entry, process_jit_find(entry->jit, address), surroundings);
	return process_jit_find(entry->jit, address);
}

uint64_t process_entry_jit_version(struct process_entry *entry,
				   struct process_surroundings *surroundings)
{
	if (!entry->jit)
		return 0;
	read_jit(entry, false, surroundings);
	return process_jit_version(entry->jit);
}

/* ---- what the table asks for ---------------------------------------------------------------- */

static int describe_living(struct process_entry *entry, const struct proc *proc,
			   struct process_surroundings *surroundings)
{
	snprintf(entry->process.name, sizeof(entry->process.name), "%.*s",
		 (int)sizeof(entry->process.name) - 1, proc->stat.name);
	utf8_clean(entry->process.name);
	entry->kernel_thread = proc->stat.kernel_thread;
	if (entry->mappings) {
		open_all_living(entry->mappings, proc, surroundings);
	} else if (!entry->kernel_thread) {
		entry->mappings_read_ns = entry->refreshed_ns = clock_monotonic_ns();
		read_mappings(entry, proc, surroundings);
	}
	return read_labels(entry, proc, surroundings);
}

static int describe_gone(struct process_entry *entry, struct process_surroundings *surroundings)
{
	struct process_traits traits = {
		.name = entry->process.name,
		.node = surroundings->node,
	};

	entry->label_again_ns = 0;
	entry->gone = true; // or not to be read, which is the same here
	return entry->labels ? 0 : detect_labels(entry, &traits, surroundings);
}

static int describe_itself(struct process_entry *entry, struct process_surroundings *surroundings)
{
	struct proc proc;

	if (open_proc(entry, &proc))
		return describe_gone(entry, surroundings);
	int rc = describe_living(entry, &proc, surroundings);
	proc_close(&proc);
	return rc;
}

/*
 * A child is at first what its parent is. /proc may show already what it becomes by exec, which has
 * another entry: only a child that lives on is looked at itself.
 */
static bool is_copy(struct process_entry *entry, struct process_entry *parent,
		    struct process_surroundings *surroundings)
{
	if (parent && !parent->kernel_thread && !entry->labels &&
	    process_entry_describe(parent, NULL, surroundings) == 0 && parent->mappings)
		process_entry_inherit(entry, parent);
	return entry->labels != NULL;
}

int process_entry_describe(struct process_entry *entry, struct process_entry *parent,
			   struct process_surroundings *surroundings)
{
	uint64_t now = clock_monotonic_ns();
	int rc = 0;

	if (entry->described && (!entry->label_again_ns || now < entry->label_again_ns))
		return 0;
	if (!entry->described && is_copy(entry, parent, surroundings))
		entry->label_again_ns = now + LABEL_AGAIN_NS;
	else
		rc = describe_itself(entry, surroundings);
	entry->described = !rc;
	surroundings->described++;
	return rc;
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
