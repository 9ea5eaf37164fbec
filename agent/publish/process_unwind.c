// SPDX-License-Identifier: Apache-2.0
#include "agent/publish/process_unwind.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/publish/jit_code.h"
#include "agent/process/mapping.h"
#include "agent/publish/process_code.h"
#include "agent/publish/published_processes.h"
#include "agent/publish/published_python.h"
#include "agent/publish/unwind_eviction.h"
#include "agent/publish/unwind_tables.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash_table.h"

enum {
	LIVENESS_CHECKS = 256, // processes checked per expire()
	MISSING_TRIES = 3,     // lookups of an address without a mapping, one per expire()
};

/* Before a retry after lack of memory or descriptors. */
#define AGAIN_NS NS_PER_SECOND
/* JIT functions come one after the other. */
#define GENERATED_AGAIN_NS (50 * NS_PER_MS)
/* Before a retry of a file whose table had no space. */
#define NO_ROOM_AGAIN_NS (30 * NS_PER_SECOND)
/*
 * A process may map without end: wait so many times the duration of a publication before the next one, less if a
 * stack could not be unwound for want of it.
 */
#define REST_TIMES         50
#define REST_TIMES_MISSING 10
#define REST_MAX_NS        NS_PER_SECOND
#define KEPT_DEFAULT_NS    (60 * NS_PER_SECOND)
/* Snapshots of an exited process are unwound by then, or wait for tables. */
#define EXITED_KEPT_NS     (200 * NS_PER_MS)
#define EXITED_KEPT_MAX_NS (3 * NS_PER_SECOND)

struct process_unwinds {
	const struct unwind_maps *maps;
	struct process_table *processes;
	struct published_python python;
	struct published *finding; // whose interpreter is being searched; NULL: none
	uint64_t remapped;         // process_table_remapped() at the last refresh
	struct unwind_tables *tables;
	struct published_processes published;
	uint32_t exited_count;
	uint64_t again_due_ns;  // when some process is to be published again; 0: none
	uint64_t exited_due_ns; // when some exited process may be dropped
	uint32_t checked;       // next record to check for liveness
	uint32_t page_count_max;
	uint64_t bytes_max;
	uint64_t kept_ns;
	struct event_log *events;
	struct process_unwind_stats stats;
	struct process_code code; // reused by each publication
};

// ---- records --------------------------------------------------------------------------------

static struct published *find(const struct process_unwinds *unwinds, uint32_t pid)
{
	return published_processes_find(&unwinds->published, pid);
}

static void release_files(struct process_unwinds *unwinds, uint32_t *files, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		unwind_tables_release(unwinds->tables, files[i]);
	free(files);
}

// Tables may use what pages leave.
static void share_budget(struct process_unwinds *unwinds)
{
	unwind_tables_limit(unwinds->tables,
			    unwinds->bytes_max - (uint64_t)unwinds->published.page_count *
							 MAPPING_PAGE_KERNEL_BYTES);
}

static void drop(struct process_unwinds *unwinds, struct published *record)
{
	unwinds->exited_count -= record->exited_ns != 0;
	published_python_drop(&unwinds->python, record);
	release_files(unwinds, record->files, record->file_count);
	mapping_list_release(record->list);
	jit_code_free(record->jit);
	published_processes_remove(&unwinds->published, record);
	share_budget(unwinds);
}

// Dropped in a moment: snapshots of it may still wait.
static void mark_exited(struct process_unwinds *unwinds, struct published *record)
{
	if (record->exited_ns)
		return;
	record->exited_ns = clock_monotonic_ns();
	if (!unwinds->exited_count++)
		unwinds->exited_due_ns = record->exited_ns + EXITED_KEPT_NS;
}

static bool may_drop(const struct published *record, uint64_t now)
{
	return record->exited_ns &&
	       now - record->exited_ns >= (record->pending ? EXITED_KEPT_MAX_NS : EXITED_KEPT_NS);
}

static void drop_exited(struct process_unwinds *unwinds)
{
	uint64_t now = unwinds->exited_count ? clock_monotonic_ns() : 0;

	if (!unwinds->exited_count || now < unwinds->exited_due_ns)
		return;
	unwinds->exited_due_ns = now + EXITED_KEPT_NS;
	for (uint32_t i = 0; i < unwinds->published.slot_count; i++)
		if (may_drop(&unwinds->published.records[i], now))
			drop(unwinds, &unwinds->published.records[i]);
}

// ---- eviction -------------------------------------------------------------------------------

static void withdraw(void *context, struct published *record)
{
	struct process_unwinds *unwinds = context;

	drop(unwinds, record);
	unwinds->stats.dropped++;
}

// Processes of this build of Python wait for a place, or go on with native stacks.
static void withdraw_runtime(void *context, uint32_t runtime)
{
	struct process_unwinds *unwinds = context;

	unwinds->python.written[runtime] = false;
	for (uint32_t i = 0; i < unwinds->published.slot_count; i++) {
		struct published *record = &unwinds->published.records[i];

		if (!record->key.pid || record->python.runtime != runtime)
			continue;
		if (record == unwinds->finding) // it is published again in a moment
			published_python_drop(&unwinds->python, record);
		else
			withdraw(unwinds, record);
	}
}

// But never @kept.
static void evict_least_recently_used(struct process_unwinds *unwinds, const struct published *kept)
{
	unwind_evict_processes(&unwinds->published, kept, withdraw, unwinds);
}

static void evict_for_pages(struct process_unwinds *unwinds, const struct published *kept,
			    uint32_t wanted)
{
	uint32_t before = UINT32_MAX;

	while (unwinds->published.page_count + wanted > unwinds->page_count_max &&
	       unwinds->published.page_count < before) {
		before = unwinds->published.page_count;
		evict_least_recently_used(unwinds, kept);
	}
}

// ---- publishing -----------------------------------------------------------------------------

static int write_process(struct process_unwinds *unwinds, struct published *record)
{
	uint32_t count = mapping_pages_count(&unwinds->code.pages);

	if (!published_has(record, &unwinds->code.pages)) {
		evict_for_pages(unwinds, record, count);
		if (unwinds->published.page_count + count > unwinds->page_count_max)
			return -ENOSPC;
	}
	int rc = published_processes_write(&unwinds->published, record, &unwinds->code.pages);
	share_budget(unwinds);
	return rc;
}

// Holds the files first: nobody evicts what is in use. If writing fails, what was published stays held.
static int write_and_hold(struct process_unwinds *unwinds, struct published *record)
{
	const struct process_code *code = &unwinds->code;
	size_t size = code->file_count * sizeof(*code->files);
	uint32_t *files = malloc(size ? size : 1);

	if (!files)
		return -ENOMEM;
	if (size)
		memcpy(files, code->files, size);
	for (uint32_t i = 0; i < code->file_count; i++)
		unwind_tables_hold(unwinds->tables, files[i]);
	int rc = write_process(unwinds, record);
	if (rc) {
		release_files(unwinds, files, code->file_count);
		return rc;
	}
	release_files(unwinds, record->files, record->file_count);
	record->files = files;
	record->file_count = code->file_count;
	return 0;
}

static void publish_at(struct process_unwinds *unwinds, struct published *record, uint64_t time_ns)
{
	if (!record->again_ns || record->again_ns > time_ns)
		record->again_ns = time_ns;
	if (!unwinds->again_due_ns || unwinds->again_due_ns > time_ns)
		unwinds->again_due_ns = time_ns;
}

static bool take_flag(bool *flag)
{
	bool was_set = *flag;

	*flag = false;
	return was_set;
}

// Keeps the list while a table is missing, to write pages again.
static void wait_for_tables(struct process_unwinds *unwinds, struct published *record,
			    const struct mapping_list *list)
{
	const uint32_t *states = unwinds->code.states;
	bool is_complete = !unwinds->code.unidentified && !states[UNWIND_FILE_PENDING] &&
			   !states[UNWIND_FILE_NO_SPACE] && !states[UNWIND_FILE_UNOPENED] &&
			   !states[UNWIND_FILE_IDLE];
	struct mapping_list *held =
		is_complete ? NULL : mapping_list_hold((struct mapping_list *)list);

	mapping_list_release(record->list);
	record->list = held;
	record->pending = states[UNWIND_FILE_PENDING] != 0;
	record->again_ns = 0;
	// What was put off has a budget again in the next export interval.
	if (states[UNWIND_FILE_UNOPENED] || unwinds->code.unidentified)
		publish_at(unwinds, record, clock_monotonic_ns() + AGAIN_NS);
	else if (states[UNWIND_FILE_NO_SPACE])
		publish_at(unwinds, record, clock_monotonic_ns() + NO_ROOM_AGAIN_NS);
	if (record->python_again_ns)
		publish_at(unwinds, record, record->python_again_ns);
	if (take_flag(&record->jit_again))
		publish_at(unwinds, record, clock_monotonic_ns() + GENERATED_AGAIN_NS);
}

// Samples that need one of these come as snapshots and are unwound later.
static uint32_t pending_tables(const uint32_t *states)
{
	return states[UNWIND_FILE_PENDING] + states[UNWIND_FILE_UNOPENED] +
	       states[UNWIND_FILE_IDLE];
}

// A JIT compiler writes functions after it has mapped memory, and one scan may not find all.
static void scan_jit(struct process_unwinds *unwinds, struct published *record,
		     const struct mapping_list *list)
{
	struct process *process = process_table_find(unwinds->processes, &record->key);
	bool is_new = record->scanned_generation != list->generation;
	struct work work;

	// Put off: process_unwind_expire() publishes again.
	if (!process || !jit_code_count(record->jit) ||
	    !work_begin(&work, &process->budget, "scanning JIT code"))
		return;
	if (jit_code_scan(record->jit, (pid_t)record->key.pid, list) || is_new)
		record->jit_again = true;
	work_end(&work);
	record->scanned_generation = list->generation;
}

static int publish(struct process_unwinds *unwinds, struct published *record,
		   const struct mapping_list *list)
{
	uint64_t began_ns = clock_monotonic_ns();
	int rc;

	scan_jit(unwinds, record, list);
	rc = process_code_collect(&unwinds->code, unwinds->tables, list, record->jit);
	record->tables_pending = pending_tables(unwinds->code.states);
	record->unidentified = unwinds->code.unidentified;
	record->unready = record->unidentified + unwinds->code.states[UNWIND_FILE_PENDING] +
			  unwinds->code.states[UNWIND_FILE_UNOPENED];
	if (!rc)
		rc = write_and_hold(unwinds, record);
	wait_for_tables(unwinds, record, list);
	unwinds->stats.mappings_dropped += unwinds->code.pages.cut;
	record->published_ns = clock_monotonic_ns();
	record->took_ns = record->published_ns - began_ns;
	if (rc) {
		unwinds->stats.publish_failed++;
		publish_at(unwinds, record, record->published_ns + AGAIN_NS);
	} else {
		unwinds->stats.published++;
	}
	return rc;
}

// ---- public: what happens to processes ----------------------------------------------------------

static uint64_t rest_of(const struct published *record, bool is_missing)
{
	uint64_t times = is_missing ? REST_TIMES_MISSING : REST_TIMES;

	return record->took_ns < REST_MAX_NS / times ? record->took_ns * times : REST_MAX_NS;
}

// Is there something to publish, and is it time? If it is too early, sets the time.
static bool is_due(struct process_unwinds *unwinds, struct published *record, uint64_t generation,
		   bool is_missing, uint64_t now)
{
	uint64_t rested_ns = record->published_ns + rest_of(record, is_missing);

	if (record->mappings_generation != generation) {
		if (now >= rested_ns)
			return true;
		publish_at(unwinds, record, rested_ns);
	}
	return (record->again_ns && now >= record->again_ns) ||
	       (record->python_again_ns && now >= record->python_again_ns);
}

static void find_python(struct process_unwinds *unwinds, struct published *record,
			struct process *process, const struct mapping_list *list)
{
	struct error cause = { 0 };

	unwinds->finding = record;
	published_python_find(&unwinds->python, record, list, &process->budget, &cause);
	unwinds->finding = NULL;
	if (cause.code)
		event_warn(unwinds->events, "python", "%s", cause.text);
}

static struct published *renew(struct process_unwinds *unwinds, struct published *record,
			       const struct process_key *key)
{
	if (record && published_is_of(record, key))
		return record;
	if (record)
		drop(unwinds, record);
	if (published_processes_count(&unwinds->published) >= UNWIND_PROCESSES_MAX)
		evict_least_recently_used(unwinds, NULL);
	return published_processes_add(&unwinds->published, key);
}

// Known stacks are not sent again: look up an unknown mapping later.
static void record_missing(struct published *record, uint64_t address)
{
	if (record->missing != address)
		record->missing_tries = MISSING_TRIES;
	record->missing = address;
}

static void miss(struct process_unwinds *unwinds, struct published *record,
		 const struct mapping_list *list, uint64_t address)
{
	const struct mapping *mapping = mapping_list_find((struct mapping_list *)list, address);

	if (!mapping || mapping->file == MAPPING_FILE_UNKNOWN)
		record_missing(record, address);
	if (!mapping || !mapping->executable)
		return;
	uint32_t file = unwind_tables_want(unwinds->tables, mapping->executable, 0);
	if (file == HASH_TABLE_NONE)
		return;
	unwind_tables_miss(unwinds->tables, file, mapping->executable);
	if (unwind_tables_file(unwinds->tables, file)->state == UNWIND_FILE_PENDING)
		record->pending = true;
}

void process_unwind_touch(struct process_unwinds *unwinds, struct process *process,
			  uint64_t missing)
{
	struct published *record = find(unwinds, process->key.pid);
	uint64_t generation = process_mappings_generation(process), now = clock_monotonic_ns();
	bool is_new = !record || !published_is_of(record, &process->key);
	const struct mapping_list *list = record ? record->list : NULL;

	if (unwinds->maps->unused)
		return;
	if (is_new || missing || is_due(unwinds, record, generation, missing != 0, now)) {
		list = process_mappings(unwinds->processes, process);
		if (!list)
			return;
		record = renew(unwinds, record, &process->key);
		if (!record)
			return;
		record->payer = process->budget.payer;
	}
	if (is_new || is_due(unwinds, record, generation, missing != 0, now)) {
		bool is_known =
			is_new && published_python_inherit(&unwinds->python, &unwinds->published,
							   unwinds->processes, record, process);

		if (!is_known &&
		    (record->mappings_generation != list->generation || record->python_again_ns))
			find_python(unwinds, record, process, list);
		record->mappings_generation = list->generation;
		publish(unwinds, record, list);
	}
	if (process->exited)
		mark_exited(unwinds, record);
	record->used_ns = now;
	if (missing)
		miss(unwinds, record, list, missing);
}

void process_unwind_analyze_jit(struct process_unwinds *unwinds, struct process *process,
				uint64_t pc, bool is_truncated)
{
	struct published *record = find(unwinds, process->key.pid);
	uint64_t now = clock_monotonic_ns();
	struct work work;

	if (!record || !published_is_of(record, &process->key) || process->exited ||
	    (!is_truncated && !jit_code_count(record->jit)))
		return;
	const struct mapping_list *list = process_mappings(unwinds->processes, process);
	const struct mapping *mapping =
		list ? mapping_list_find((struct mapping_list *)list, pc) : NULL;
	if (!mapping || mapping->executable || !mapping_is_jit(list, mapping))
		return;
	if (!record->jit)
		record->jit = jit_code_new();
	if (!record->jit || !work_begin(&work, &process->budget, "analysing JIT code"))
		return;
	bool is_news = jit_code_analyze(record->jit, (pid_t)record->key.pid, mapping, pc);
	work_end(&work);
	if (!is_news)
		return;
	if (now - record->published_ns >= rest_of(record, true))
		publish(unwinds, record, list);
	else
		publish_at(unwinds, record, record->published_ns + rest_of(record, true));
}

// As if the process had been sampled.
static void touch_again(struct process_unwinds *unwinds, struct process *process, uint64_t missing)
{
	struct process_key key = process->key;
	struct published *record = find(unwinds, key.pid);
	uint64_t used_ns = record ? record->used_ns : 0;

	process_unwind_touch(unwinds, process, missing);
	record = find(unwinds, key.pid);
	if (record)
		record->used_ns = used_ns;
}

void process_unwind_refresh(struct process_unwinds *unwinds)
{
	uint64_t remapped = process_table_remapped(unwinds->processes);

	if (remapped == unwinds->remapped)
		return;
	unwinds->remapped = remapped;
	for (uint32_t i = 0; i < unwinds->published.slot_count; i++) {
		struct published *record = &unwinds->published.records[i];
		struct process *process =
			record->key.pid ? process_table_find(unwinds->processes, &record->key)
					: NULL;

		if (process && process_mappings_generation(process) != record->mappings_generation)
			touch_again(unwinds, process, 0);
	}
}

void process_unwind_use(struct process_unwinds *unwinds, const struct process_key *key)
{
	struct published *record = find(unwinds, key->pid);

	if (record && published_is_of(record, key))
		record->used_ns = clock_monotonic_ns();
}

bool process_unwind_waits(const struct process_unwinds *unwinds, const struct process_key *key)
{
	const struct published *record = find(unwinds, key->pid);

	return record && published_is_of(record, key) && record->pending;
}

bool process_unwind_lacks_analyzed(const struct process_unwinds *unwinds,
				   const struct process_key *key)
{
	const struct published *record = find(unwinds, key->pid);

	if (!record || !published_is_of(record, key))
		return false;
	for (uint32_t i = 0; i < record->file_count; i++)
		if (unwind_tables_lacks_analyzed(unwinds->tables, record->files[i]))
			return true;
	return false;
}

bool process_unwind_is_ready(const struct process_unwinds *unwinds, const struct process_key *key)
{
	const struct published *record = find(unwinds, key->pid);

	return unwinds->maps->unused ||
	       (record && published_is_of(record, key) && !record->unready);
}

bool process_unwind_is_identified(const struct process_unwinds *unwinds,
				  const struct process_key *key)
{
	const struct published *record = find(unwinds, key->pid);

	return unwinds->maps->unused ||
	       (record && published_is_of(record, key) && !record->unidentified);
}

void process_unwind_prefer(struct process_unwinds *unwinds, const struct process_key *key)
{
	const struct published *record = find(unwinds, key->pid);

	if (!record || !published_is_of(record, key))
		return;
	for (uint32_t i = 0; i < record->file_count; i++)
		unwind_tables_prefer(unwinds->tables, record->files[i]);
}

const struct python_process *process_unwind_python(const struct process_unwinds *unwinds,
						   const struct process_key *key)
{
	const struct published *record = find(unwinds, key->pid);

	if (!record || !published_is_of(record, key) || !record->python.runtime)
		return NULL;
	return &record->python;
}

void process_unwind_apply(struct process_unwinds *unwinds, const struct process_record *event)
{
	struct published *record = find(unwinds, event->process.pid);

	drop_exited(unwinds);
	if (!record || !record->key.pid) // pid 0: just dropped
		return;
	// Ignore a late event of an earlier process with this pid.
	bool same_start = record->key.start_ns == event->process.start_ns;
	bool same_program = same_start && record->key.exec_id == event->process.exec_id;
	if (event->event != PROCESS_EXIT && !same_program)
		drop(unwinds, record);
	else if (event->event == PROCESS_EXIT && same_start)
		mark_exited(unwinds, record);
}

// ---- public: what happens to tables -------------------------------------------------------------

// Publishes without the file's table, or withdraws.
static void republish(void *context, struct published *record)
{
	struct process_unwinds *unwinds = context;
	const struct mapping_list *list = record->list;
	struct process *process = NULL;

	if (!list && !record->exited_ns)
		process = process_table_get(unwinds->processes, &record->key, "");
	if (process)
		list = process_mappings(unwinds->processes, process);
	if (list)
		record->mappings_generation = list->generation;
	if (!list || publish(unwinds, record, list))
		drop(unwinds, record);
}

static bool has_changed(const struct process_unwinds *unwinds, const struct published *record,
			uint64_t read, bool *ret_replaced)
{
	bool changed = false;

	*ret_replaced = false;
	for (uint32_t i = 0; i < record->file_count; i++) {
		const struct unwind_file *file =
			unwind_tables_file(unwinds->tables, record->files[i]);

		changed = changed || file->changed == read;
		*ret_replaced = *ret_replaced || file->replaced == read;
	}
	return changed;
}

int process_unwind_fd(const struct process_unwinds *unwinds)
{
	return unwind_tables_fd(unwinds->tables);
}

static struct process *process_of(struct process_unwinds *unwinds, const struct published *record)
{
	if (!record->key.pid || record->exited_ns)
		return NULL;
	return process_table_get(unwinds->processes, &record->key, "");
}

// What failed or was too early.
static void publish_due(struct process_unwinds *unwinds)
{
	uint64_t now = unwinds->again_due_ns ? clock_monotonic_ns() : 0;

	if (!unwinds->again_due_ns || now < unwinds->again_due_ns)
		return;
	unwinds->again_due_ns = 0;
	for (uint32_t i = 0; i < unwinds->published.slot_count; i++) {
		struct published *record = &unwinds->published.records[i];
		struct process *process = NULL;

		if (record->again_ns && now >= record->again_ns)
			process = process_of(unwinds, record);
		else if (record->again_ns)
			publish_at(unwinds, record, record->again_ns);
		if (process)
			touch_again(unwinds, process, 0);
	}
}

void process_unwind_read(struct process_unwinds *unwinds)
{
	uint32_t wanting;
	uint64_t read = unwind_tables_read(unwinds->tables, &wanting);

	drop_exited(unwinds);
	if (wanting != HASH_TABLE_NONE &&
	    unwind_evict_tables(unwinds->tables, &unwinds->published, wanting, unwinds->kept_ns,
				republish, unwinds))
		unwind_tables_retry(unwinds->tables, wanting);
	for (uint32_t i = 0; read && i < unwinds->published.slot_count; i++) {
		struct published *record = &unwinds->published.records[i];
		bool replaced;

		if (!record->key.pid || !has_changed(unwinds, record, read, &replaced))
			continue;
		if (record->list && !replaced)
			publish(unwinds, record, record->list);
		else // what was published is wrong now
			republish(unwinds, record);
	}
	unwind_tables_retire(unwinds->tables);
	unwind_tables_renew(unwinds->tables);
	publish_due(unwinds);
}

// An address without a mapping may have one by now.
static void find_missing(struct process_unwinds *unwinds, struct published *record)
{
	struct process *process = record->missing_tries ? process_of(unwinds, record) : NULL;
	uint64_t missing = record->missing;
	struct code_address code;

	if (!process)
		return;
	record->missing_tries--;
	process_find_code(unwinds->processes, process, missing, &code);
	touch_again(unwinds, process, missing);
}

void process_unwind_expire(struct process_unwinds *unwinds)
{
	drop_exited(unwinds);
	for (uint32_t i = 0; i < LIVENESS_CHECKS && i < unwinds->published.slot_count; i++) {
		struct published *record =
			&unwinds->published
				 .records[unwinds->checked++ % unwinds->published.slot_count];

		if (record->key.pid && kill((pid_t)record->key.pid, 0) && errno == ESRCH)
			drop(unwinds, record);
	}
	for (uint32_t i = 0; i < unwinds->published.slot_count; i++) {
		struct published *record = &unwinds->published.records[i];

		find_missing(unwinds, record);
		if (record->key.pid && jit_code_count(record->jit))
			publish_at(unwinds, record, clock_monotonic_ns());
	}
	unwind_tables_trim(unwinds->tables, clock_monotonic_ns(), unwinds->kept_ns);
	publish_due(unwinds);
}

void process_unwind_analyze(struct process_unwinds *unwinds, struct executable *executable,
			    uint64_t offset, uint64_t size)
{
	uint32_t file = unwind_tables_want(unwinds->tables, executable, 0);

	if (file != HASH_TABLE_NONE)
		unwind_tables_analyze(unwinds->tables, file, executable, offset, size);
}

// ---- life and stats -------------------------------------------------------------------------

// Without a cache only the first complete stacks come later.
static struct unwind_table_cache *open_cache(struct process_unwinds *unwinds,
					     const struct process_unwind_options *options)
{
	struct unwind_table_cache *cache = NULL;
	struct error cause;

	if (!options->cache_folder ||
	    !unwind_table_cache_open(options->cache_folder, UNWIND_TABLE_CACHE_BYTES_DEFAULT,
				     &cache, &cause))
		return cache;
	event_warn(unwinds->events, "unwind tables", "no cache on disk: %s; check --cache",
		   cause.text);
	return NULL;
}

static uint64_t bytes_for_this_machine(void)
{
	uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) /
			 UNWIND_MEMORY_SHARE;

	if (bytes < UNWIND_BYTES_MIN)
		return UNWIND_BYTES_MIN;
	return bytes < UNWIND_BYTES_MAX ? bytes : UNWIND_BYTES_MAX;
}

int process_unwind_open(const struct unwind_maps *maps, struct process_table *processes,
			const struct process_unwind_options *options,
			struct process_unwinds **ret_unwinds, struct error *err)
{
	struct process_unwinds *unwinds = calloc(1, sizeof(*unwinds));

	if (!unwinds)
		return error_set(err, -ENOMEM, "out of memory");
	unwinds->maps = unwinds->published.maps = unwinds->python.maps = maps;
	unwinds->processes = processes;
	unwinds->events = options->events;
	unwinds->python.runtimes = options->python;
	if (options->python)
		python_runtimes_on_eviction(options->python, withdraw_runtime, unwinds);
	unwinds->bytes_max = options->bytes_max ? options->bytes_max : bytes_for_this_machine();
	unwinds->kept_ns = options->kept_ns ? options->kept_ns : KEPT_DEFAULT_NS;
	unwinds->page_count_max = UNWIND_MAPPING_PAGES_MAX;
	if (unwinds->page_count_max > unwinds->bytes_max / 2 / MAPPING_PAGE_KERNEL_BYTES)
		unwinds->page_count_max =
			(uint32_t)(unwinds->bytes_max / 2 / MAPPING_PAGE_KERNEL_BYTES);
	int rc = unwind_tables_open(maps, open_cache(unwinds, options), unwinds->bytes_max,
				    &unwinds->tables, err);
	if (rc) {
		process_unwind_close(unwinds);
		return rc;
	}
	if (options->is_for_one)
		unwind_tables_prefetch_all(unwinds->tables);
	*ret_unwinds = unwinds;
	return 0;
}

void process_unwind_close(struct process_unwinds *unwinds)
{
	if (!unwinds)
		return;
	for (uint32_t i = 0; i < unwinds->published.slot_count; i++) {
		free(unwinds->published.records[i].files);
		mapping_list_release(unwinds->published.records[i].list);
		jit_code_free(unwinds->published.records[i].jit);
	}
	unwind_tables_close(unwinds->tables);
	published_processes_deinit(&unwinds->published);
	process_code_deinit(&unwinds->code);
	free(unwinds);
}

void process_unwind_read_stats(const struct process_unwinds *unwinds,
			       struct process_unwind_stats *ret_stats)
{
	struct unwind_tables_stats tables;

	unwind_tables_read_stats(unwinds->tables, &tables);
	*ret_stats = unwinds->stats;
	ret_stats->processes = published_processes_count(&unwinds->published);
	ret_stats->mapping_pages = unwinds->published.page_count;
	ret_stats->tables = tables.ready;
	ret_stats->tables_pending = tables.pending;
	ret_stats->tables_failed = tables.failed;
	ret_stats->tables_from_disk = tables.from_disk;
	ret_stats->tables_evicted = tables.evicted;
	ret_stats->tables_refused = tables.refused;
	ret_stats->rules = tables.rules;
	ret_stats->rows = tables.rows;
	ret_stats->build_ns = tables.build_ns;
	ret_stats->bytes =
		tables.bytes + (uint64_t)unwinds->published.page_count * MAPPING_PAGE_KERNEL_BYTES;
	ret_stats->last_failure = tables.last_failure;
}
