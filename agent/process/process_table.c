// SPDX-License-Identifier: Apache-2.0
#include "agent/process/process_table.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/last_use.h"
#include "agent/process/early_mappings.h"
#include "agent/process/proc.h"
#include "agent/process/process_entry.h"
#include "agent/process/process_index.h"
#include "base/utf8.h"

// The mappings of a process that was not sampled for so long are freed, and read again if need be.
#define PROCESS_IDLE_NS (10 * 60 * NS_PER_SECOND)

enum {
	// Past this many, process_table_expire() evicts: exited ones first, then the least recently sampled.
	PROCESSES_KEPT = PROCESSES_MAX - PROCESSES_MAX / 8,
	// Exit events can be lost: each process_table_expire() checks the next so many.
	LIVENESS_CHECKS = 128,
	ANCESTORS_MAX = 4, // searched for the files of an exited process: shells of shells
};

struct process_table {
	struct process_context context;
	struct process_index index;
	uint32_t checked;           // where the next liveness checks go on
	uint64_t remapped;          // see process_table_remapped()
	struct mmap_events *events; // NULL: mappings are only read from /proc
	struct early_mappings early;
	uint64_t exported_ns; // when an export interval last ended
};

static void set_name(struct process_entry *entry, const char *name)
{
	size_t size = name ? strnlen(name, sizeof(entry->process.name) - 1) : 0;

	if (!size)
		return;
	memcpy(entry->process.name, name, size);
	entry->process.name[size] = '\0';
	utf8_clean(entry->process.name);
}

/* ---- public: life and scan ----------------------------------------------------------------- */

struct process_table *process_table_new(struct executable_table *executables,
					const struct labels *extra_labels)
{
	struct process_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->context.executables = executables;
	table->index.work = &table->context.work;
	if (gethostname(table->context.node, sizeof(table->context.node) - 1))
		table->context.node[0] = '\0';
	if (extra_labels && labels_copy(extra_labels, &table->context.extra_labels)) {
		free(table);
		return NULL;
	}
	return table;
}

void process_table_free(struct process_table *table)
{
	if (!table)
		return;
	process_index_deinit(&table->index);
	labels_deinit(&table->context.extra_labels);
	early_mappings_clear(&table->early);
	executable_release(table->context.vdso);
	free(table);
}

/* Reads the start time only: labels and mappings are read at the first sample, which most processes never have. */
static int scan_process(struct process_table *table, uint32_t pid)
{
	struct proc proc;
	uint32_t item;

	if (process_index_find_pid(&table->index, pid) != HASH_TABLE_NONE ||
	    proc_open((pid_t)pid, &proc))
		return 0;
	proc_close(&proc);

	struct process_key key = {
		.pid = pid,
		.start_ns = proc.stat.start_ticks * (NS_PER_SECOND / PROC_TICKS_PER_SECOND),
	};
	struct process_entry *entry = process_index_add(&table->index, &key, &item);
	if (!entry)
		return -ENOMEM;
	set_name(entry, proc.stat.name);
	entry->kernel_thread = proc.stat.kernel_thread;
	if (process_index_add_pid(&table->index, item)) {
		process_index_evict(&table->index, item);
		return -ENOMEM;
	}
	return 0;
}

int process_table_scan(struct process_table *table, struct error *err)
{
	DIR *folder = opendir("/proc");
	struct dirent *process;
	int rc = 0;

	if (!folder)
		return error_errno(err, -errno, "processes: open /proc");
	while (!rc && process_index_count(&table->index) < PROCESSES_MAX &&
	       (process = readdir(folder)))
		if (isdigit((unsigned char)process->d_name[0]))
			rc = scan_process(table, (uint32_t)strtoul(process->d_name, NULL, 10));
	closedir(folder);
	return rc ? error_set(err, rc, "processes: out of memory") : 0;
}

/* ---- public: events ------------------------------------------------------------------------ */

static void apply_fork(struct process_table *table, const struct process_record *record)
{
	struct process_entry *parent = process_index_at(
		&table->index, process_index_find_pid(&table->index, record->parent_pid));
	struct process_entry *child =
		process_index_look_up(&table->index, &record->process,
				      process_index_count(&table->index) < PROCESSES_MAX);
	struct mapping_list *mappings = early_mappings_claim(&table->early, record->process.pid,
							     EARLY_FORK, clock_monotonic_ns());

	if (child)
		set_name(child, record->name);
	if (child && parent) {
		child->parent_pid = parent->process.key.pid;
		child->parent_start_ns = parent->process.key.start_ns;
		child->ancestor = parent->process.key;
		process_entry_inherit(child, parent);
	}
	if (child && mappings)
		process_entry_add_mappings(child, mappings, &table->context);
	mapping_list_release(mappings);
}

/* An entry of /proc is the next program's, too, if nothing else came of the held one. */
static void end_hold(struct process_entry *entry)
{
	if (entry->is_held)
		entry->is_held = entry->process.budget.is_left_alone = false;
}

static void apply_exec(struct process_table *table, const struct process_record *record)
{
	struct process_entry *entry =
		process_index_look_up(&table->index, &record->process,
				      process_index_count(&table->index) < PROCESSES_MAX);

	struct mapping_list *mappings = early_mappings_claim(&table->early, record->process.pid,
							     EARLY_EXEC, clock_monotonic_ns());

	if (!entry) {
		mapping_list_release(mappings);
		return;
	}
	end_hold(entry);
	set_name(entry, record->name);
	process_entry_set_mappings(entry, mappings, &table->context);
}

static void apply_exit(struct process_table *table, const struct process_record *record)
{
	if (process_index_look_up(&table->index, &record->process, false))
		process_index_retire(&table->index,
				     process_index_find_key(&table->index, &record->process));
}

void process_table_apply(struct process_table *table, const struct process_record *record)
{
	// What a parent mapped before it forked, and what exec mapped, comes before the record.
	if (record->event != PROCESS_EXIT)
		process_table_read_mmaps(table);
	switch (record->event) {
	case PROCESS_FORK:
		apply_fork(table, record);
		break;
	case PROCESS_EXEC:
		apply_exec(table, record);
		break;
	case PROCESS_EXIT:
		apply_exit(table, record);
		break;
	}
}

void process_table_follow(struct process_table *table, struct mmap_events *events)
{
	table->events = events;
	table->context.has_events = events != NULL;
}

static void apply_mmap(void *table, const struct mmap_event *event)
{
	process_table_apply_mmap(table, event);
}

struct process *process_table_find(struct process_table *table, const struct process_key *key)
{
	struct process_entry *entry =
		process_index_at(&table->index, process_index_find_key(&table->index, key));

	return entry ? &entry->process : NULL;
}

const struct process *process_table_parent(const struct process_table *table,
					   const struct process *process)
{
	const struct process_entry *parent =
		process_index_parent(&table->index, (const struct process_entry *)process);

	return parent ? &parent->process : NULL;
}

uint64_t process_table_remapped(const struct process_table *table)
{
	return table->remapped;
}

void process_table_read_mmaps(struct process_table *table)
{
	if (table->events)
		mmap_events_read(table->events, apply_mmap, table);
}

static void map_range(struct process_table *table, const struct mmap_event *event)
{
	uint64_t now = clock_monotonic_ns();
	struct process_entry *entry =
		process_index_at(&table->index, process_index_find_pid(&table->index, event->pid));

	if (entry) // its fork event was lost, and it was read since
		mapping_list_release(
			early_mappings_claim(&table->early, event->pid, EARLY_FORK, now));
	struct mapping_list *early = early_mappings_find(&table->early, event->pid, now);
	if (!early && entry) {
		uint64_t before = process_mappings_generation(&entry->process);

		process_entry_apply_mmap(entry, event, &table->context);
		table->remapped += process_mappings_generation(&entry->process) != before;
		return;
	}
	if (!early)
		early = early_mappings_begin(&table->early, event->pid, EARLY_FORK, now);
	if (early)
		mapping_list_apply(early, event); // without memory an address in it is not found
}

void process_table_apply_mmap(struct process_table *table, const struct mmap_event *event)
{
	switch (event->kind) {
	case MMAP_EVENT_MAP:
		map_range(table, event);
		break;
	case MMAP_EVENT_EXEC:
		early_mappings_begin(&table->early, event->pid, EARLY_EXEC, clock_monotonic_ns());
		break;
	case MMAP_EVENT_LOST:
		early_mappings_clear(&table->early);
		table->context.lost_ns = clock_monotonic_ns();
		break;
	}
}

/* ---- public: look-ups ---------------------------------------------------------------------- */

struct process *process_table_get(struct process_table *table, const struct process_key *key,
				  const char *name)
{
	struct process_entry *entry = process_index_look_up(&table->index, key, true);

	if (!entry)
		return NULL;
	if (!entry->process.name[0])
		set_name(entry, name);
	entry->used_ns = clock_monotonic_ns();
	// Without memory it has no labels: the next call tries again.
	process_entry_describe(entry, process_index_parent(&table->index, entry), &table->context);
	return &entry->process;
}

/* Open the mapping's file in the process's view, else in an ancestor's, else in the agent's own. */
static void open_file(struct process_table *table, struct process_entry *entry,
		      struct mapping *mapping)
{
	struct process_entry *other = entry;

	if (process_entry_open_file(entry, mapping, &table->context) != -ESRCH)
		return;
	for (int i = 0; i < ANCESTORS_MAX && (other = process_index_ancestor(&table->index, other));
	     i++)
		if (!process_entry_open_file_of(entry, mapping, other, &table->context))
			return;
	if (process_entry_open_file_of(entry, mapping, NULL, &table->context))
		process_entry_refuse_file(entry, mapping, &table->context);
}

/* A forked child has its parent's JIT code, which only the parent's perf map lists. */
static const char *find_jit_name(struct process_table *table, struct process_entry *entry,
				 uint64_t address)
{
	const char *name = process_entry_jit_name(entry, address, &table->context);
	struct process_entry *parent = name ? NULL : process_index_parent(&table->index, entry);

	if (!parent || !parent->mappings)
		return name;
	return process_entry_jit_name(parent, address, &table->context);
}

int process_find_code(struct process_table *table, struct process *process, uint64_t address,
		      struct code_address *ret_code)
{
	struct process_entry *entry = (struct process_entry *)process;

	if (!process_entry_maps(entry, address))
		process_table_read_mmaps(table);
	struct mapping *mapping = process_entry_find_mapping(entry, &table->context, address);
	if (mapping)
		open_file(table, entry, mapping);
	int rc = process_entry_code(entry, mapping, address, ret_code);
	if (ret_code->is_jit)
		ret_code->jit_name = find_jit_name(table, entry, address);
	return rc;
}

const struct mapping_list *process_mappings(struct process_table *table, struct process *process)
{
	struct process_entry *entry = (struct process_entry *)process;

	// Without memory for labels it may still have mappings.
	process_entry_describe(entry, process_index_parent(&table->index, entry), &table->context);
	process_entry_refresh_lost(entry, &table->context);
	process_entry_open_files(entry, &table->context);
	return entry->mappings;
}

uint64_t process_mappings_generation(const struct process *process)
{
	const struct process_entry *entry = (const struct process_entry *)process;

	return entry->mappings ? entry->mappings->generation : 0;
}

uint64_t process_table_jit_version(struct process_table *table, const struct process_key *key)
{
	struct process_entry *entry =
		process_index_at(&table->index, process_index_find_key(&table->index, key));
	struct process_entry *parent = entry ? process_index_parent(&table->index, entry) : NULL;

	if (!entry)
		return PROCESS_JIT_UNKNOWN;
	return process_entry_jit_version(entry, &table->context) +
	       (parent ? process_entry_jit_version(parent, &table->context) : 0);
}

bool process_table_has_ended(struct process_table *table, const struct process_key *key)
{
	const struct process *process = process_table_find(table, key);
	uint32_t item = process_index_find_pid(&table->index, key->pid);
	struct proc proc;

	if (process)
		return process->exited;
	if (item != HASH_TABLE_NONE) // another has its pid
		return !process_index_is_later(key, table->index.entries[item]);
	int rc = proc_open((pid_t)key->pid, &proc);
	if (rc)
		return rc == -ESRCH;
	bool is_same = proc.stat.start_ticks == process_start_ticks(key->start_ns);
	proc_close(&proc);
	return !is_same;
}

/* ---- public: expiry ------------------------------------------------------------------------ */

static bool is_alive(const struct process_entry *entry)
{
	return kill((pid_t)entry->process.key.pid, 0) == 0 || errno != ESRCH;
}

static void check_liveness(struct process_table *table)
{
	for (uint32_t i = 0; i < LIVENESS_CHECKS && i < table->index.slot_count; i++) {
		uint32_t item = table->checked++ % table->index.slot_count;
		struct process_entry *entry = table->index.entries[item];

		if (entry && !entry->process.exited && !is_alive(entry))
			process_index_retire(&table->index, item);
	}
}

/* What was measured since the last time has been shipped, but for what waits. */
static void note_export(const struct process_table *table, struct process_entry *entry,
			uint64_t now)
{
	entry->was_exported |=
		entry->used_ns >= table->exported_ns && ns_between(entry->process.pod_wait_ns, now);
}

static void free_idle_mappings(struct process_entry *entry, uint64_t now)
{
	entry->moved_count = 0;
	if (entry->process.exited || !entry->mappings || now - entry->used_ns < PROCESS_IDLE_NS)
		return;
	mapping_list_release(entry->mappings);
	entry->mappings = NULL;
}

/* The least recently sampled processes lose their JIT names first. */
static void evict_excess_jit(struct process_table *table)
{
	while (table->context.jit_bytes > JIT_BYTES_MAX / 4 * 3) {
		struct process_entry *oldest = NULL;

		for (uint32_t i = 0; i < table->index.slot_count; i++) {
			struct process_entry *entry = table->index.entries[i];

			if (entry && entry->jit && (!oldest || entry->used_ns < oldest->used_ns))
				oldest = entry;
		}
		if (!oldest)
			return;
		table->context.jit_bytes -= process_jit_bytes(oldest->jit);
		process_jit_free(oldest->jit);
		oldest->jit = NULL;
	}
}

static void count_jit(struct process_table *table)
{
	table->context.jit_bytes = 0;
	for (uint32_t i = 0; i < table->index.slot_count; i++)
		if (table->index.entries[i] && table->index.entries[i]->jit)
			table->context.jit_bytes += process_jit_bytes(table->index.entries[i]->jit);
}

static void evict_excess(struct process_table *table, uint64_t excess)
{
	_cleanup_free_ struct last_use *candidates =
		calloc(table->index.slot_count, sizeof(*candidates));
	uint32_t count = 0;

	if (!candidates)
		return; // in the next interval
	for (uint32_t i = 0; i < table->index.slot_count; i++) {
		const struct process_entry *entry = table->index.entries[i];

		// Exited ones first.
		if (entry)
			candidates[count++] =
				(struct last_use){ entry->process.exited ? 0 : entry->used_ns, i };
	}
	qsort(candidates, count, sizeof(*candidates), last_use_compare);
	for (uint32_t i = 0; i < count && i < excess; i++)
		process_index_evict(&table->index, candidates[i].item);
}

void process_table_expire(struct process_table *table, uint64_t age_ns)
{
	work_pool_renew(&table->context.work);
	check_liveness(table);
	uint64_t now = clock_monotonic_ns(); // after those that it retires
	for (uint32_t i = 0; i < table->index.slot_count; i++) {
		struct process_entry *entry = table->index.entries[i];

		if (entry && table->context.pods)
			note_export(table, entry, now);
		if (entry && entry->process.exited && now - entry->exited_ns > age_ns)
			process_index_evict(&table->index, i);
		else if (entry)
			free_idle_mappings(entry, now);
	}
	table->exported_ns = now;
	if (process_index_count(&table->index) > PROCESSES_KEPT)
		evict_excess(table, process_index_count(&table->index) - PROCESSES_KEPT);
	count_jit(table);
	evict_excess_jit(table);
	executable_table_trim(table->context.executables);
}

void process_table_put_off_large_files(struct process_table *table, uint64_t bytes)
{
	table->context.put_off_bytes = bytes;
}

void process_table_leave_alone(struct process_table *table, pid_t pid)
{
	struct process_entry *entry = process_index_at(
		&table->index, process_index_find_pid(&table->index, (uint32_t)pid));

	if (entry)
		entry->is_held = entry->process.budget.is_left_alone = true;
}

struct work_pool *process_table_work(struct process_table *table)
{
	return &table->context.work;
}

void process_table_allow_attributes(struct process_table *table, const char *patterns)
{
	table->context.attribute_patterns = patterns;
}

uint64_t process_table_attributes_refused(const struct process_table *table)
{
	return table->context.attributes_refused;
}

void process_table_use_pods(struct process_table *table, struct pod_table *pods)
{
	table->context.pods = pods;
}

uint64_t process_table_pods_late(const struct process_table *table)
{
	return table->context.pods_late;
}

void process_table_use_containers(struct process_table *table, struct container_records *containers)
{
	table->context.containers = containers;
}

void process_table_use_rules(struct process_table *table, const struct relabel_rules *rules)
{
	table->context.rules = rules;
}

void process_table_read_relabeled(const struct process_table *table,
				  struct relabel_stats *ret_stats)
{
	*ret_stats = table->context.relabeled;
}

uint64_t process_table_count(const struct process_table *table)
{
	return process_index_count(&table->index);
}

void process_table_read_jit_losses(const struct process_table *table,
				   struct process_jit_losses *ret_losses)
{
	*ret_losses = (struct process_jit_losses){
		.cut = table->context.jit_cut,
		.refused = table->context.jit_refused,
	};
}

uint64_t process_table_sampled_version(const struct process_table *table)
{
	return table->context.described + table->index.changes;
}

void process_table_each_sampled(const struct process_table *table,
				void (*fn)(void *context, const struct process *process),
				void *context)
{
	for (uint32_t i = 0; i < table->index.slot_count; i++) {
		const struct process_entry *entry = table->index.entries[i];

		if (entry && entry->described && entry->exact && !entry->process.exited &&
		    !entry->kernel_thread && !entry->process.is_excluded)
			fn(context, &entry->process);
	}
}
