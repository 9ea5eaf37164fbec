// SPDX-License-Identifier: Apache-2.0
// Both trees are merged by name into one, whose nodes have two values; the largest are kept; then a walk from the root writes
// each node to its level.
#include "collector/pyroscope/flamebearer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/id128.h"
#include "base/saturating.h"

#define OTHER_NAME "other"

/** A node of the merged tree: siblings of one name are one node, whatever kind of code they are. */
struct joined_node {
	uint32_t parent;                    // smaller than the node's number
	uint32_t name;                      // string of the joined tree
	uint32_t first_child, next_sibling; // kept ones, by name; 0: none
	bool is_kept;
	int64_t self[FLAMEBEARER_SIDES], total[FLAMEBEARER_SIDES];
};

struct joined_tree {
	struct string_table names;
	struct joined_node *nodes;
	uint32_t count, capacity;
	struct hash_table index;
};

static void joined_tree_deinit(struct joined_tree *tree)
{
	string_table_deinit(&tree->names);
	hash_table_deinit(&tree->index);
	free(tree->nodes);
}

// ---- joining --------------------------------------------------------------------------------

struct joined_key {
	uint32_t parent, name;
};

static bool joined_equal(const void *context, uint32_t item, const void *key)
{
	const struct joined_tree *tree = context;
	const struct joined_key *wanted = key;

	return tree->nodes[item].parent == wanted->parent && tree->nodes[item].name == wanted->name;
}

static int add_joined(struct joined_tree *tree, const struct joined_key *key, uint32_t *ret_node)
{
	int rc = array_reserve(&tree->nodes, sizeof(*tree->nodes), &tree->capacity, tree->count, 1,
			       UINT32_MAX / 2);

	if (rc)
		return rc;
	*ret_node = tree->count;
	tree->nodes[tree->count++] =
		(struct joined_node){ .parent = key->parent, .name = key->name };
	return 0;
}

static int find_joined(struct joined_tree *tree, uint32_t parent, const char *name,
		       uint32_t *ret_node)
{
	struct joined_key key = { .parent = parent };
	int rc = string_table_add(&tree->names, name, strlen(name), &key.name);

	if (rc)
		return rc;
	uint64_t hash = hash64_of(&key, sizeof(key));
	uint32_t node = hash_table_find(&tree->index, hash, joined_equal, tree, &key);

	if (node == HASH_TABLE_NONE) {
		rc = add_joined(tree, &key, &node);
		if (!rc)
			rc = hash_table_add(&tree->index, hash, node);
		if (rc)
			return rc;
	}
	*ret_node = node;
	return 0;
}

/** The root is no child: it is not in the index, where a function "total" may be. */
static int add_root(struct joined_tree *tree)
{
	struct joined_key key = { 0 };
	uint32_t root;
	int rc = string_table_add(&tree->names, "total", strlen("total"), &key.name);

	return rc ? rc : add_joined(tree, &key, &root);
}

/** Nodes without a value are left out, with all below them. */
static int join(struct joined_tree *tree, const struct flame_tree *from, int side)
{
	_cleanup_free_ uint32_t *joined = calloc(from->node_count, sizeof(*joined));

	if (!joined)
		return -ENOMEM;
	for (uint32_t i = 0; i < from->node_count; i++) {
		const struct flame_node *node = &from->nodes[i];
		bool is_empty = i && (!node->total || joined[node->parent] == UINT32_MAX);
		int rc = i && !is_empty ? find_joined(tree, joined[node->parent],
						      string_table_get(&from->strings, node->name),
						      &joined[i])
					: 0;
		if (rc)
			return rc;
		if (is_empty) {
			joined[i] = UINT32_MAX;
			continue;
		}

		struct joined_node *sum = &tree->nodes[joined[i]];
		sum->self[side] = add_saturating(sum->self[side], node->self);
		sum->total[side] = add_saturating(sum->total[side], node->total);
	}
	return 0;
}

// ---- choosing -------------------------------------------------------------------------------

struct rank {
	int64_t total; // the larger one
	uint32_t node;
};

static int compare_ranks(const void *a, const void *b)
{
	const struct rank *x = a, *y = b;

	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return (x->node > y->node) - (x->node < y->node);
}

/** Mark the root and the @nodes_max - 1 largest others, of which the parents are larger. */
static int mark_kept(struct joined_tree *tree, uint32_t nodes_max)
{
	_cleanup_free_ struct rank *ranks = malloc(tree->count * sizeof(*ranks));

	if (!ranks)
		return -ENOMEM;
	for (uint32_t i = 0; i < tree->count; i++) {
		const int64_t *total = tree->nodes[i].total;

		ranks[i] = (struct rank){ total[0] > total[1] ? total[0] : total[1], i };
	}
	if (tree->count > nodes_max)
		qsort(ranks + 1, tree->count - 1, sizeof(*ranks), compare_ranks);
	for (uint32_t i = 0; i < tree->count && i < nodes_max; i++)
		tree->nodes[ranks[i].node].is_kept = true;
	// Only if values are negative is a parent not kept; then neither are its children.
	for (uint32_t i = 1; i < tree->count; i++)
		tree->nodes[i].is_kept &= tree->nodes[tree->nodes[i].parent].is_kept;
	return 0;
}

struct named_node {
	const char *name;
	uint32_t node;
};

static int compare_names(const void *a, const void *b)
{
	const struct named_node *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : (x->node > y->node) - (x->node < y->node);
}

/** Pushed to the front of its parent's list from the last name to the first, each list is sorted. */
static int link_kept(struct joined_tree *tree)
{
	_cleanup_free_ struct named_node *nodes = calloc(tree->count, sizeof(*nodes));
	uint32_t count = 0;

	if (!nodes)
		return -ENOMEM;
	for (uint32_t i = 1; i < tree->count; i++)
		if (tree->nodes[i].is_kept)
			nodes[count++] = (struct named_node){
				string_table_get(&tree->names, tree->nodes[i].name), i
			};
	qsort(nodes, count, sizeof(*nodes), compare_names);
	while (count-- > 0) {
		struct joined_node *node = &tree->nodes[nodes[count].node];
		struct joined_node *parent = &tree->nodes[node->parent];

		node->next_sibling = parent->first_child;
		parent->first_child = nodes[count].node;
	}
	return 0;
}

// ---- writing --------------------------------------------------------------------------------

/** Where the next node of each level begins, and what ended before, on both sides. */
struct walk {
	const struct joined_tree *tree;
	struct flamebearer *bearer;
	uint32_t *name_of; // by string of the tree: its name's number + 1, 0: not yet
	uint32_t other;    // number of OTHER_NAME + 1, 0: not yet
	int sides;
	int64_t *ends; // by level and side
	uint32_t ends_capacity;
};

static void walk_deinit(struct walk *walk)
{
	free(walk->name_of);
	free(walk->ends);
}

static int add_name(struct flamebearer *bearer, const char *text, uint32_t *known)
{
	if (*known)
		return 0;
	int rc = array_reserve(&bearer->names, sizeof(*bearer->names), &bearer->name_capacity,
			       bearer->name_count, 1, UINT32_MAX / 2);
	if (rc)
		return rc;
	char *name = strdup(text);
	if (!name)
		return -ENOMEM;
	bearer->names[bearer->name_count++] = name;
	*known = bearer->name_count;
	return 0;
}

static int reach_level(struct walk *walk, uint32_t level)
{
	struct flamebearer *bearer = walk->bearer;
	int rc = 0;

	if (level < bearer->level_count)
		return 0;
	rc = array_reserve(&bearer->levels, sizeof(*bearer->levels), &bearer->level_capacity, level,
			   1, UINT32_MAX / 2);
	if (!rc)
		rc = array_reserve(&walk->ends, FLAMEBEARER_SIDES * sizeof(*walk->ends),
				   &walk->ends_capacity, level, 1, UINT32_MAX / 2);
	if (rc)
		return rc;
	bearer->levels[level] = (struct bearer_level){ 0 };
	walk->ends[2 * level] = walk->ends[2 * level + 1] = 0;
	bearer->level_count = level + 1;
	return 0;
}

/** Write a node to @level, where it begins at @starts. */
static int append_node(struct walk *walk, uint32_t level, const int64_t *starts,
		       const int64_t *totals, const int64_t *selfs, uint32_t name)
{
	int rc = reach_level(walk, level);
	struct bearer_level *at = rc ? NULL : &walk->bearer->levels[level];

	if (!rc)
		rc = array_reserve(&at->values, sizeof(*at->values), &at->capacity, at->count, 7,
				   UINT32_MAX / 2);
	if (rc)
		return rc;
	for (int side = 0; side < walk->sides; side++) {
		int64_t *end = &walk->ends[2 * level + (uint32_t)side];

		at->values[at->count++] = subtract_saturating(starts[side], *end);
		at->values[at->count++] = totals[side];
		at->values[at->count++] = selfs[side];
		*end = add_saturating(starts[side], totals[side]);
		if (selfs[side] > walk->bearer->max_self)
			walk->bearer->max_self = selfs[side];
	}
	at->values[at->count++] = name;
	return 0;
}

static int append_joined(struct walk *walk, uint32_t number, uint32_t level, const int64_t *starts)
{
	const struct joined_node *node = &walk->tree->nodes[number];
	uint32_t *name = &walk->name_of[node->name];
	int rc = add_name(walk->bearer, string_table_get(&walk->tree->names, node->name), name);

	return rc ? rc : append_node(walk, level, starts, node->total, node->self, *name - 1);
}

/** What of @node lies in children that are left out: one node after the others. @starts: there. */
static int append_other(struct walk *walk, uint32_t level, const int64_t *starts,
			const int64_t *rest)
{
	if (!rest[0] && !rest[1])
		return 0;
	int rc = add_name(walk->bearer, OTHER_NAME, &walk->other);
	return rc ? rc : append_node(walk, level, starts, rest, rest, walk->other - 1);
}

/** A node on the path from the root, whose children are being written. */
struct place {
	uint32_t child;                    // the next one; 0: no more
	int64_t starts[FLAMEBEARER_SIDES]; // of the next child
	int64_t rest[FLAMEBEARER_SIDES];   // of the children's total
};

static struct place place_of(const struct joined_node *node, const int64_t *starts)
{
	struct place place = { .child = node->first_child };

	for (int side = 0; side < FLAMEBEARER_SIDES; side++) {
		place.starts[side] = add_saturating(starts[side], node->self[side]);
		place.rest[side] = subtract_saturating(node->total[side], node->self[side]);
	}
	return place;
}

/** Depth first, children in order: so each level is written from the left to the right. */
static int walk_tree(struct walk *walk)
{
	static const int64_t begin[FLAMEBEARER_SIDES];
	const struct joined_node *nodes = walk->tree->nodes;
	_cleanup_free_ struct place *places = calloc(FLAMEBEARER_DEPTH_MAX, sizeof(*places));
	uint32_t depth = 1;

	if (!places)
		return -ENOMEM;
	int rc = append_joined(walk, 0, 0, begin);
	places[0] = place_of(&nodes[0], begin);
	while (!rc && depth) {
		struct place *place = &places[depth - 1];
		uint32_t child = depth < FLAMEBEARER_DEPTH_MAX ? place->child : 0;

		if (!child) {
			rc = append_other(walk, depth--, place->starts, place->rest);
			continue;
		}
		rc = append_joined(walk, child, depth, place->starts);
		places[depth++] = place_of(&nodes[child], place->starts);
		place->child = nodes[child].next_sibling;
		for (int side = 0; side < FLAMEBEARER_SIDES; side++) {
			const int64_t total = nodes[child].total[side];

			place->starts[side] = add_saturating(place->starts[side], total);
			place->rest[side] = subtract_saturating(place->rest[side], total);
		}
	}
	return rc;
}

int flamebearer_init(struct flamebearer *ret_bearer, const struct flame_tree *tree,
		     const struct flame_tree *right, uint32_t nodes_max)
{
	_cleanup_(flamebearer_deinit) struct flamebearer bearer = { 0 };
	_cleanup_(joined_tree_deinit) struct joined_tree joined = { 0 };
	_cleanup_(walk_deinit) struct walk walk = {
		.tree = &joined,
		.bearer = &bearer,
		.sides = right ? 2 : 1,
	};
	int rc = string_table_init(&joined.names);

	if (!rc)
		rc = add_root(&joined);
	if (!rc)
		rc = join(&joined, tree, 0);
	if (!rc && right)
		rc = join(&joined, right, 1);
	if (!rc)
		rc = mark_kept(&joined, nodes_max);
	if (!rc)
		rc = link_kept(&joined);
	if (!rc)
		rc = array_allocate(&walk.name_of, joined.names.count, sizeof(*walk.name_of));
	if (rc)
		return rc;
	bearer.totals[0] = joined.nodes[0].total[0];
	bearer.totals[1] = joined.nodes[0].total[1];
	rc = walk_tree(&walk);
	if (rc)
		return rc;
	*ret_bearer = bearer;
	bearer = (struct flamebearer){ 0 };
	return 0;
}

void flamebearer_deinit(struct flamebearer *bearer)
{
	for (uint32_t i = 0; i < bearer->name_count; i++)
		free(bearer->names[i]);
	for (uint32_t i = 0; i < bearer->level_count; i++)
		free(bearer->levels[i].values);
	free(bearer->names);
	free(bearer->levels);
	*bearer = (struct flamebearer){ 0 };
}
