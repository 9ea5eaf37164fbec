// SPDX-License-Identifier: Apache-2.0
// Compares two trees stack by stack: subtracts an earlier one.
#include "collector/query/flame_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/profile/profile.h"

/** A node's self value under the hash of its stack. */
struct path {
	struct id128 id;
	int64_t self;
};

static int compare_paths(const void *a, const void *b)
{
	return memcmp(&((const struct path *)a)->id, &((const struct path *)b)->id,
		      sizeof(struct id128));
}

// One path per node of @tree, in order. Parents come before children.
static struct path *paths_of(const struct flame_tree *tree)
{
	struct path *paths = calloc((size_t)tree->node_count + 1, sizeof(*paths));

	for (uint32_t i = 1; paths && i < tree->node_count; i++) {
		const struct flame_node *node = &tree->nodes[i];
		const char *name = string_table_get(&tree->strings, node->name);
		struct {
			struct id128 parent, name;
			uint64_t kind;
		} step = { paths[node->parent].id, id128_of(name, strlen(name)), node->kind };

		paths[i] = (struct path){ id128_of(&step, sizeof(step)), node->self };
	}
	return paths;
}

int64_t *flame_tree_self_in(const struct flame_tree *tree, const struct flame_tree *other)
{
	_cleanup_free_ struct path *wanted = paths_of(tree), *known = paths_of(other);
	int64_t *self = calloc((size_t)tree->node_count + 1, sizeof(*self));

	if (!wanted || !known || !self) {
		free(self);
		return NULL;
	}
	if (other->node_count)
		qsort(known + 1, other->node_count - 1, sizeof(*known), compare_paths);
	for (uint32_t i = 1; i < tree->node_count && other->node_count; i++) {
		const struct path *found = bsearch(&wanted[i], known + 1, other->node_count - 1,
						   sizeof(*known), compare_paths);

		self[i] = found ? found->self : 0;
	}
	return self;
}

int flame_tree_subtract(struct flame_tree *tree, const struct flame_tree *before)
{
	_cleanup_free_ int64_t *old = flame_tree_self_in(tree, before);

	if (!old)
		return -ENOMEM;
	for (uint32_t i = 1; i < tree->node_count; i++) {
		struct flame_node *node = &tree->nodes[i];

		node->self = node->self > old[i] ? node->self - old[i] : 0;
	}
	return 0;
}
