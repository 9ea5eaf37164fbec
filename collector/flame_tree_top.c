// SPDX-License-Identifier: Apache-2.0
// The table of functions: one walk over the tree that knows which functions are on the path, so
// that a recursive function's total is counted at its outermost call only.
#include "collector/query.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/id128.h"

/** A walk; arrays by tree node or by row. */
struct top_walk {
	const struct flame_tree *tree;
	uint32_t *first_child; // by node, with one more at the end: into children
	uint32_t *children;
	uint32_t *row_of; // by node
	uint32_t *next;   // by node: the next of its children to visit
	struct top_row *rows;
	uint32_t row_count;
	uint32_t *on_path;       // by row: how often it is on the path
	int64_t *largest;        // by row: total of the node that its module is from
	struct hash_table index; // (name, kind) to row
};

struct row_key {
	uint32_t name;
	uint32_t kind;
};

static void walk_deinit(struct top_walk *walk)
{
	free(walk->first_child);
	free(walk->children);
	free(walk->row_of);
	free(walk->next);
	free(walk->rows);
	free(walk->on_path);
	free(walk->largest);
	hash_table_deinit(&walk->index);
}

static int walk_init(struct top_walk *walk)
{
	size_t count = walk->tree->node_count;

	walk->first_child = calloc(count + 1, sizeof(*walk->first_child));
	walk->children = calloc(count, sizeof(*walk->children));
	walk->row_of = calloc(count, sizeof(*walk->row_of));
	walk->next = calloc(count, sizeof(*walk->next));
	walk->rows = calloc(count, sizeof(*walk->rows));
	walk->on_path = calloc(count, sizeof(*walk->on_path));
	walk->largest = calloc(count, sizeof(*walk->largest));
	if (!walk->first_child || !walk->children || !walk->row_of || !walk->next || !walk->rows ||
	    !walk->on_path || !walk->largest)
		return -ENOMEM;
	return 0;
}

/** Children of each node side by side: counted, then placed. */
static void list_children(struct top_walk *walk)
{
	const struct flame_tree *tree = walk->tree;

	for (uint32_t node = 1; node < tree->node_count; node++)
		walk->first_child[tree->nodes[node].parent + 1]++;
	for (uint32_t node = 0; node < tree->node_count; node++) {
		walk->first_child[node + 1] += walk->first_child[node];
		walk->next[node] = walk->first_child[node];
	}
	for (uint32_t node = 1; node < tree->node_count; node++)
		walk->children[walk->next[tree->nodes[node].parent]++] = node;
	for (uint32_t node = 0; node < tree->node_count; node++)
		walk->next[node] = walk->first_child[node];
}

static bool row_has_key(const void *context, uint32_t item, const void *key)
{
	const struct top_row *row = &((const struct top_row *)context)[item];
	const struct row_key *wanted = key;

	return row->name == wanted->name && (uint32_t)row->kind == wanted->kind;
}

static int find_row(struct top_walk *walk, const struct flame_node *node, uint32_t *ret_row)
{
	const struct row_key key = { node->name, (uint32_t)node->kind };
	uint64_t hash = hash64_of(&key, sizeof(key));
	uint32_t row = hash_table_find(&walk->index, hash, row_has_key, walk->rows, &key);

	if (row == HASH_TABLE_NONE) {
		row = walk->row_count++;
		walk->rows[row] = (struct top_row){
			.name = node->name,
			.module = node->module,
			.kind = node->kind,
		};
		walk->largest[row] = node->total;
		if (hash_table_add(&walk->index, hash, row))
			return -ENOMEM;
	}
	*ret_row = row;
	return 0;
}

static int enter(struct top_walk *walk, uint32_t at)
{
	const struct flame_node *node = &walk->tree->nodes[at];
	uint32_t number;

	int rc = find_row(walk, node, &number);
	if (rc)
		return rc;

	struct top_row *row = &walk->rows[number];
	walk->row_of[at] = number;
	row->self = (int64_t)((uint64_t)row->self + (uint64_t)node->self);
	if (walk->on_path[number]++ == 0)
		row->total = (int64_t)((uint64_t)row->total + (uint64_t)node->total);
	if (node->total > walk->largest[number]) {
		walk->largest[number] = node->total;
		row->module = node->module;
	}
	return 0;
}

static int walk_below(struct top_walk *walk, uint32_t root)
{
	uint32_t at = root;

	for (;;) {
		if (walk->next[at] < walk->first_child[at + 1]) {
			at = walk->children[walk->next[at]++];
			int rc = enter(walk, at);
			if (rc)
				return rc;
			continue;
		}
		if (at == root)
			return 0;
		walk->on_path[walk->row_of[at]]--;
		at = walk->tree->nodes[at].parent;
	}
}

static int compare_rows(const void *a, const void *b, void *context)
{
	const struct top_row *x = a, *y = b;
	const struct string_table *strings = context;

	if (x->self != y->self)
		return x->self < y->self ? 1 : -1;
	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	int order = strcmp(string_table_get(strings, x->name), string_table_get(strings, y->name));
	return order ? order : (int)x->kind - (int)y->kind;
}

int flame_tree_top(const struct flame_tree *tree, uint32_t root, struct top_row **ret_rows,
		   uint32_t *ret_count, struct error *err)
{
	_cleanup_(walk_deinit) struct top_walk walk = { .tree = tree };

	int rc = walk_init(&walk);
	if (rc)
		return error_set(err, rc, "out of memory for a table of functions");

	list_children(&walk);
	rc = walk_below(&walk, root);
	if (rc)
		return error_set(err, rc, "out of memory for a table of functions");

	qsort_r(walk.rows, walk.row_count, sizeof(*walk.rows), compare_rows,
		(void *)&tree->strings);
	*ret_count = walk.row_count;
	*ret_rows = take(walk.rows);
	return 0;
}
