// SPDX-License-Identifier: Apache-2.0
// A look at the threads of one process: it is paused for a moment and their stacks are walked; those that
// sleep are looked at without. Addresses only: dump_names.h gives them names. Private to process_dump.c.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/dump/dump.h"
#include "agent/dump/live_unwind.h"
#include "agent/dump/thread_list.h"
#include "agent/dump/thread_wait.h"

/* What is noted of one thread while the process is paused. */
struct thread_look {
	struct thread_registers registers;
	struct live_stack stack;
	struct wait_memory memory;
	uint32_t *
		locations; // of the stack's frames: numbers of the table, then positions in the names
	uint32_t location_count;
	bool has_stack;
	bool stood_still; // while it was looked at
	bool moved;       // since its state was read
	bool holds_gil;
};

struct process_look {
	struct dump_options options;
	struct dump_summary summary;
	struct proc proc;
	struct thread_list list;
	struct thread_look *threads; // one for each of the list
	struct live_unwind *unwind;
};

/** A zeroed one is allowed, but for its descriptors (proc_close()). */
void process_look_deinit(struct process_look *look);

/** Was it asked for this thread? */
bool process_look_wants(const struct process_look *look, const struct thread *thread);

/** Memory is had by any living thread's id, but not by a main thread's that has exited. */
pid_t process_look_living_thread(const struct process_look *look);

/** Build the tables of most files that stacks go through, before anybody is paused. */
void process_look_prepare(struct process_look *look);

/**
 * Fill in what the threads do, and the summary's pauses. Where a stack went through a file that nobody expected
 * its table is built, and it is looked again. Returns 0; -ESRCH; -ENOMEM: @err says what.
 */
int process_look_take(struct process_look *look, struct error *err);
