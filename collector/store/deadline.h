// SPDX-License-Identifier: Apache-2.0
// When a query must end: at a time, or when nobody waits for its answer any more.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define DEADLINE_POLL_NS (20 * 1000 * 1000ULL) // is_gone is a system call

/** One query's. Its functions may be called on several threads. */
struct deadline {
	uint64_t at_ns;                 // clock_monotonic_ns(); 0: never
	bool (*is_gone)(void *context); // has the client closed its connection? May be NULL
	void *context;
	uint64_t poll_ns; // between calls of is_gone
	_Atomic uint64_t polled_ns;
	atomic_bool gone;
};

/**
 * Call it in each loop over what a user asked for. Returns 0; -ETIMEDOUT or -ECANCELED with @err, which
 * may be NULL. @deadline may be NULL: never.
 */
int deadline_check(struct deadline *deadline, struct error *err);
