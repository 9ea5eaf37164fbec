// SPDX-License-Identifier: Apache-2.0
#include "collector/diagnose/hot_spot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash_table.h"
#include "base/saturating.h"

/** Of each node the nearest callers of a kind; 0: none. */
struct nearest {
	uint32_t *python, *own;
};

/** Values by function and caller, or by function alone (caller 0). */
struct table {
	struct hash_table index;
	struct spot_sum {
		struct hot_spot spot;
		int64_t leaf_value;
		uint32_t function_name, caller_name;
	} * sums;
	uint32_t count;
};

static void nearest_deinit(struct nearest *nearest)
{
	free(nearest->python);
	free(nearest->own);
}

static void table_deinit(struct table *table)
{
	hash_table_deinit(&table->index);
	free(table->sums);
}

// A grouped tree's first level are groups, not frames.
static bool is_frame(const struct flame_tree *tree, uint32_t node)
{
	return node && !(tree->grouped && tree->nodes[node].parent == 0);
}

static enum frame_kind ran_as(const struct flame_tree *tree, uint32_t node)
{
	return frame_ran_as(tree->nodes[node].kind,
			    string_table_get(&tree->strings, tree->nodes[node].module));
}

static bool is_library(const char *module)
{
	const char *so = strstr(module, ".so");

	return so && (!so[3] || so[3] == '.');
}

bool hot_spot_is_users(const struct flame_tree *tree, uint32_t node)
{
	const struct flame_node *frame = &tree->nodes[node];

	if (frame->kind == FRAME_KIND_PYTHON || frame->kind == FRAME_KIND_JIT)
		return true;
	return frame->kind == FRAME_KIND_NATIVE && ran_as(tree, node) == FRAME_KIND_NATIVE &&
	       !is_library(string_table_get(&tree->strings, frame->module));
}

static int nearest_init(struct nearest *nearest, const struct flame_tree *tree)
{
	nearest->python = calloc(tree->node_count + 1ULL, sizeof(*nearest->python));
	nearest->own = calloc(tree->node_count + 1ULL, sizeof(*nearest->own));
	if (!nearest->python || !nearest->own)
		return -ENOMEM;
	for (uint32_t i = 1; i < tree->node_count; i++) {
		uint32_t parent = tree->nodes[i].parent;
		bool is_python =
			is_frame(tree, parent) && tree->nodes[parent].kind == FRAME_KIND_PYTHON;
		bool is_own = is_frame(tree, parent) && hot_spot_is_users(tree, parent);

		nearest->python[i] = is_python ? parent : nearest->python[parent];
		nearest->own[i] = is_own ? parent : nearest->own[parent];
	}
	return 0;
}

/* Where the interpreter works for itself, its function is the one that it runs. */
static uint32_t function_of(const struct flame_tree *tree, const struct nearest *nearest,
			    uint32_t leaf)
{
	bool is_interpreter = tree->nodes[leaf].kind == FRAME_KIND_NATIVE &&
			      ran_as(tree, leaf) == FRAME_KIND_PYTHON;

	return is_interpreter && nearest->python[leaf] ? nearest->python[leaf] : leaf;
}

/* Python before native code of the program, which may embed it; else whoever calls. */
static uint32_t caller_of(const struct flame_tree *tree, const struct nearest *nearest,
			  uint32_t function)
{
	uint32_t parent = tree->nodes[function].parent;

	if (nearest->python[function])
		return nearest->python[function];
	if (nearest->own[function])
		return nearest->own[function];
	return is_frame(tree, parent) ? parent : 0;
}

struct spot_key {
	uint32_t function, caller;
};

static bool has_key(const void *context, uint32_t item, const void *key)
{
	const struct spot_sum *sum = &((const struct spot_sum *)context)[item];
	const struct spot_key *wanted = key;

	return sum->function_name == wanted->function && sum->caller_name == wanted->caller;
}

static int table_add(struct table *table, const struct flame_tree *tree, uint32_t function,
		     uint32_t caller, uint32_t leaf)
{
	const struct spot_key key = { tree->nodes[function].name,
				      caller ? tree->nodes[caller].name : 0 };
	uint64_t hash = hash64_of(&key, sizeof(key));
	uint32_t at = hash_table_find(&table->index, hash, has_key, table->sums, &key);
	int64_t value = tree->nodes[leaf].self;

	if (at == HASH_TABLE_NONE) {
		at = table->count++;
		table->sums[at] = (struct spot_sum){ .spot = { function, caller, leaf, 0 },
						     .function_name = key.function,
						     .caller_name = key.caller };
		if (hash_table_add(&table->index, hash, at))
			return -ENOMEM;
	}
	struct spot_sum *sum = &table->sums[at];
	add_to_saturating(&sum->spot.value, value);
	if (value > sum->leaf_value) {
		sum->leaf_value = value;
		sum->spot.function = function;
		sum->spot.caller = caller;
		sum->spot.leaf = leaf;
	}
	return 0;
}

static int by_falling_value(const void *a, const void *b)
{
	const struct spot_sum *x = a, *y = b;

	if (x->spot.value != y->spot.value)
		return x->spot.value < y->spot.value ? 1 : -1;
	return (x->spot.leaf > y->spot.leaf) - (x->spot.leaf < y->spot.leaf);
}

static void choose(struct table *pairs, struct table *functions, struct hot_spots *spots)
{
	if (pairs->count) {
		qsort(pairs->sums, pairs->count, sizeof(*pairs->sums), by_falling_value);
		qsort(functions->sums, functions->count, sizeof(*functions->sums),
		      by_falling_value);
		spots->function = functions->sums[0].spot.function;
		spots->value = functions->sums[0].spot.value;
	}
	for (uint32_t i = 0; i < pairs->count; i++) {
		const struct spot_sum *pair = &pairs->sums[i];

		if (!spots->caller && pair->function_name == functions->sums[0].function_name)
			spots->caller = pair->spot.caller;
		if (spots->count < HOT_SPOTS_MAX &&
		    (double)pair->spot.value >= HOT_SPOT_SHARE_MIN * (double)spots->sum)
			spots->spots[spots->count++] = pair->spot;
	}
}

int hot_spots_find(const struct flame_tree *tree, const bool *shown, struct hot_spots *ret_spots)
{
	_cleanup_(table_deinit) struct table pairs = { 0 }, functions = { 0 };
	_cleanup_(nearest_deinit) struct nearest nearest = { 0 };
	struct hot_spots spots = { 0 };
	int rc = nearest_init(&nearest, tree);

	pairs.sums = calloc(tree->node_count + 1ULL, sizeof(*pairs.sums));
	functions.sums = calloc(tree->node_count + 1ULL, sizeof(*functions.sums));
	if (rc || !pairs.sums || !functions.sums)
		return -ENOMEM;
	for (uint32_t i = 1; i < tree->node_count && !rc; i++) {
		uint32_t function;

		if (tree->nodes[i].self <= 0 || (shown && !shown[i]) || !is_frame(tree, i))
			continue;
		function = function_of(tree, &nearest, i);
		add_to_saturating(&spots.sum, tree->nodes[i].self);
		rc = table_add(&pairs, tree, function, caller_of(tree, &nearest, function), i);
		if (!rc)
			rc = table_add(&functions, tree, function, 0, i);
	}
	if (rc)
		return rc;
	choose(&pairs, &functions, &spots);
	*ret_spots = spots;
	return 0;
}
