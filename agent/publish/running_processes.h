// SPDX-License-Identifier: Apache-2.0
// Publishes the processes that run when measuring begins, so that their first stacks are whole: the busiest first,
// and for a limited time.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "agent/bpf/running_threads.h"
#include "agent/process/process_family.h"
#include "agent/publish/process_unwind.h"

enum {
	// The tables of so many of the busiest processes are built before all others.
	RUNNING_BUSIEST = 8,
};

/** A process that runs. */
struct running_process {
	struct process_key key;
	char name[THREAD_NAME_BYTES];
	uint64_t
		busy_ns; // CPU time between two lists of threads, or of its life if it is in one only
};

/**
 * Add up the threads of each process of @now, less their time in @before (0 of them: unknown). Both lists are sorted
 * by pid. Returns the processes, the busiest first, in memory that the caller frees; NULL: out of memory.
 */
struct running_process *running_processes_of(struct running_thread *before, uint32_t before_count,
					     struct running_thread *now, uint32_t now_count,
					     uint32_t *ret_count);

/** Watches which processes are busy. A zeroed struct is valid and knows nothing. */
struct running_watch {
	struct running_threads *program;
	struct running_thread *before;
	uint32_t before_count;
};

int running_watch_begin(struct running_watch *ret_watch, struct error *err);
/**
 * The processes that run now, or only those of @family unless it is NULL, as running_processes_of(). Returns 0, -ENOENT
 * before a beginning, -errno.
 */
int running_watch_end(struct running_watch *watch, const struct process_family *family,
		      struct running_process **ret_list, uint32_t *ret_count);
void running_watch_deinit(struct running_watch *watch);

struct running_ready {
	uint32_t processes; // that run
	uint32_t waiting;   // of these: not published, or some of their files have no table yet
};

/** A list that is being published. A zeroed struct is valid and empty. */
struct running_publication {
	struct running_process *list; // owned
	uint32_t count;
	uint64_t began_ns;
	uint64_t ns_max; // for publishing and waiting
};

/** Publish publication->list in its order, until its time is over. */
void running_processes_publish(struct running_publication *publication,
			       struct process_unwinds *unwinds, struct process_table *processes);
/** Wait until the tables of those published are ready, or the time is over. */
void running_processes_wait(const struct running_publication *publication,
			    struct process_unwinds *unwinds, struct running_ready *ret_ready);
