// SPDX-License-Identifier: Apache-2.0
// Comparisons against two merges: random stacks with recursion, inlined calls and shared names, in random ranges. And of
// stores whose change is known.
#include "tests/unit/collector/query/query_fixture.h"

#include <math.h>

#include "collector/compare/comparison.h"
#include "collector/compare/exposure.h"
#include "collector/compare/significance.h"

#define SLOT_NS 20000000ULL

/** Two queries of one type, the second side's in two ranges. */
struct question {
	struct selector selectors[2];
	struct comparison_query query;
};

static void random_question(struct store *store, struct question *question)
{
	memset(question, 0, sizeof(*question));
	for (int side = 0; side < 2; side++) {
		struct query query = random_query(store, &question->selectors[side]);
		struct time_range range = query.range;
		uint64_t middle = range.from_ns + (range.to_ns - range.from_ns) / 2;

		if (random_below(2)) {
			query.parts.at[0] = (struct time_range){ range.from_ns, middle + 1 };
			query.parts.at[1] =
				(struct time_range){ middle + SLOT_NS, range.to_ns + 2 * SLOT_NS };
			query.parts.count = 2;
			query.range.to_ns = range.to_ns + 2 * SLOT_NS;
		}
		query.group_by = NULL;
		query.type = PROFILE_TYPE_CPU;
		question->query.sides[side] = query;
	}
	question->query.per = random_below(2) ? EXPOSURE_PER_AUTO : EXPOSURE_PER_NONE;
	question->query.norm = random_below(2) ? COMPARISON_RATE : COMPARISON_SHARE;
}

static void question_deinit(struct question *question)
{
	for (int side = 0; side < 2; side++)
		selector_deinit(&question->selectors[side]);
}

/** The node of @tree that has the path of @node in the comparison's tree; UINT32_MAX: none. */
static uint32_t same_node(const struct flame_tree *tree, const struct flame_tree *compared,
			  uint32_t node)
{
	if (!node)
		return 0;
	const struct flame_node *wanted = &compared->nodes[node];
	const char *name = string_table_get(&compared->strings, wanted->name);
	uint32_t parent = same_node(tree, compared, wanted->parent);

	for (uint32_t i = 1; i < tree->node_count; i++)
		if (tree->nodes[i].parent == parent && tree->nodes[i].kind == wanted->kind &&
		    strcmp(string_table_get(&tree->strings, tree->nodes[i].name), name) == 0)
			return i;
	return UINT32_MAX;
}

static void expect_merged(const struct comparison *comparison, const struct query *query, int side)
{
	const struct flame_tree *compared = &comparison->tree;
	struct flame_tree tree;
	uint32_t found = 0;
	struct error err;

	assert_int_equal(0, query_flame_tree(query, &tree, &err));
	for (uint32_t i = 0; i < compared->node_count; i++) {
		const char *name = string_table_get(&compared->strings, compared->nodes[i].name);
		uint32_t same = same_node(&tree, compared, i);
		bool has = same != UINT32_MAX;

		EXPECT_EQ(has ? tree.nodes[same].total : 0, comparison->totals[i].values[side],
			  name);
		EXPECT_EQ(has ? tree.nodes[same].self : 0, comparison->selfs[i][side], name);
		found += has;
	}
	EXPECT_EQ(tree.node_count, found, "nodes");
	EXPECT_EQ(tree.nodes[0].total, comparison->sides[side].total, "total");
	flame_tree_deinit(&tree);
}

TEST(both_sides_equal_their_merges)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct store *store = random_store();
		struct comparison comparison;
		struct question question;
		struct error err = { 0 };

		random_question(store, &question);
		if (compare(&question.query, &comparison, &err))
			fail_msg("%s", err.text);
		for (int side = 0; side < 2; side++)
			expect_merged(&comparison, &question.query.sides[side], side);
		comparison_deinit(&comparison);
		question_deinit(&question);
		store_close(store);
	}
}

/** The side's row of @function in a table of functions; NULL: none. */
static const struct top_row *same_row(const struct top_row *rows, uint32_t count,
				      const struct flame_tree *tree, const char *name,
				      enum frame_kind kind)
{
	for (uint32_t i = 0; i < count; i++)
		if (rows[i].kind == kind &&
		    strcmp(string_table_get(&tree->strings, rows[i].name), name) == 0)
			return &rows[i];
	return NULL;
}

TEST(functions_equal_both_tables)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct store *store = random_store();
		struct comparison comparison;
		struct question question;
		struct error err = { 0 };

		random_question(store, &question);
		assert_int_equal(0, compare(&question.query, &comparison, &err));
		for (int side = 0; side < 2; side++) {
			const struct top_row *rows;
			struct flame_tree tree;
			uint32_t count, found = 0;

			assert_int_equal(
				0, query_flame_tree(&question.query.sides[side], &tree, &err));
			struct top_table *table = top_table_new(&tree);
			assert_int_equal(0, top_table_read(table, 0, &rows, &count, &err));
			for (uint32_t i = 0; i < comparison.function_count; i++) {
				const struct compared_function *function = &comparison.functions[i];
				const char *name =
					string_table_get(&comparison.tree.strings, function->name);
				const struct top_row *row =
					same_row(rows, count, &tree, name, function->kind);

				found += row != NULL;
				EXPECT_EQ(row ? row->self : 0, function->self.values[side], name);
				EXPECT_EQ(row ? row->total : 0, function->total.values[side], name);
			}
			EXPECT_EQ(count, found, "functions");
			top_table_freep(&table);
			flame_tree_deinit(&tree);
		}
		comparison_deinit(&comparison);
		question_deinit(&question);
		store_close(store);
	}
}

TEST(functions_are_sorted_by_change)
{
	struct store *store = random_store();
	struct comparison comparison;
	struct question question;
	struct error err = { 0 };

	random_question(store, &question);
	question.query.norm = COMPARISON_SHARE;
	assert_int_equal(0, compare(&question.query, &comparison, &err));
	for (int by_total = 0; by_total < 2; by_total++) {
		double before = INFINITY;

		comparison_sort(&comparison, by_total);
		for (uint32_t i = 0; i < comparison.function_count; i++) {
			const struct compared_function *function = &comparison.functions[i];
			const int64_t *values =
				by_total ? function->total.values : function->self.values;
			double change = fabs(comparison_normal(&comparison, 1, values[1]) -
					     comparison_normal(&comparison, 0, values[0]));

			assert_true(change <= before);
			before = change;
		}
	}
	comparison_deinit(&comparison);
	question_deinit(&question);
	store_close(store);
}

TEST(truncation_keeps_both_sides_values)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct store *store = random_store();
		struct comparison whole, cut;
		struct question question;
		struct error err = { 0 };
		uint32_t nodes_max = 1 + random_below(20);

		random_question(store, &question);
		assert_int_equal(0, compare(&question.query, &whole, &err));
		assert_int_equal(0, compare(&question.query, &cut, &err));
		assert_int_equal(0, comparison_truncate(&cut, nodes_max));
		assert_true(cut.tree.node_count <= nodes_max ||
			    cut.tree.node_count == whole.tree.node_count);
		for (uint32_t i = 0; i < cut.tree.node_count; i++) {
			uint32_t same = same_node(&whole.tree, &cut.tree, i);

			for (int side = 0; side < 2; side++) {
				EXPECT_EQ(whole.totals[same].values[side],
					  cut.totals[i].values[side], "total");
				EXPECT_EQ(whole.selfs[same][side], cut.selfs[i][side], "self");
			}
		}
		comparison_deinit(&whole);
		comparison_deinit(&cut);
		question_deinit(&question);
		store_close(store);
	}
}

// ---- stores whose change is known -----------------------------------------------------------------------

enum { FUNCTIONS = 8 };

static void add_instance(struct store *store, const char *pod, const char *instance)
{
	struct labels labels = { 0 };

	assert_int_equal(0, labels_set(&labels, "service", "llm"));
	assert_int_equal(0, labels_set(&labels, "node", "n1"));
	if (*pod)
		assert_int_equal(0, labels_set(&labels, "pod", pod));
	if (*instance)
		assert_int_equal(0, labels_set(&labels, "instance", instance));
	memory_store_add_series(store, &labels, PROFILE_TYPE_CPU);
	labels_deinit(&labels);
}

/** Functions f0 ... below main, and so many pods on one node. */
static struct store *pods_store(uint32_t pods)
{
	struct store *store = memory_store_new(100 * NS_PER_SECOND);
	char name[16];

	for (uint32_t i = 0; i <= FUNCTIONS; i++) {
		struct location location = { .kind = FRAME_KIND_NATIVE, .offset = i };
		struct line line = { 0 };
		uint32_t number;

		snprintf(name, sizeof(name), i == FUNCTIONS ? "main" : "f%u", i);
		location.id = id128_of(&i, sizeof(i));
		assert_int_equal(0, profile_add_string(store->profile, name, &line.name));
		assert_int_equal(
			0, profile_add_location(store->profile, &location, &line, 1, &number));
	}
	for (uint32_t i = 0; i < pods; i++) {
		snprintf(name, sizeof(name), "llm-%u", i);
		add_instance(store, name, "");
	}
	return store;
}

static void add_tick(struct store *store, uint32_t pod, uint32_t function, uint64_t time_ns)
{
	memory_store_add(store, &(struct memory_sample){
					.series = pod,
					.slot_ns = SLOT_NS,
					.time_ns = time_ns,
					.locations = { function, FUNCTIONS },
					.location_count = 2,
					.value = SLOT_NS,
				});
}

static void ask(struct store *store, struct selector *selector, const struct time_range ranges[2],
		enum comparison_norm norm, struct comparison *ret_comparison)
{
	struct comparison_query query = { .per = EXPOSURE_PER_AUTO, .norm = norm };
	struct error err = { 0 };

	assert_int_equal(0, selector_parse("llm", SELECTOR_ALL_TENANTS, selector, &err));
	for (int side = 0; side < 2; side++) {
		query.sides[side] = (struct query){ .store = store,
						    .selector = selector,
						    .type = PROFILE_TYPE_CPU,
						    .range = ranges[side] };
	}
	if (compare(&query, ret_comparison, &err))
		fail_msg("%s", err.text);
}

static const struct compared_function *function_named(const struct comparison *comparison,
						      const char *name)
{
	for (uint32_t i = 0; i < comparison->function_count; i++)
		if (strcmp(string_table_get(&comparison->tree.strings,
					    comparison->functions[i].name),
			   name) == 0)
			return &comparison->functions[i];
	fail_msg("%s is missing", name);
	return NULL;
}

static const struct time_range minutes[] = { { 1000 * NS_PER_SECOND, 1060 * NS_PER_SECOND },
					     { 2000 * NS_PER_SECOND, 2060 * NS_PER_SECOND } };

/** 25 ticks a second on one pod; in the second minute f0 has @part of 8, otherwise each has an eighth. */
static struct store *changed_store(uint32_t part)
{
	struct store *store = pods_store(1);

	for (int side = 0; side < 2; side++)
		for (uint64_t at = minutes[side].from_ns; at < minutes[side].to_ns;
		     at += 2 * SLOT_NS)
			add_tick(store, 0, side && random_below(8) < part - 1 ? 0 : random_below(8),
				 at);
	return store;
}

TEST(a_known_change_is_significant_alone)
{
	for (int norm = COMPARISON_RATE; norm <= COMPARISON_SHARE; norm++) {
		struct store *store = changed_store(3);
		struct comparison comparison;
		struct selector selector;
		uint32_t significant = 0;

		ask(store, &selector, minutes, norm, &comparison);
		assert_true(function_named(&comparison, "f0")->self.significant);
		assert_true(function_named(&comparison, "f0")->self.p < 0.001);
		EXPECT_STR("f0",
			   string_table_get(&comparison.tree.strings, comparison.functions[0].name),
			   "first");
		assert_false(function_named(&comparison, "main")->total.significant);
		comparison_deinit(&comparison);
		selector_deinit(&selector);
		store_close(store);

		store = changed_store(1);
		ask(store, &selector, minutes, norm, &comparison);
		for (uint32_t i = 0; i < comparison.function_count; i++)
			significant += comparison.functions[i].self.significant;
		EXPECT_EQ(0, significant, "nothing changed");
		comparison_deinit(&comparison);
		selector_deinit(&selector);
		store_close(store);
	}
}

/** One pod and three: the service uses three times as much, each pod the same. */
TEST(rates_are_per_pod)
{
	struct store *store = pods_store(3);
	struct comparison comparison;
	struct selector selector;

	for (uint64_t at = minutes[0].from_ns; at < minutes[0].to_ns; at += 5 * SLOT_NS)
		add_tick(store, 0, 1, at);
	for (uint32_t pod = 0; pod < 3; pod++)
		for (uint64_t at = minutes[1].from_ns; at < minutes[1].to_ns; at += 5 * SLOT_NS)
			add_tick(store, pod, 1, at);
	ask(store, &selector, minutes, COMPARISON_RATE, &comparison);
	for (int side = 0; side < 2; side++) {
		EXPECT_EQ(side ? 3 : 1, comparison.sides[side].instances, "pods");
		double rate = comparison_normal(&comparison, side, comparison.sides[side].total);
		if (fabs(rate - 0.2) > 0.005)
			fail_msg("%g cores per pod", rate);
	}
	assert_false(function_named(&comparison, "f1")->self.significant);
	comparison_deinit(&comparison);
	selector_deinit(&selector);
	store_close(store);
}

/** Instances are pods, outside them what service.instance.id tells apart, and the rest of a node. */
TEST(processes_outside_pods_are_instances)
{
	static const char *const instances[][2] = {
		{ "", "a" }, { "", "b" }, { "p", "x" }, { "p", "y" }, { "", "" }
	};
	struct store *store = pods_store(0);
	struct comparison comparison;
	struct selector selector;

	for (uint32_t i = 0; i < ARRAY_SIZE(instances); i++) {
		add_instance(store, instances[i][0], instances[i][1]);
		for (int side = 0; side < 2; side++)
			for (uint64_t at = minutes[side].from_ns; at < minutes[side].to_ns;
			     at += 5 * SLOT_NS)
				add_tick(store, i, 1, at);
	}
	ask(store, &selector, minutes, COMPARISON_RATE, &comparison);
	EXPECT_EQ(4, comparison.sides[0].instances, "a, b, the pod, the node");
	comparison_deinit(&comparison);
	selector_deinit(&selector);
	store_close(store);
}

/** A pod that lived for a half of the range used as much while it lived. */
TEST(a_pod_counts_while_it_is_there)
{
	struct store *store = pods_store(1);
	struct comparison comparison;
	struct selector selector;

	for (uint64_t at = minutes[0].from_ns; at < minutes[0].to_ns; at += 5 * SLOT_NS)
		add_tick(store, 0, 1, at);
	for (uint64_t at = minutes[1].from_ns + 30 * NS_PER_SECOND; at < minutes[1].to_ns;
	     at += 5 * SLOT_NS)
		add_tick(store, 0, 1, at);
	ask(store, &selector, minutes, COMPARISON_RATE, &comparison);
	if (fabs(comparison.sides[1].exposure_ns / NS_PER_SECOND - 30) > 0.5)
		fail_msg("%g s", comparison.sides[1].exposure_ns / NS_PER_SECOND);
	if (fabs(comparison_normal(&comparison, 1, comparison.sides[1].total) - 0.2) > 0.005)
		fail_msg("%g cores", comparison_normal(&comparison, 1, comparison.sides[1].total));
	comparison_deinit(&comparison);
	selector_deinit(&selector);
	store_close(store);
}

/** Ten seconds of an hour: their rate is that of these seconds, and their scatter is seen. */
TEST(short_lived_instance_counts)
{
	const struct time_range hours[] = { { 1000 * NS_PER_SECOND, 4600 * NS_PER_SECOND },
					    { 11000 * NS_PER_SECOND, 14600 * NS_PER_SECOND } };
	struct store *store = pods_store(1);
	struct comparison comparison;
	struct selector selector;

	for (int side = 0; side < 2; side++)
		for (uint64_t i = 0; i < 250; i++)
			add_tick(store, 0, side && i % 2 ? 0 : random_below(8),
				 hours[side].from_ns + 1000 * NS_PER_SECOND + i * 2 * SLOT_NS);
	ask(store, &selector, hours, COMPARISON_RATE, &comparison);
	if (fabs(comparison.sides[0].exposure_ns / NS_PER_SECOND - 10) > 0.3)
		fail_msg("%g s", comparison.sides[0].exposure_ns / NS_PER_SECOND);
	assert_true(function_named(&comparison, "f0")->self.significant);
	comparison_deinit(&comparison);
	selector_deinit(&selector);
	store_close(store);
}

TEST(an_empty_side_makes_nothing_significant)
{
	struct store *store = changed_store(3);
	const struct time_range ranges[] = { { 3000 * NS_PER_SECOND, 3060 * NS_PER_SECOND },
					     minutes[1] };
	struct comparison comparison;
	struct selector selector;

	ask(store, &selector, ranges, COMPARISON_SHARE, &comparison);
	EXPECT_EQ(0, comparison.sides[0].total, "nothing");
	for (uint32_t i = 0; i < comparison.function_count; i++)
		assert_false(comparison.functions[i].self.enough);
	assert_true(comparison_normal(&comparison, 0, 1) == 0);
	comparison_deinit(&comparison);
	selector_deinit(&selector);
	store_close(store);
}

TEST(a_failing_store_fails_the_comparison)
{
	struct store *store = random_store();
	struct comparison comparison;
	struct question question;
	struct error err = { 0 };

	random_question(store, &question);
	store->scan_rc = -EIO;
	assert_int_equal(-EIO, compare(&question.query, &comparison, &err));
	question.query.sides[0].type = PROFILE_TYPE_RSS;
	assert_int_equal(-EINVAL, compare(&question.query, &comparison, &err));
	assert_non_null(strstr(err.text, "gauge"));
	question_deinit(&question);
	store_close(store);
}

RUN_TESTS(cmocka_unit_test(both_sides_equal_their_merges),
	  cmocka_unit_test(functions_equal_both_tables),
	  cmocka_unit_test(functions_are_sorted_by_change),
	  cmocka_unit_test(truncation_keeps_both_sides_values),
	  cmocka_unit_test(a_known_change_is_significant_alone),
	  cmocka_unit_test(rates_are_per_pod),
	  cmocka_unit_test(processes_outside_pods_are_instances),
	  cmocka_unit_test(a_pod_counts_while_it_is_there),
	  cmocka_unit_test(short_lived_instance_counts),
	  cmocka_unit_test(an_empty_side_makes_nothing_significant),
	  cmocka_unit_test(a_failing_store_fails_the_comparison))
