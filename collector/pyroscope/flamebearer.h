// SPDX-License-Identifier: Apache-2.0
// Flame trees as Pyroscope's levels of numbers. Of one tree a node is 4 numbers: gap since the end of the node before it in
// its level, total, self, name. Of two trees, which have the same nodes, it is 7: gap, total and self on the left, the same on
// the right, name. Level 0 is one node, "total", name 0. A node's children begin after its own self value. What is left out is
// a node "other". github.com/grafana/pyroscope, pkg/model/flamegraph.go and flamegraph_diff.go.
#pragma once

#include <stdint.h>

#include "collector/query/flame_tree.h"

enum {
	FLAMEBEARER_SIDES = 2,
	FLAMEBEARER_NODES_DEFAULT = 8192,   // Pyroscope's default, too
	FLAMEBEARER_NODES_MAX = 256 * 1024, // some 40 MiB while an answer is made
	FLAMEBEARER_DEPTH_MAX = 4096,       // deeper ones lie in "other"
};

struct bearer_level {
	int64_t *values;
	uint32_t count, capacity;
};

struct flamebearer {
	char **names; // name 0 is "total"
	uint32_t name_count, name_capacity;
	struct bearer_level *levels;
	uint32_t level_count, level_capacity;
	int64_t totals[FLAMEBEARER_SIDES];
	int64_t max_self;
};

/**
 * Encode @tree; or with @right both, side by side. At most @nodes_max nodes are kept, beside those called "other"; children are
 * sorted by name. Trees are read only, and may go afterwards. Returns 0; -ENOMEM; -E2BIG (too many nodes in both).
 */
int flamebearer_init(struct flamebearer *ret_bearer, const struct flame_tree *tree,
		     const struct flame_tree *right, uint32_t nodes_max);
void flamebearer_deinit(struct flamebearer *bearer);
