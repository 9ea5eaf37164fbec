// SPDX-License-Identifier: Apache-2.0
// Captures the threads of one process: pauses it and unwinds their stacks; without a pause, only those of
// sleeping threads. Addresses only: dump_symbols.h symbolizes them. Private to process_dump.c.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/dump/dump.h"
#include "agent/dump/live_unwind.h"
#include "agent/dump/thread_list.h"
#include "agent/dump/thread_wait.h"

/* One thread, captured during the pause. */
struct thread_capture {
	struct thread_registers registers;
	struct live_stack stack;
	struct wait_memory memory;
	uint32_t *
		locations; // of the stack's frames: numbers of the table, then positions in the names
	uint32_t location_count;
	bool has_stack;
	bool consistent; // it did not run meanwhile
	bool moved;      // it ran since its state was read
	bool holds_gil;
};

struct process_capture {
	struct dump_options options;
	struct dump_summary summary;
	struct proc proc;
	struct thread_list list;
	struct thread_capture *threads; // one for each of the list
	struct live_unwind *unwind;
};

/** A zeroed one is allowed, but for its descriptors (proc_close()). */
void process_capture_deinit(struct process_capture *capture);

/** Is this thread selected? */
bool process_capture_wants(const struct process_capture *capture, const struct thread *thread);

/** Memory can be read by any living thread's id, but not by that of an exited main thread. */
pid_t process_capture_living_thread(const struct process_capture *capture);

/** Build most of the needed tables before the pause. */
void process_capture_prepare(struct process_capture *capture);

/**
 * Capture all threads. Where a stack lacks a table, build it and capture again. Returns 0; -ESRCH; -ENOMEM and
 * @err.
 */
int process_capture_run(struct process_capture *capture, struct error *err);
