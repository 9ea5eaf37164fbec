// SPDX-License-Identifier: Apache-2.0
// Each block of time is a query of its own into the same tree. At its end the values of the nodes that it touched, and of
// their functions, are added to what is kept of each: a sum, and what its variance is made of.
#include "collector/compare/comparison.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/hash_table.h"
#include "base/id128.h"
#include "collector/compare/exposure.h"
#include "collector/compare/significance.h"
#include "collector/query/query_gauge.h"
#include "collector/query/query_groups.h"
#include "collector/query/query_sums.h"
#include "collector/query/tree_builder.h"

/** What is kept of a node or of a function's self value or total. */
struct summed {
	struct block_values sides[COMPARISON_SIDES];
};

/** A node of the tree, beside its names. */
struct compared_node {
	uint32_t function;
	bool is_outermost;   // no caller is the same function
	bool is_touched;     // by the block
	int64_t self, total; // in the block
	int64_t selfs[COMPARISON_SIDES];
	struct summed sum; // of its total
};

struct function_sum {
	uint32_t name;
	enum frame_kind kind;
	bool is_touched;
	int64_t self, total; // in the block
	struct summed self_sum, total_sum;
};

struct comparing {
	const struct comparison_query *query;
	struct error *err;
	struct flame_tree tree;
	struct tree_builder builder;
	struct compared_node *nodes; // by node of the tree
	uint32_t node_count, node_capacity;
	uint32_t *touched; // nodes
	uint32_t touched_count, touched_capacity;
	struct function_sum *functions;
	uint32_t function_count, function_capacity;
	uint32_t *touched_functions;
	uint32_t touched_function_count, touched_function_capacity;
	struct hash_table function_index; // (name, kind)
	struct block_weights weights[COMPARISON_SIDES];
	struct compared_side sides[COMPARISON_SIDES];
};

struct function_key {
	uint32_t name;
	uint32_t kind;
};

static void comparing_deinit(struct comparing *comparing)
{
	flame_tree_deinit(&comparing->tree);
	tree_builder_deinit(&comparing->builder);
	free(comparing->nodes);
	free(comparing->touched);
	free(comparing->functions);
	free(comparing->touched_functions);
	hash_table_deinit(&comparing->function_index);
}

static int out_of_memory(struct comparing *comparing)
{
	return error_set(comparing->err, -ENOMEM, "out of memory for a comparison of %u call paths",
			 comparing->tree.node_count);
}

static void add_value(int64_t *sum, int64_t value)
{
	*sum = (int64_t)((uint64_t)*sum + (uint64_t)value); // wraps instead of being undefined
}

// ---- a block's values -------------------------------------------------------------------------------

static bool function_has_key(const void *context, uint32_t item, const void *key)
{
	const struct function_sum *function = &((const struct function_sum *)context)[item];
	const struct function_key *wanted = key;

	return function->name == wanted->name && (uint32_t)function->kind == wanted->kind;
}

static int find_function(struct comparing *comparing, const struct flame_node *node,
			 uint32_t *ret_function)
{
	const struct function_key key = { node->name, (uint32_t)node->kind };
	uint64_t hash = hash64_of(&key, sizeof(key));
	uint32_t function = hash_table_find(&comparing->function_index, hash, function_has_key,
					    comparing->functions, &key);

	if (function == HASH_TABLE_NONE) {
		function = comparing->function_count;
		if (array_reserve(&comparing->functions, sizeof(*comparing->functions),
				  &comparing->function_capacity, function, 1,
				  COMPARISON_NODES_MAX) ||
		    hash_table_add(&comparing->function_index, hash, function))
			return out_of_memory(comparing);
		comparing->functions[comparing->function_count++] = (struct function_sum){
			.name = node->name,
			.kind = node->kind,
		};
	}
	*ret_function = function;
	return 0;
}

static bool is_outermost(const struct comparing *comparing, uint32_t node, uint32_t function)
{
	for (uint32_t at = comparing->tree.nodes[node].parent; at;
	     at = comparing->tree.nodes[at].parent)
		if (comparing->nodes[at].function == function)
			return false;
	return true;
}

/** Know the nodes that the tree has got since. Parents come first. */
static int add_new_nodes(struct comparing *comparing)
{
	const struct flame_tree *tree = &comparing->tree;
	uint32_t more = tree->node_count - comparing->node_count;

	if (array_reserve(&comparing->nodes, sizeof(*comparing->nodes), &comparing->node_capacity,
			  comparing->node_count, more, COMPARISON_NODES_MAX) ||
	    array_reserve(&comparing->touched, sizeof(*comparing->touched),
			  &comparing->touched_capacity, comparing->node_count, more,
			  COMPARISON_NODES_MAX))
		return out_of_memory(comparing);
	for (; comparing->node_count < tree->node_count; comparing->node_count++) {
		uint32_t number = comparing->node_count;
		struct compared_node node = { .function = UINT32_MAX }; // of the root

		int rc =
			number ? find_function(comparing, &tree->nodes[number], &node.function) : 0;
		if (rc)
			return rc;
		node.is_outermost = number && is_outermost(comparing, number, node.function);
		comparing->nodes[number] = node;
	}
	return 0;
}

/** Add @node and its callers to the block's nodes. */
static void touch_path(struct comparing *comparing, uint32_t node)
{
	while (!comparing->nodes[node].is_touched) {
		comparing->nodes[node].is_touched = true;
		comparing->touched[comparing->touched_count++] = node;
		node = comparing->tree.nodes[node].parent;
	}
}

static int on_partition(void *context, const struct store_forest *forest)
{
	struct comparing *comparing = context;

	return tree_builder_partition(&comparing->builder, forest);
}

static int on_sums(void *context, const struct forest_sums *sums)
{
	struct comparing *comparing = context;
	struct tree_builder *builder = &comparing->builder;
	int rc = 0;

	builder->tree_of[0] = 0;
	for (uint32_t i = 1; !rc && i < sums->live_count; i++)
		rc = tree_builder_map(builder, sums->forest, sums->live[i], 0);
	if (!rc)
		rc = add_new_nodes(comparing);
	for (uint32_t i = 0; !rc && i < sums->live_count; i++) {
		uint32_t node = builder->tree_of[sums->live[i]];

		if (!sums->self[sums->live[i]])
			continue;
		add_value(&comparing->nodes[node].self, sums->self[sums->live[i]]);
		touch_path(comparing, node);
	}
	return rc;
}

static int compare_falling(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x < y) - (x > y);
}

/** Values below each of the block's nodes: children come after their parents. */
static void sum_totals(struct comparing *comparing)
{
	if (comparing->touched_count)
		qsort(comparing->touched, comparing->touched_count, sizeof(*comparing->touched),
		      compare_falling);
	for (uint32_t i = 0; i < comparing->touched_count; i++) {
		struct compared_node *node = &comparing->nodes[comparing->touched[i]];

		add_value(&node->total, node->self);
		if (comparing->touched[i])
			add_value(&comparing
					   ->nodes[comparing->tree.nodes[comparing->touched[i]]
							   .parent]
					   .total,
				  node->total);
	}
}

static int touch_function(struct comparing *comparing, const struct compared_node *node)
{
	struct function_sum *function = &comparing->functions[node->function];

	if (!function->is_touched) {
		if (array_reserve(&comparing->touched_functions,
				  sizeof(*comparing->touched_functions),
				  &comparing->touched_function_capacity,
				  comparing->touched_function_count, 1, COMPARISON_NODES_MAX))
			return out_of_memory(comparing);
		function->is_touched = true;
		comparing->touched_functions[comparing->touched_function_count++] = node->function;
	}
	add_value(&function->self, node->self);
	if (node->is_outermost)
		add_value(&function->total, node->total);
	return 0;
}

/** Add the block's values to what is kept of side @side, with the block's @weight, and clear them. */
static int end_block(struct comparing *comparing, int side, double weight)
{
	int rc = 0;

	for (uint32_t i = 0; i < comparing->touched_count; i++) {
		struct compared_node *node = &comparing->nodes[comparing->touched[i]];

		add_value(&node->selfs[side], node->self);
		block_values_add(&node->sum.sides[side], node->total, weight);
		if (!rc && comparing->touched[i])
			rc = touch_function(comparing, node);
		node->self = 0;
		node->total = 0;
		node->is_touched = false;
	}
	for (uint32_t i = 0; i < comparing->touched_function_count; i++) {
		struct function_sum *function =
			&comparing->functions[comparing->touched_functions[i]];

		block_values_add(&function->self_sum.sides[side], function->self, weight);
		block_values_add(&function->total_sum.sides[side], function->total, weight);
		function->self = 0;
		function->total = 0;
		function->is_touched = false;
	}
	comparing->touched_count = 0;
	comparing->touched_function_count = 0;
	return rc;
}

// ---- the sides ----------------------------------------------------------------------------------------

static int sum_block(struct comparing *comparing, int side, const struct store_selection *selection,
		     const struct query_groups *groups, const struct time_range *block,
		     double exposure_ns)
{
	const struct sums_reader reader = {
		.context = comparing,
		.partition = on_partition,
		.sums = on_sums,
	};
	struct query query = comparing->query->sides[side];
	uint64_t rows = 0;

	query.range = *block;
	query.parts.count = 0;
	int rc = query_sum(&query, selection, groups, &reader, &rows, comparing->err);
	if (rc)
		return rc;
	sum_totals(comparing);
	int64_t total = comparing->touched_count ? comparing->nodes[0].total : 0;
	double weight = comparing->query->norm == COMPARISON_SHARE ? (double)total : exposure_ns;

	comparing->sides[side].row_count += rows;
	// Where no instance was there is nothing to be observed.
	if (weight > 0 || total) {
		block_weights_add(&comparing->weights[side], weight);
		comparing->sides[side].blocks++;
	}
	return end_block(comparing, side, weight);
}

static int sum_side(struct comparing *comparing, int side)
{
	const struct query *query = &comparing->query->sides[side];
	_cleanup_(store_selection_freep) struct store_selection *selection = NULL;
	_cleanup_(query_groups_deinit) struct query_groups groups = { 0 };
	_cleanup_(presence_deinit) struct presence presence = { 0 };
	_cleanup_free_ struct exposure *exposure = calloc(1, sizeof(*exposure));
	_cleanup_free_ struct time_blocks *blocks = calloc(1, sizeof(*blocks));
	const struct time_range *parts;
	uint32_t part_count;

	if (!exposure || !blocks)
		return out_of_memory(comparing);
	int rc = query_select(query, &selection, comparing->err);
	if (!rc)
		rc = presence_of(query, selection, comparing->query->per, &presence,
				 comparing->err);
	if (rc)
		return rc;
	parts = query_parts(query, &part_count);
	if (time_blocks_of(parts, part_count, presence.hull, blocks))
		return error_set(comparing->err, -EINVAL, "there is no time to compare");
	exposure_of(&presence, blocks, exposure);
	if (!rc && query_groups_init(&groups, selection, NULL, 0))
		rc = out_of_memory(comparing);
	for (uint32_t i = 0; !rc && selection->series_count && i < blocks->count; i++)
		rc = sum_block(comparing, side, selection, &groups, &blocks->blocks[i],
			       exposure->block_ns[i]);
	if (rc)
		return rc;

	struct compared_side *summed = &comparing->sides[side];
	summed->total = comparing->node_count ? comparing->nodes[0].sum.sides[side].sum : 0;
	summed->exposure_ns = exposure->total_ns;
	summed->instances = presence.count;
	summed->series_count = selection->series_count;
	summed->divisor = comparing->query->norm == COMPARISON_SHARE ? (double)summed->total
								     : exposure->total_ns;
	return 0;
}

// ---- the answer -----------------------------------------------------------------------------------------

void comparison_deinit(struct comparison *comparison)
{
	flame_tree_deinit(&comparison->tree);
	free(comparison->totals);
	free(comparison->selfs);
	free(comparison->functions);
	*comparison = (struct comparison){ 0 };
}

double comparison_normal(const struct comparison *comparison, int side, int64_t value)
{
	double divisor = comparison->sides[side].divisor;

	return divisor > 0 ? (double)value / divisor : 0;
}

static struct compared_value judge(const struct comparing *comparing, const struct summed *summed)
{
	struct compared_value value;

	for (int side = 0; side < COMPARISON_SIDES; side++)
		value.values[side] = summed->sides[side].sum;
	value.p = significance_p(summed->sides, comparing->weights, &value.enough);
	value.significant = false;
	return value;
}

/** Mark those of @count values, @stride bytes apart, that are significant together. @ps has room for them. */
static void mark(struct compared_value *first, size_t stride, uint32_t count, double *ps)
{
	char *at = (char *)first;
	uint32_t judged = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct compared_value *value = (const void *)(at + i * stride);

		if (value->enough)
			ps[judged++] = value->p;
	}
	double limit = significance_limit(ps, judged, SIGNIFICANCE_FALSE_DISCOVERIES);
	for (uint32_t i = 0; i < count; i++) {
		struct compared_value *value = (void *)(at + i * stride);

		value->significant = value->enough && value->p <= limit;
	}
}

/** A value of both sides as a part of COMPARISON_WEIGHT. */
static int64_t weigh(const struct comparison *comparison, const int64_t values[COMPARISON_SIDES])
{
	double parts = 0;

	for (int side = 0; side < COMPARISON_SIDES; side++)
		if (comparison->sides[side].total > 0 && values[side] > 0)
			parts += (double)values[side] / (double)comparison->sides[side].total;
	return (int64_t)(parts / COMPARISON_SIDES * (double)COMPARISON_WEIGHT);
}

static void judge_nodes(const struct comparing *comparing, struct comparison *comparison)
{
	for (uint32_t i = 0; i < comparing->node_count; i++) {
		const struct compared_node *node = &comparing->nodes[i];
		struct flame_node *shown = &comparison->tree.nodes[i];

		comparison->totals[i] = judge(comparing, &node->sum);
		memcpy(comparison->selfs[i], node->selfs, sizeof(node->selfs));
		shown->total = weigh(comparison, comparison->totals[i].values);
		shown->self = weigh(comparison, comparison->selfs[i]);
	}
}

static void judge_functions(const struct comparing *comparing, struct comparison *comparison)
{
	for (uint32_t i = 0; i < comparing->function_count; i++) {
		const struct function_sum *function = &comparing->functions[i];

		comparison->functions[i] = (struct compared_function){
			.name = function->name,
			.kind = function->kind,
			.self = judge(comparing, &function->self_sum),
			.total = judge(comparing, &function->total_sum),
		};
	}
	comparison->function_count = comparing->function_count;
}

/** A function's module is that of its largest node. @largest: by function, zeroed. */
static void name_modules(const struct comparing *comparing, struct comparison *comparison,
			 int64_t *largest)
{
	for (uint32_t i = 1; i < comparing->node_count; i++) {
		const struct flame_node *node = &comparison->tree.nodes[i];
		uint32_t function = comparing->nodes[i].function;

		if (node->total >= largest[function]) {
			largest[function] = node->total;
			comparison->functions[function].module = node->module;
		}
	}
}

static int finish(struct comparing *comparing, struct comparison *comparison)
{
	size_t count = comparing->node_count + 1ULL; // functions are fewer than nodes
	_cleanup_free_ double *ps = calloc(count, sizeof(*ps));
	_cleanup_free_ int64_t *largest = calloc(count, sizeof(*largest));

	comparison->totals = calloc(count, sizeof(*comparison->totals));
	comparison->selfs = calloc(count, sizeof(*comparison->selfs));
	comparison->functions = calloc(count, sizeof(*comparison->functions));
	if (!ps || !largest || !comparison->totals || !comparison->selfs || !comparison->functions)
		return out_of_memory(comparing);
	memcpy(comparison->sides, comparing->sides, sizeof(comparison->sides));
	comparison->tree = comparing->tree;
	comparing->tree = (struct flame_tree){ 0 };

	judge_nodes(comparing, comparison);
	judge_functions(comparing, comparison);
	name_modules(comparing, comparison, largest);
	mark(comparison->totals, sizeof(*comparison->totals), comparing->node_count, ps);
	mark(&comparison->functions->self, sizeof(*comparison->functions),
	     comparison->function_count, ps);
	mark(&comparison->functions->total, sizeof(*comparison->functions),
	     comparison->function_count, ps);
	return 0;
}

int compare(const struct comparison_query *query, struct comparison *ret_comparison,
	    struct error *err)
{
	_cleanup_(comparing_deinit) struct comparing comparing = { .query = query, .err = err };
	_cleanup_(comparison_deinit) struct comparison comparison = { 0 };

	int rc = query_refuse_gauge(&query->sides[0], "stacks to compare", err);
	if (!rc)
		rc = tree_builder_init(&comparing.builder, &comparing.tree, COMPARISON_NODES_MAX,
				       query->sides[0].symbolizer, err);
	if (!rc)
		rc = add_new_nodes(&comparing); // the root
	for (int side = 0; !rc && side < COMPARISON_SIDES; side++)
		rc = sum_side(&comparing, side);
	if (!rc)
		rc = finish(&comparing, &comparison);
	if (rc)
		return rc;

	comparison_sort(&comparison, false);
	*ret_comparison = comparison;
	comparison = (struct comparison){ 0 };
	return 0;
}

// ---- what is shown of it --------------------------------------------------------------------------------

struct sorting {
	const struct comparison *comparison;
	bool by_total;
};

static double change_of(const struct comparison *comparison, const struct compared_value *value)
{
	return fabs(comparison_normal(comparison, 1, value->values[1]) -
		    comparison_normal(comparison, 0, value->values[0]));
}

static int compare_functions(const void *a, const void *b, void *context)
{
	const struct compared_function *x = a, *y = b;
	const struct sorting *sorting = context;
	double of_x = change_of(sorting->comparison, sorting->by_total ? &x->total : &x->self);
	double of_y = change_of(sorting->comparison, sorting->by_total ? &y->total : &y->self);

	if (of_x != of_y)
		return of_x < of_y ? 1 : -1;
	int order = strcmp(string_table_get(&sorting->comparison->tree.strings, x->name),
			   string_table_get(&sorting->comparison->tree.strings, y->name));
	return order ? order : (int)x->kind - (int)y->kind;
}

void comparison_sort(struct comparison *comparison, bool by_total)
{
	struct sorting sorting = { comparison, by_total };

	qsort_r(comparison->functions, comparison->function_count, sizeof(*comparison->functions),
		compare_functions, &sorting);
}

int comparison_truncate(struct comparison *comparison, uint32_t nodes_max)
{
	struct flame_tree *tree = &comparison->tree;
	int64_t cut;

	// Truncation keeps the order: a node's old number goes with it.
	for (uint32_t i = 0; i < tree->node_count; i++)
		tree->nodes[i].self = i;
	int rc = flame_tree_truncate(tree, nodes_max, &cut);
	for (uint32_t i = 0; !rc && i < tree->node_count; i++) {
		uint32_t old = (uint32_t)tree->nodes[i].self;

		comparison->totals[i] = comparison->totals[old];
		memmove(comparison->selfs[i], comparison->selfs[old], sizeof(comparison->selfs[i]));
		tree->nodes[i].self = weigh(comparison, comparison->selfs[i]);
	}
	return rc;
}
