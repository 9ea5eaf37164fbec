// SPDX-License-Identifier: Apache-2.0
// What a profile is made of, for one sentence and three stacks: functions with the code that calls them. A function is
// the leaf, or the Python function that the interpreter was running; its caller is the nearest code of the user.
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "collector/query/query.h"

enum { HOT_SPOTS_MAX = 3 }; // nobody reads more

/** A function and its caller, with all stacks that have both as their innermost. Nodes of the tree; 0: none. */
struct hot_spot {
	uint32_t function, caller;
	uint32_t leaf; // of the stack with the largest value
	int64_t value;
};

struct hot_spots {
	struct hot_spot
		spots[HOT_SPOTS_MAX]; // largest first; below HOT_SPOT_SHARE_MIN of the sum none
	uint32_t count;
	int64_t sum; // of all shown values
	// The function with the largest value, whoever calls it, and its most frequent caller.
	uint32_t function, caller;
	int64_t value;
};

#define HOT_SPOT_SHARE_MIN 0.01 // less would be printed as 0 % or hardly more, and is no evidence

/**
 * Find the hot spots of @tree's nodes with @shown (NULL: all). Returns 0 or -ENOMEM.
 */
int hot_spots_find(const struct flame_tree *tree, const bool *shown, struct hot_spots *ret_spots);
/** Code of the user: Python, or native code that is in the program itself and not in a library. */
bool hot_spot_is_users(const struct flame_tree *tree, uint32_t node);
