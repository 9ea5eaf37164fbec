// SPDX-License-Identifier: Apache-2.0
// The function that carries most of what one call tree has more than another. Pure: trees in, names out.
#pragma once

#include "base/error.h"
#include "collector/query/query.h"
#include "collector/spikes/spike.h"

/** A tree, and how often it counts: the shorter a baseline, the more. */
struct weighted_tree {
	const struct flame_tree *tree;
	double factor;
};

/**
 * Find the function that carries most of @spike less @usual: the deepest of the user's functions that has nearly
 * as much as any, and below it the leaf with at least half of that. *ret_extra: the whole difference; without
 * one, *ret_code is empty. A leaf in the kernel is its system call. A Python function has the line that carries most of
 * its part, if one does. @without_leaf: name the function alone.
 * Returns 0; -ENOMEM; what deadline_check() returns.
 */
int spike_code_find(const struct flame_tree *spike, const struct weighted_tree *usual,
		    bool without_leaf, struct deadline *deadline, struct cause_code *ret_code,
		    double *ret_extra, struct error *err);
