// SPDX-License-Identifier: Apache-2.0
// The table of functions: one walk over the tree that tracks the functions on the path, so that a
// recursive function's total counts at its outermost call only.
#include "collector/query/query.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/id128.h"

struct top_table {
	const struct flame_tree *tree;
	uint32_t *first_child; // by node, and one more: index into children
	uint32_t *children;
	uint32_t *row_of; // by node
	uint32_t *next;   // by node on the path: its next child to visit
	struct top_row *rows;
	uint32_t row_count;
	uint32_t *on_path;             // by row: how often it is on the path
	int64_t *largest;              // by row: total of the node with its module
	int64_t ran[FRAME_KIND_COUNT]; // own time of the nodes visited so far, by what ran
	struct hash_table index;       // (name, kind) to row
};

struct row_key {
	uint32_t name;
	uint32_t kind;
};

void top_table_freep(struct top_table **owner)
{
	struct top_table *table = *owner;

	if (!table)
		return;
	free(table->first_child);
	free(table->children);
	free(table->row_of);
	free(table->next);
	free(table->rows);
	free(table->on_path);
	free(table->largest);
	hash_table_deinit(&table->index);
	free(table);
}

static int table_init(struct top_table *table)
{
	size_t count = table->tree->node_count;

	table->first_child = calloc(count + 1, sizeof(*table->first_child));
	table->children = calloc(count, sizeof(*table->children));
	table->row_of = calloc(count, sizeof(*table->row_of));
	table->next = calloc(count, sizeof(*table->next));
	table->rows = calloc(count, sizeof(*table->rows));
	table->on_path = calloc(count, sizeof(*table->on_path));
	table->largest = calloc(count, sizeof(*table->largest));
	if (!table->first_child || !table->children || !table->row_of || !table->next ||
	    !table->rows || !table->on_path || !table->largest)
		return -ENOMEM;
	return 0;
}

/** Place the children of each node side by side (counting sort). */
static void list_children(struct top_table *table)
{
	const struct flame_tree *tree = table->tree;

	for (uint32_t node = 1; node < tree->node_count; node++)
		table->first_child[tree->nodes[node].parent + 1]++;
	for (uint32_t node = 0; node < tree->node_count; node++) {
		table->first_child[node + 1] += table->first_child[node];
		table->next[node] = table->first_child[node];
	}
	for (uint32_t node = 1; node < tree->node_count; node++)
		table->children[table->next[tree->nodes[node].parent]++] = node;
}

static bool row_has_key(const void *context, uint32_t item, const void *key)
{
	const struct top_row *row = &((const struct top_row *)context)[item];
	const struct row_key *wanted = key;

	return row->name == wanted->name && (uint32_t)row->kind == wanted->kind;
}

static int find_row(struct top_table *table, const struct flame_node *node, uint32_t *ret_row)
{
	const struct row_key key = { node->name, (uint32_t)node->kind };
	uint64_t hash = hash64_of(&key, sizeof(key));
	uint32_t row = hash_table_find(&table->index, hash, row_has_key, table->rows, &key);

	if (row == HASH_TABLE_NONE) {
		row = table->row_count++;
		table->rows[row] = (struct top_row){
			.name = node->name,
			.module = node->module,
			.kind = node->kind,
		};
		table->largest[row] = node->total;
		if (hash_table_add(&table->index, hash, row))
			return -ENOMEM;
	}
	*ret_row = row;
	return 0;
}

enum frame_kind frame_ran_as(enum frame_kind kind, const char *module)
{
	const char *slash = strrchr(module, '/');
	const char *name = slash ? slash + 1 : module;

	if (kind != FRAME_KIND_NATIVE)
		return kind < FRAME_KIND_COUNT ? kind : FRAME_KIND_UNKNOWN;
	return strncmp(name, "libpython", strlen("libpython")) == 0 ||
			       strncmp(name, "python", strlen("python")) == 0
		       ? FRAME_KIND_PYTHON
		       : kind;
}

/** At the outermost call of a function begins what runs below it, at its end ends it. */
static void count_from_here(const struct top_table *table, struct top_row *row)
{
	for (int kind = 0; kind < FRAME_KIND_COUNT; kind++)
		row->ran[kind] = (int64_t)((uint64_t)row->ran[kind] - (uint64_t)table->ran[kind]);
}

static void leave(struct top_table *table, uint32_t at)
{
	uint32_t number = table->row_of[at];
	struct top_row *row = &table->rows[number];

	if (--table->on_path[number])
		return;
	for (int kind = 0; kind < FRAME_KIND_COUNT; kind++)
		row->ran[kind] = (int64_t)((uint64_t)row->ran[kind] + (uint64_t)table->ran[kind]);
}

static int enter(struct top_table *table, uint32_t at)
{
	const struct flame_node *node = &table->tree->nodes[at];
	uint32_t number;

	int rc = find_row(table, node, &number);
	if (rc)
		return rc;

	struct top_row *row = &table->rows[number];
	table->row_of[at] = number;
	table->next[at] = table->first_child[at];
	row->self = (int64_t)((uint64_t)row->self + (uint64_t)node->self);
	if (table->on_path[number]++ == 0) {
		row->total = (int64_t)((uint64_t)row->total + (uint64_t)node->total);
		count_from_here(table, row);
	}
	enum frame_kind ran_as =
		frame_ran_as(node->kind, string_table_get(&table->tree->strings, node->module));
	table->ran[ran_as] = (int64_t)((uint64_t)table->ran[ran_as] + (uint64_t)node->self);
	if (node->total > table->largest[number]) {
		table->largest[number] = node->total;
		row->module = node->module;
	}
	return 0;
}

static int walk_below(struct top_table *table, uint32_t root)
{
	uint32_t at = root;

	table->next[root] = table->first_child[root];
	for (;;) {
		if (table->next[at] < table->first_child[at + 1]) {
			at = table->children[table->next[at]++];
			int rc = enter(table, at);
			if (rc)
				return rc;
			continue;
		}
		if (at == root)
			return 0;
		leave(table, at);
		at = table->tree->nodes[at].parent;
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

struct top_table *top_table_new(const struct flame_tree *tree)
{
	_cleanup_(top_table_freep) struct top_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->tree = tree;
	if (table_init(table))
		return NULL;

	list_children(table);
	return take(table);
}

int top_table_read(struct top_table *table, uint32_t root, const struct top_row **ret_rows,
		   uint32_t *ret_count, struct error *err)
{
	table->row_count = 0;
	memset(table->ran, 0, sizeof(table->ran));
	hash_table_clear(&table->index);
	int rc = walk_below(table, root);
	if (rc)
		return error_set(err, rc, "out of memory for a table of functions");

	qsort_r(table->rows, table->row_count, sizeof(*table->rows), compare_rows,
		(void *)&table->tree->strings);
	*ret_count = table->row_count;
	*ret_rows = table->rows;
	return 0;
}
