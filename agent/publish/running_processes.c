// SPDX-License-Identifier: Apache-2.0
#include "agent/publish/running_processes.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/guard/watchdog.h"
#include "base/cleanup.h"
#include "base/clock.h"

// ---- the list -------------------------------------------------------------------------------

static int compare_pids(const void *a, const void *b)
{
	const struct running_thread *left = a, *right = b;

	return (left->process.pid > right->process.pid) - (left->process.pid < right->process.pid);
}

static int compare_busy(const void *a, const void *b)
{
	const struct running_process *left = a, *right = b;

	return (left->busy_ns < right->busy_ns) - (left->busy_ns > right->busy_ns);
}

static bool is_same(const struct process_key *a, const struct process_key *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

// Threads of one process, from @at on. Returns the next process's first.
static uint32_t add_up(const struct running_thread *list, uint32_t count, uint32_t at,
		       uint64_t *ret_ns)
{
	uint32_t first = at;

	for (*ret_ns = 0; at < count && is_same(&list[at].process, &list[first].process); at++)
		*ret_ns += list[at].exec_ns;
	return at;
}

struct running_process *running_processes_of(struct running_thread *before, uint32_t before_count,
					     struct running_thread *now, uint32_t now_count,
					     uint32_t *ret_count)
{
	struct running_process *list = calloc(now_count + 1ULL, sizeof(*list));
	uint32_t then = 0, count = 0;

	if (!list)
		return NULL;
	if (before_count)
		qsort(before, before_count, sizeof(*before), compare_pids);
	if (now_count)
		qsort(now, now_count, sizeof(*now), compare_pids);
	for (uint32_t at = 0; at < now_count; count++) {
		struct running_process *process = &list[count];
		uint64_t before_ns = 0;

		process->key = now[at].process;
		memcpy(process->name, now[at].name, sizeof(process->name));
		while (then < before_count && before[then].process.pid < process->key.pid)
			then++;
		if (then < before_count && is_same(&before[then].process, &process->key))
			add_up(before, before_count, then, &before_ns);
		at = add_up(now, now_count, at, &process->busy_ns);
		process->busy_ns = ns_between(before_ns, process->busy_ns);
		if (process->key.pid == (uint32_t)getpid()) // loading the programs was most of it
			process->busy_ns = 0;
	}
	if (count)
		qsort(list, count, sizeof(*list), compare_busy);
	*ret_count = count;
	return list;
}

int running_watch_begin(struct running_watch *ret_watch, struct error *err)
{
	struct running_watch watch = { 0 };
	int rc = running_threads_open(&watch.program, err);

	if (!rc)
		rc = running_threads_list(watch.program, &watch.before, &watch.before_count);
	if (rc && !err->code)
		error_errno(err, rc, "threads cannot be listed");
	if (rc)
		running_watch_deinit(&watch);
	else
		*ret_watch = watch;
	return rc;
}

void running_watch_deinit(struct running_watch *watch)
{
	running_threads_close(watch->program);
	free(watch->before);
	*watch = (struct running_watch){ 0 };
}

static uint32_t keep_family(struct running_process *list, uint32_t count,
			    const struct process_family *family)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++)
		if (!family || process_family_has(family, (pid_t)list[i].key.pid))
			list[kept++] = list[i];
	return kept;
}

int running_watch_end(struct running_watch *watch, const struct process_family *family,
		      struct running_process **ret_list, uint32_t *ret_count)
{
	_cleanup_free_ struct running_thread *now = NULL;
	struct running_process *list;
	uint32_t now_count, count;

	if (!watch->program)
		return -ENOENT;
	int rc = running_threads_list(watch->program, &now, &now_count);
	if (rc)
		return rc;
	list = running_processes_of(watch->before, watch->before_count, now, now_count, &count);
	if (!list)
		return -ENOMEM;
	*ret_list = list;
	*ret_count = keep_family(list, count, family);
	return 0;
}

// ---- publishing -----------------------------------------------------------------------------

/*
 * Identifying a file reads its tables: half a second for each of PyTorch's, and a program with gRPC has a hundred smaller
 * ones. One process must not keep all others waiting, so at first each has only so much CPU time, for small files.
 */
#define LARGE_FILE_BYTES (16ULL << 20)
#define SHARE_NS         (3 * NS_PER_MS)

/* No event says that a table lacks analyzed code: it is checked so often. */
#define CHECK_NS (100 * NS_PER_MS)

static void publish(struct process_unwinds *unwinds, struct process_table *processes,
		    const struct running_process *running, bool is_busy)
{
	struct process *process = process_table_get(processes, &running->key, running->name);

	if (!process || process->exited)
		return;
	process_mappings(processes, process); // identifies more of its files
	process_unwind_touch(unwinds, process, 0);
	process->budget.spent_ns = 0;
	if (is_busy)
		process_unwind_prefer(unwinds, &running->key);
}

static bool is_any_waiting(const struct running_publication *publication,
			   const struct process_unwinds *unwinds)
{
	for (uint32_t i = 0; i < publication->count; i++)
		if (process_unwind_waits(unwinds, &publication->list[i].key) ||
		    process_unwind_lacks_analyzed(unwinds, &publication->list[i].key))
			return true;
	return false;
}

static uint64_t left_ns(const struct running_publication *publication)
{
	uint64_t spent_ns = ns_between(publication->began_ns, clock_monotonic_ns());

	return ns_between(spent_ns, publication->ns_max);
}

// Those that are not published yet, or in part.
static void publish_rest(const struct running_publication *publication,
			 struct process_unwinds *unwinds, struct process_table *processes)
{
	for (uint32_t i = 0; i < publication->count && left_ns(publication); i++)
		if (!process_unwind_is_identified(unwinds, &publication->list[i].key))
			publish(unwinds, processes, &publication->list[i], i < RUNNING_BUSIEST);
}

// @process_ns of CPU time for each, and only files with less code than @put_off_bytes (0: all). What is put off is no
// news, and what is spent no debt: the time is limited as it is, and nothing is measured meanwhile.
static void publish_within(const struct running_publication *publication,
			   struct process_unwinds *unwinds, struct process_table *processes,
			   uint64_t process_ns, uint64_t put_off_bytes)
{
	struct work_pool *pool = process_table_work(processes), before = *pool;

	process_table_put_off_large_files(processes, put_off_bytes);
	pool->events = NULL;
	pool->process_ns = process_ns;
	pool->total_ns = UINT64_MAX;
	publish_rest(publication, unwinds, processes);
	*pool = before;
	process_table_put_off_large_files(processes, 0);
}

void running_processes_publish(struct running_publication *publication,
			       struct process_unwinds *unwinds, struct process_table *processes)
{
	publication->began_ns = clock_monotonic_ns();
	watchdog_begin_turn("publishing the processes that run");
	if (publication->count > 1)
		publish_within(publication, unwinds, processes, SHARE_NS, LARGE_FILE_BYTES);
	publish_within(publication, unwinds, processes, publication->ns_max, 0);
	watchdog_end_turn();
}

void running_processes_wait(const struct running_publication *publication,
			    struct process_unwinds *unwinds, struct running_ready *ret_ready)
{
	struct pollfd tables = { .fd = process_unwind_fd(unwinds), .events = POLLIN };
	uint64_t left;

	watchdog_begin_turn("publishing the processes that run");
	process_unwind_read(unwinds);
	while (is_any_waiting(publication, unwinds) && (left = left_ns(publication))) {
		if (left > CHECK_NS)
			left = CHECK_NS;
		poll(&tables, 1, (int)(left / NS_PER_MS) + 1);
		process_unwind_read(unwinds);
	}
	watchdog_end_turn();
	*ret_ready = (struct running_ready){ .processes = publication->count };
	for (uint32_t i = 0; i < publication->count; i++)
		ret_ready->waiting += !process_unwind_is_ready(unwinds, &publication->list[i].key);
}
