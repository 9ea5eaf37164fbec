// SPDX-License-Identifier: Apache-2.0
// What a function has of each group of a call tree. Pure.
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/regex.h"
#include "collector/query/flame_tree.h"
#include "collector/store/deadline.h"

/** Of a group: in the type's unit. */
struct function_share {
	uint32_t group; // its node
	int64_t value;  // of stacks that have the function; recursion counts once
	int64_t total;  // of all stacks
};

/**
 * The shares of those groups of @tree, which is grouped, that have the function, the largest values first; @regex matches whole names. *ret_shares is the
 * caller's, also if there are none. Returns 0, -ENOMEM, or what deadline_check() does.
 */
int function_shares_of(const struct flame_tree *tree, const struct regex *regex,
		       struct deadline *deadline, struct function_share **ret_shares,
		       uint32_t *ret_count);
