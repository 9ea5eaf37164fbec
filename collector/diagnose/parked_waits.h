// SPDX-License-Identifier: Apache-2.0
// Threads that wait at one place through all of a range: a main thread that reads its standard input, a supervisor of workers. They
// explain no latency, however much blocked time they have.
#pragma once

#include "collector/diagnose/verdict.h"
#include "collector/query/flame_tree.h"
#include "collector/query/query.h"

/** Of waits for others' data, where a thread may wait all its life. A lock that is never released is a fault. */
enum { PARKED_CLASSES = 2 };

/**
 * By wait class the blocked time of parked threads: self values by stack; totals mean nothing. Zero-initialized: nobody is
 * parked.
 */
struct parked_waits {
	struct flame_tree trees[PARKED_CLASSES];
};

void parked_waits_deinit(struct parked_waits *parked);

/**
 * Find the stacks whose blocked time is the same in each part of @query's range, and as long as a whole number of threads, and count
 * it as idle in @figures. A thread that waits there in turns with others, or for a part of the range, is not parked; nor is any if
 * nobody else does anything: then the service may hang. Returns 0 or a negative errno.
 */
int parked_waits_leave_out(const struct query *query, struct verdict_figures *figures,
			   struct parked_waits *ret_parked, struct error *err);

/** Subtract parked threads' time from @tree, of stacks of wait class @wait; NULL: not blocked ones, nothing to do. Returns 0 or -ENOMEM. */
int parked_waits_subtract(struct flame_tree *tree, const char *wait,
			  const struct parked_waits *parked);
