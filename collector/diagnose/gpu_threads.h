// SPDX-License-Identifier: Apache-2.0
// Which of the selected threads launch GPU work, and where their time and that of the others went, from stored data. Threads
// of one name count as one.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/string_table.h"
#include "collector/query/query.h"

enum {
	GPU_THREADS_MAX = 1024, // names; what has more makes up a name for each request
};

enum thread_sum {
	THREAD_SUM_WALL,
	THREAD_SUM_RUNNING,
	THREAD_SUM_CPU,        // sampled
	THREAD_SUM_CPU_DRIVER, // of which below a frame of the driver
	THREAD_SUM_CPU_LAUNCH,
	THREAD_SUM_CPU_KERNELS, // of which of single GPU kernels, not of graphs
	THREAD_SUM_CPU_COPY_IN,
	THREAD_SUM_CPU_ALLOCATION,
	THREAD_SUM_SPIN,    // CPU time that the driver's waiting loop took
	THREAD_SUM_BLOCKED, // asleep until the GPU was done
	// The sum of both, and by what the stacks waited for.
	THREAD_SUM_WAIT,
	THREAD_SUM_WAIT_COPY_IN,
	THREAD_SUM_WAIT_IMPLICIT,
	THREAD_SUM_WAIT_ALLOCATION,
	THREAD_SUM_WAIT_COLLECTIVE,
	// The same as counted at the driver's calls. If they are larger, they replace the sums above.
	THREAD_SUM_COUNTED,
	THREAD_SUM_COUNTED_LAST = THREAD_SUM_COUNTED + 4,
	THREAD_SUM_LOCK,
	THREAD_SUM_GIL,
	THREAD_SUM_INPUT,   // waits for something to do
	THREAD_SUM_STORAGE, // waits for storage
	THREAD_SUM_LAUNCHES,
	THREAD_SUM_LAUNCHES_REPEATED, // of which by the stack with most of them
	THREAD_SUM_ALLOCATIONS,
	THREAD_SUM_COUNT,
};

struct gpu_threads {
	struct string_table names; // a thread's number is its name's
	struct thread_row {
		int64_t sums[THREAD_SUM_COUNT]; // nanoseconds, and counts
		bool launches;
	} * rows; // GPU_THREADS_MAX + 1; the last is of all names that are one too many
	// Sums over the threads that launch, and over the others.
	int64_t launching[THREAD_SUM_COUNT], others[THREAD_SUM_COUNT];
	bool has_wall;     // the agents kept the wall clock
	bool has_counted;  // more waits were counted than sampled
	bool has_waits;    // there were waits for the GPU, or agents that would have seen them
	bool has_launches; // launches were counted
	bool has_allocations;
};

void gpu_threads_deinit(struct gpu_threads *threads);
/**
 * Read the threads that @query selects in its range; @types are those that are stored for them. Errors are
 * those of all queries.
 */
int gpu_threads_read(const struct query *query, const struct name_list *types,
		     struct gpu_threads *ret_threads, struct error *err);
/** Does a thread called @name call the driver? */
bool gpu_threads_launch(const struct gpu_threads *threads, const char *name);

/** The type of @types whose first three parts are @prefix ("gpu_wait:wait:nanoseconds:"); NULL: none. */
const char *gpu_type_find(const struct name_list *types, const char *prefix);
