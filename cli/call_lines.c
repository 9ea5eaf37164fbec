// SPDX-License-Identifier: Apache-2.0
#include "cli/call_lines.h"
#include "cli/printable_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/id128.h"
#include "base/utf8.h"

enum {
	OPEN_PARTS = 20, // a call with such a part of all is open
	CALL_DEPTH_MAX =
		8192, // with inlined calls; of deeper stacks the outermost frames are left out
};

/* What makes two calls the same node. Hashed as bytes: no padding. */
struct node_key {
	uint32_t parent;
	uint32_t name;
	uint32_t kind;
	uint32_t is_process;
};

struct build {
	struct call_lines *lines;
	bool by_process;
	enum call_direction direction;
	uint32_t function;               // its number; HASH_TABLE_NONE: no sample has it
	uint32_t frames[CALL_DEPTH_MAX]; // of the stack in hand, outermost first: nodes of the tree
	uint32_t frame_count;
};

static bool node_equal(const void *context, uint32_t item, const void *key)
{
	const struct shown_call *node = &((const struct call_lines *)context)->nodes[item];
	const struct node_key *wanted = key;

	return node->parent == wanted->parent && node->name == wanted->name &&
	       (uint32_t)node->kind == wanted->kind && node->is_process == wanted->is_process;
}

/* Numbers of strings differ from refresh to refresh. */
static uint64_t path_of(const struct call_lines *lines, const struct node_key *key)
{
	const char *name = string_table_get(&lines->tree.names, key->name);
	const uint64_t parts[] = { lines->nodes[key->parent].path, hash64_of(name, strlen(name)),
				   key->kind };

	return hash64_of(parts, sizeof(parts));
}

static int append_node(struct call_lines *lines, const struct shown_call *node)
{
	int rc = array_reserve(&lines->nodes, sizeof(*lines->nodes), &lines->node_capacity,
			       lines->node_count, 1, CALL_NODES_MAX);

	if (!rc)
		lines->nodes[lines->node_count++] = *node;
	return rc;
}

static int enter(struct call_lines *lines, const struct node_key *key, uint32_t *ret_node)
{
	uint64_t hash = hash64_of(key, sizeof(*key));
	int rc;

	*ret_node = hash_table_find(&lines->index, hash, node_equal, lines, key);
	if (*ret_node != HASH_TABLE_NONE)
		return 0;
	*ret_node = lines->node_count;
	rc = append_node(lines, &(struct shown_call){
					.name = key->name,
					.parent = key->parent,
					.first_child = HASH_TABLE_NONE,
					.next = HASH_TABLE_NONE,
					.is_process = key->is_process,
					.kind = (enum frame_kind)key->kind,
					.path = path_of(lines, key),
				});
	return rc ? rc : hash_table_add(&lines->index, hash, *ret_node);
}

/* The stack that ends at a node of the tree, in the direction's order. */
static void read_stack(struct build *build, uint32_t leaf)
{
	const struct call_node *nodes = build->lines->tree.nodes;
	uint32_t count = 0;

	for (uint32_t at = leaf; at && count < CALL_DEPTH_MAX; at = nodes[at].parent)
		build->frames[count++] = at;
	build->frame_count = count;
	for (uint32_t i = 0; build->direction != CALLS_CALLERS && i < count / 2; i++) {
		uint32_t inner = build->frames[i];

		build->frames[i] = build->frames[count - 1 - i];
		build->frames[count - 1 - i] = inner;
	}
}

/* Where in the stack the lines begin; the count if nowhere. */
static uint32_t first_of(const struct build *build)
{
	const struct call_node *nodes = build->lines->tree.nodes;
	uint32_t at = 0;

	if (build->direction == CALLS_ALL)
		return build->by_process ? 0 : 1;
	while (at < build->frame_count && (!nodes[build->frames[at]].parent ||
					   nodes[build->frames[at]].name != build->function))
		at++; // a process may have the function's name, too
	return at;
}

static int count_stack(struct build *build, uint32_t leaf)
{
	struct call_lines *lines = build->lines;
	int64_t value = lines->tree.nodes[leaf].self;
	uint32_t node = 0, at;
	int rc = 0;

	lines->total += value;
	read_stack(build, leaf);
	at = first_of(build);
	if (at >= build->frame_count)
		return 0;
	lines->nodes[0].total += value;
	for (; !rc && at < build->frame_count; at++) {
		const struct call_node *frame = &lines->tree.nodes[build->frames[at]];
		struct node_key key = { .parent = node,
					.name = frame->name,
					.kind = frame->kind,
					.is_process = frame->parent == 0 };

		rc = enter(lines, &key, &node);
		if (!rc)
			lines->nodes[node].total += value;
	}
	if (!rc)
		lines->nodes[node].self += value;
	return rc;
}

struct sorted {
	int64_t total;
	uint32_t node;
};

/* The smallest first; of equal ones the later, so that the order stays. */
static int compare(const void *a, const void *b)
{
	const struct sorted *left = a, *right = b;

	if (left->total != right->total)
		return left->total < right->total ? -1 : 1;
	return left->node < right->node ? 1 : -1;
}

/* Each node becomes its parent's first child, the largest at last. */
static int link_children(struct call_lines *lines)
{
	_cleanup_free_ struct sorted *sorted = malloc(lines->node_count * sizeof(*sorted));

	if (!sorted)
		return -ENOMEM;
	for (uint32_t i = 0; i < lines->node_count; i++)
		sorted[i] = (struct sorted){ lines->nodes[i].total, i };
	qsort(sorted, lines->node_count, sizeof(*sorted), compare);
	for (uint32_t i = 0; i < lines->node_count; i++) {
		struct shown_call *node = &lines->nodes[sorted[i].node];
		struct shown_call *parent = &lines->nodes[node->parent];

		if (!sorted[i].node)
			continue;
		node->next = parent->first_child;
		parent->first_child = sorted[i].node;
	}
	for (uint32_t i = 1; i < lines->node_count; i++) {
		const struct shown_call *parent = &lines->nodes[lines->nodes[i].parent];
		bool branches = lines->nodes[parent->first_child].next != HASH_TABLE_NONE;

		lines->nodes[i].indent = parent->indent + (lines->nodes[i].parent && branches);
	}
	return 0;
}

static int count_stacks(struct build *build)
{
	const struct call_tree *tree = &build->lines->tree;
	int rc = append_node(build->lines, &(struct shown_call){ .first_child = HASH_TABLE_NONE,
								 .next = HASH_TABLE_NONE });

	for (uint32_t i = 1; !rc && i < tree->node_count; i++)
		if (tree->nodes[i].self)
			rc = count_stack(build, i);
	return rc ? rc : link_children(build->lines);
}

int call_lines_build(const struct profile *profile, const char *type, bool by_process,
		     enum call_direction direction, const char *function,
		     struct call_lines *ret_lines, struct error *err)
{
	_cleanup_(call_lines_deinit) struct call_lines lines = { 0 };
	struct build build = { .lines = &lines, .by_process = by_process, .direction = direction };
	int rc = call_tree_init(&lines.tree, profile, type);

	if (rc)
		lines.tree = (struct call_tree){ 0 };
	else if (direction != CALLS_ALL)
		build.function = string_table_find(&lines.tree.names, function);
	if (!rc)
		rc = count_stacks(&build);
	if (rc)
		return error_errno(err, rc, "calls");
	*ret_lines = lines;
	lines = (struct call_lines){ 0 };
	return 0;
}

void call_lines_deinit(struct call_lines *lines)
{
	if (lines->tree.node_count)
		call_tree_deinit(&lines->tree);
	hash_table_deinit(&lines->index);
	free(lines->nodes);
	free(lines->lines);
	*lines = (struct call_lines){ 0 };
}

static bool is_toggled(const struct call_toggles *toggles, uint64_t path)
{
	for (uint32_t i = 0; i < toggles->count; i++)
		if (toggles->paths[i] == path)
			return true;
	return false;
}

void call_toggles_change(struct call_toggles *toggles, uint64_t path)
{
	for (uint32_t i = 0; i < toggles->count; i++) {
		if (toggles->paths[i] != path)
			continue;
		toggles->paths[i] = toggles->paths[--toggles->count];
		return;
	}
	if (toggles->count < CALLS_TOGGLED_MAX) {
		toggles->paths[toggles->count++] = path;
		return;
	}
	toggles->paths[toggles->oldest] = path;
	toggles->oldest = (toggles->oldest + 1) % CALLS_TOGGLED_MAX;
}

enum {
	FOUND = 1,       // by the filter
	CALLS_FOUND = 2, // above one
	OF_FOUND = 4,    // below one
};

static void mark_found(const struct call_lines *lines, const char *filter, uint8_t *marks)
{
	for (uint32_t i = 1; i < lines->node_count; i++) {
		const struct shown_call *node = &lines->nodes[i];

		if (strcasestr(string_table_get(&lines->tree.names, node->name), filter))
			marks[i] |= FOUND;
		if (marks[node->parent] & (FOUND | OF_FOUND))
			marks[i] |= OF_FOUND;
	}
	for (uint32_t i = lines->node_count - 1; i > 0; i--)
		if (marks[i] & (FOUND | CALLS_FOUND))
			marks[lines->nodes[i].parent] |= CALLS_FOUND;
}

static bool is_open(const struct call_lines *lines, const struct call_toggles *toggles,
		    const uint8_t *marks, uint32_t number)
{
	const struct shown_call *node = &lines->nodes[number];
	const struct shown_call *parent = &lines->nodes[node->parent];
	bool is_only_child = parent->first_child == number && node->next == HASH_TABLE_NONE;
	bool by_default = (marks && marks[number] & CALLS_FOUND) || is_only_child ||
			  node->total * OPEN_PARTS >= lines->total;

	return by_default != is_toggled(toggles, node->path);
}

/* The next node in the order of lines, below @number only if it is open. */
static uint32_t next_line(const struct call_lines *lines, uint32_t number, bool below)
{
	if (below && lines->nodes[number].first_child != HASH_TABLE_NONE)
		return lines->nodes[number].first_child;
	while (number && lines->nodes[number].next == HASH_TABLE_NONE)
		number = lines->nodes[number].parent;
	return number ? lines->nodes[number].next : HASH_TABLE_NONE;
}

int call_lines_select(struct call_lines *lines, const struct call_toggles *toggles,
		      const char *filter)
{
	struct call_line *shown =
		realloc(lines->lines, (lines->node_count + 1ULL) * sizeof(*shown));
	_cleanup_free_ uint8_t *marks = *filter ? calloc(lines->node_count + 1ULL, 1) : NULL;

	if (shown)
		lines->lines = shown;
	if (!shown || (*filter && !marks))
		return -ENOMEM;
	lines->line_count = 0;
	if (!lines->node_count)
		return 0;
	if (marks)
		mark_found(lines, filter, marks);
	for (uint32_t i = next_line(lines, 0, true); i != HASH_TABLE_NONE;) {
		bool is_shown = !marks || marks[i],
		     open = is_shown && is_open(lines, toggles, marks, i);

		if (is_shown)
			shown[lines->line_count++] = (struct call_line){
				.node = i,
				.opens = lines->nodes[i].first_child != HASH_TABLE_NONE,
				.open = open,
			};
		i = next_line(lines, i, open);
	}
	return 0;
}

void call_lines_name(const struct call_lines *lines, uint32_t node, char *ret_text, size_t size)
{
	snprintf(ret_text, size, "%s",
		 string_table_get(&lines->tree.names, lines->nodes[node].name));
	utf8_clean(ret_text);
}

double call_lines_percent(const struct call_lines *lines, int64_t value)
{
	return lines->total > 0 ? 100.0 * (double)value / (double)lines->total : 0;
}

void call_lines_print(const struct call_lines *lines, uint32_t rows_max, FILE *stream)
{
	fprintf(stream, "%7s %7s  %s\n", "total%", "self%", "call");
	for (uint32_t i = 0; i < lines->line_count && (!rows_max || i < rows_max); i++) {
		const struct shown_call *node = &lines->nodes[lines->lines[i].node];
		char name[FUNCTION_NAME_BYTES];

		call_lines_name(lines, lines->lines[i].node, name, sizeof(name));
		fprintf(stream, "%7.2f %7.2f  %*s%s\n", call_lines_percent(lines, node->total),
			call_lines_percent(lines, node->self), (int)(2 * node->indent), "", name);
	}
}
