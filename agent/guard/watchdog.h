// SPDX-License-Identifier: Apache-2.0
// Watches one thread, the main loop: if one of its turns takes too long, the process ends with a log line that names
// what it was doing and for which process, so that its supervisor starts it again. Time that the thread waits for a
// CPU does not count, nor does time in which the whole process was stopped. One per process.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/guard/hung_processes.h"
#include "base/error.h"

enum {
	WATCHDOG_TICK_MS = 1000, // between two looks at the thread
	// A termination signal that the turn has not taken by then ends the process, too.
	WATCHDOG_SIGNAL_MS = 2000,
};

struct watchdog_options {
	const char *subject;               // of the log line: "agent"
	const char *advice;                // what happens next, or what to do
	uint32_t turn_ms_max;              // of one turn
	uint32_t tick_ms;                  // 0: WATCHDOG_TICK_MS
	const struct hung_processes *hung; // where to note the process; NULL: nowhere
};

/** Watch the calling thread. Call it when termination signals are blocked. */
int watchdog_start(const struct watchdog_options *options, struct error *err);
/** Does nothing if none was started. */
void watchdog_stop(void);

/** The next turn of the watched thread begins, with @stage, a constant: "exporting". Other threads are ignored. */
void watchdog_begin_turn(const char *stage);
/** The thread waits for events. */
void watchdog_end_turn(void);

/** What the thread is doing within a turn. */
struct watchdog_stage {
	const char *name; // a constant: "reading Python thread states"; NULL: nothing
	pid_t pid;        // for which process; 0: none
};

/** The watched thread begins something. Returns what it was doing: give that to watchdog_leave(). */
struct watchdog_stage watchdog_enter(const char *name, pid_t pid);
void watchdog_leave(struct watchdog_stage before);

// ---- what the watching thread decides, for tests ------------------------------------------------

/** What the watching thread has seen of the present turn. */
struct watchdog_view {
	uint64_t turn;
	uint64_t busy_ms;   // in the turn, without waiting for a CPU
	uint64_t signal_ms; // since a termination signal is pending, without waiting for a CPU
	uint64_t waited_ns; // for a CPU, so far
};

/** What it sees at a tick. */
struct watchdog_tick {
	uint64_t turn;      // its number; even: none is going on
	uint64_t waited_ns; // for a CPU, since the thread began; 0: unknown
	bool has_signal;    // a termination signal is pending
};

/** One tick of @tick_ms. */
void watchdog_view_tick(struct watchdog_view *view, const struct watchdog_tick *now,
			uint32_t tick_ms);
