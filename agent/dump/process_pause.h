// SPDX-License-Identifier: Apache-2.0
// Stops all threads of another process by ptrace(2), and resumes them. A tracer is a thread, so a pause has a
// thread of its own: when that ends for whatever reason, and even if this program is killed, the kernel resumes
// all threads.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/dump/thread_registers.h"
#include "base/clock.h"
#include "base/error.h"

/**
 * How long a thread may take to stop: on a busy machine it waits for a CPU. Threads in uninterruptible sleep
 * are not waited for.
 */
#define PAUSE_STOP_NS (100 * NS_PER_MS)
/** Limit of a pause, whatever the caller does. */
#define PAUSE_HELD_NS (NS_PER_SECOND)

enum { PAUSE_THREADS_MAX = 32768 };

struct process_pause;

struct paused_thread {
	pid_t tid;
	bool stopped; // registers are set; they and the stack do not change until the end
	struct thread_registers registers;
};

/**
 * Stop every thread of @pid. Threads that start meanwhile are stopped too. A process that was stopped
 * by a signal stays so afterwards.
 * Returns 0, also if some threads do not stop; -ESRCH if there is no such process; -EPERM; -EBUSY (already
 * traced): @err says why and what to do; -ENOMEM; -errno.
 */
int process_pause_begin(pid_t pid, struct process_pause **ret_pause, struct error *err);

/** Sorted by tid. Valid until process_pause_free(). */
const struct paused_thread *process_pause_threads(const struct process_pause *pause,
						  uint32_t *ret_count);
const struct paused_thread *process_pause_find(const struct process_pause *pause, pid_t tid);

/**
 * Resume all threads. Call it from the thread that began the pause: that had real-time priority meanwhile, if
 * permitted. Returns the pause's length, from the first thread's stop on. *ret_expired: it ended before, after
 * PAUSE_HELD_NS.
 */
uint64_t process_pause_end(struct process_pause *pause, bool *ret_expired);

/** Ends it if need be. NULL is allowed. */
void process_pause_free(struct process_pause *pause);
