// SPDX-License-Identifier: Apache-2.0
// Compares two merged profiles, frame by frame: a baseline A and B. Both are merged into one tree of names, whose
// totals are exact; each frame has both values, and how probable such a change is by chance (significance.h).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "collector/compare/time_blocks.h"
#include "collector/query/query.h"

enum {
	COMPARISON_SIDES = 2,           // 0 is A, the baseline; 1 is B
	COMPARISON_NODES_MAX = 1 << 20, // of both sides' tree; each takes 170 bytes
};

/** What values are divided by, so that sides can be compared. */
enum comparison_norm {
	COMPARISON_RATE,  // instances' time (exposure.h): cores per pod
	COMPARISON_SHARE, // the side's total
};

struct comparison_query {
	struct query sides[COMPARISON_SIDES]; // without group_by
	const char *per;                      // of exposure_of()
	enum comparison_norm norm;
};

struct compared_value {
	int64_t values[COMPARISON_SIDES];
	double p;         // that chance alone changes it so much or more
	bool enough;      // samples to tell
	bool significant; // at most SIGNIFICANCE_FALSE_DISCOVERIES of those marked are chance
};

/** A function, recursion counted once. */
struct compared_function {
	uint32_t name, module; // strings of the tree
	enum frame_kind kind;
	struct compared_value self, total;
};

struct compared_side {
	int64_t total;
	double divisor;     // value / divisor is comparable; 0: there is nothing
	double exposure_ns; // instances' time
	uint32_t instances;
	uint32_t blocks; // observations
	uint64_t row_count, series_count;
};

struct comparison {
	struct flame_tree
		tree; // self and total are of A and B together, in parts of COMPARISON_WEIGHT
	struct compared_value *totals; // by node of the tree
	int64_t (*selfs)[COMPARISON_SIDES];
	struct compared_function *functions; // those that changed most come first
	uint32_t function_count;
	struct compared_side sides[COMPARISON_SIDES];
};

/** Of a tree's root: that of each side counts for half of it. */
#define COMPARISON_WEIGHT (1LL << 52)

/** Compare. Errors are those of query_flame_tree(); a gauge is -EINVAL. */
int compare(const struct comparison_query *query, struct comparison *ret_comparison,
	    struct error *err);
void comparison_deinit(struct comparison *comparison);

/** @value of @side, comparable. */
double comparison_normal(const struct comparison *comparison, int side, int64_t value);

/** Sort functions by the size of the change, of totals if @by_total. */
void comparison_sort(struct comparison *comparison, bool by_total);

/**
 * Keep the @nodes_max nodes with the largest shares of both sides, and their parents. Values stay exact; functions lose
 * their names. Returns 0 or -ENOMEM, after which @comparison can only be freed.
 */
int comparison_truncate(struct comparison *comparison, uint32_t nodes_max);
