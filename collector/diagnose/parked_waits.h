// SPDX-License-Identifier: Apache-2.0
// Threads that wait at one place through all of a range: a main thread that reads its standard input, a supervisor of workers. They
// explain no latency, however much blocked time they have.
#pragma once

#include "base/contract/wait_classes.h"
#include "collector/query/flame_tree.h"
#include "collector/query/query.h"

/**
 * The blocked time of @wait's stacks that is the same in each part of @query's range, and as long as a whole number of threads:
 * self values of *ret_tree, for the caller to deinit; totals mean nothing. A thread that waits there in turns with others, or
 * for a part of the range, is not parked. Returns 0 or a negative errno.
 */
int parked_waits_read(const struct query *query, enum wait_class wait, struct flame_tree *ret_tree,
		      struct error *err);
