// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "collector/pyroscope/flamebearer.h"

enum { NODES_MAX = 64, ROUNDS = 200 };

static uint64_t random_state = 88172645463325252ULL;

static uint32_t random_below(uint32_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 16) % limit;
}

static uint32_t add_node(struct flame_tree *tree, uint32_t parent, const char *name, int64_t self)
{
	struct flame_node node = { .parent = parent, .self = self, .total = self };

	if (!tree->nodes) {
		tree->nodes = calloc(NODES_MAX, sizeof(*tree->nodes));
		assert_int_equal(0, string_table_init(&tree->strings));
		if (parent == 0 && strcmp(name, "total") != 0)
			add_node(tree, 0, "total", 0);
	}
	assert_true(tree->node_count < NODES_MAX);
	assert_int_equal(0, string_table_add(&tree->strings, name, strlen(name), &node.name));
	tree->nodes[tree->node_count++] = node;
	for (uint32_t at = tree->node_count - 1; at;) {
		at = tree->nodes[at].parent;
		tree->nodes[at].total += self;
	}
	return tree->node_count - 1;
}

/** "total,a;0 4 0 0|..." */
static void expect_bearer(const struct flamebearer *bearer, const char *expected)
{
	_cleanup_(buffer_deinit) struct buffer text = { 0 };

	for (uint32_t i = 0; i < bearer->name_count; i++)
		buffer_printf(&text, "%s%s", i ? "," : "", bearer->names[i]);
	for (uint32_t i = 0; i < bearer->level_count; i++) {
		buffer_append_byte(&text, '|');
		for (uint32_t v = 0; v < bearer->levels[i].count; v++)
			buffer_printf(&text, "%s%lld", v ? " " : "",
				      (long long)bearer->levels[i].values[v]);
	}
	EXPECT_STR(expected, buffer_string(&text), "names and levels");
}

static void small_tree(struct flame_tree *tree)
{
	uint32_t a = add_node(tree, 0, "a", 0);
	uint32_t c = add_node(tree, a, "c", 2);
	uint32_t b = add_node(tree, a, "b", 0);

	add_node(tree, c, "d", 1);
	add_node(tree, b, "e", 1);
}

TEST(children_begin_after_their_parents_self)
{
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
	_cleanup_(flamebearer_deinit) struct flamebearer bearer = { 0 };

	small_tree(&tree);
	assert_int_equal(0, flamebearer_init(&bearer, &tree, NULL, 100));
	expect_bearer(&bearer, "total,a,b,e,c,d|0 4 0 0|0 4 0 1|0 1 0 2 0 3 2 4|0 1 1 3 2 1 1 5");
	EXPECT_EQ(4, bearer.totals[0], "total");
	EXPECT_EQ(2, bearer.max_self, "largest self");
}

TEST(what_is_left_out_is_other)
{
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
	_cleanup_(flamebearer_deinit) struct flamebearer bearer = { 0 };

	small_tree(&tree);
	assert_int_equal(0, flamebearer_init(&bearer, &tree, NULL, 3));
	expect_bearer(&bearer, "total,a,c,other|0 4 0 0|0 4 0 1|0 3 2 2 0 1 1 3|2 1 1 3");
}

TEST(two_trees_have_the_same_nodes)
{
	_cleanup_(flame_tree_deinit) struct flame_tree left = { 0 }, right = { 0 };
	_cleanup_(flamebearer_deinit) struct flamebearer bearer = { 0 };
	uint32_t a = add_node(&left, 0, "a", 0);

	add_node(&left, a, "b", 1);
	add_node(&left, a, "c", 2);
	add_node(&left, a, "e", 3);
	a = add_node(&right, 0, "a", 0);
	add_node(&right, a, "e", 12);
	add_node(&right, a, "d", 8);
	add_node(&right, a, "b", 4);
	assert_int_equal(0, flamebearer_init(&bearer, &left, &right, 100));
	expect_bearer(&bearer, "total,a,b,c,d,e|0 6 0 0 24 0 0|0 6 0 0 24 0 1|"
			       "0 1 1 0 4 4 2 0 2 2 0 0 0 3 0 0 0 0 8 8 4 0 3 3 0 12 12 5");
	EXPECT_EQ(6, bearer.totals[0], "left");
	EXPECT_EQ(24, bearer.totals[1], "right");
	EXPECT_EQ(12, bearer.max_self, "largest self");
}

TEST(names_alone_tell_siblings_apart)
{
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
	_cleanup_(flamebearer_deinit) struct flamebearer bearer = { 0 };

	uint32_t native = add_node(&tree, 0, "run", 1);
	uint32_t python = add_node(&tree, 0, "run", 2);
	add_node(&tree, 0, "total", 5);
	add_node(&tree, native, "f", 4);
	add_node(&tree, python, "f", 8);
	assert_int_equal(0, flamebearer_init(&bearer, &tree, NULL, 100));
	expect_bearer(&bearer, "total,run,f|0 20 0 0|0 15 3 1 0 5 5 0|3 12 12 2");
}

TEST(an_empty_tree_is_one_node)
{
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
	_cleanup_(flamebearer_deinit) struct flamebearer bearer = { 0 };

	add_node(&tree, 0, "total", 0);
	assert_int_equal(0, flamebearer_init(&bearer, &tree, NULL, 100));
	expect_bearer(&bearer, "total|0 0 0 0");
}

/** Grafana's levelsToTree(): a node's parent is the one that contains it. */
static void check_containment(const struct flamebearer *bearer)
{
	for (uint32_t level = 1; level < bearer->level_count; level++) {
		const struct bearer_level *at = &bearer->levels[level],
					  *above = &bearer->levels[level - 1];
		int64_t start = 0, outer = 0, outer_end = 0;
		uint32_t parent = 0;

		for (uint32_t i = 0; i < at->count; i += 4) {
			start += at->values[i];
			assert_true(at->values[i] >= 0);
			while (start >= outer_end) {
				assert_true(parent < above->count);
				outer = outer_end + above->values[parent];
				outer_end = outer + above->values[parent + 1];
				parent += 4;
			}
			assert_true(start >= outer + above->values[parent - 4 + 2]);
			start += at->values[i + 1];
			assert_true(start <= outer_end);
		}
	}
}

TEST(random_trees_keep_their_sums)
{
	for (int round = 0; round < ROUNDS; round++) {
		_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
		_cleanup_(flamebearer_deinit) struct flamebearer bearer = { 0 };
		int64_t selfs = 0;

		add_node(&tree, 0, "total", 0);
		for (int i = 0; i < NODES_MAX - 1; i++) {
			char name[2] = { (char)('a' + random_below(5)), '\0' };

			add_node(&tree, random_below(tree.node_count), name, 1 + random_below(9));
		}
		assert_int_equal(0, flamebearer_init(&bearer, &tree, NULL, 1 + random_below(80)));
		for (uint32_t level = 0; level < bearer.level_count; level++)
			for (uint32_t i = 0; i < bearer.levels[level].count; i += 4)
				selfs += bearer.levels[level].values[i + 2];
		EXPECT_EQ(tree.nodes[0].total, selfs, "self values add up to the total");
		check_containment(&bearer);
	}
}

/* An agent's values are anything. */
TEST(sums_beyond_64_bits_saturate)
{
	_cleanup_(flame_tree_deinit) struct flame_tree left = { 0 }, right = { 0 };
	_cleanup_(flamebearer_deinit) struct flamebearer bearer = { 0 };
	struct flame_tree *const trees[] = { &left, &right };

	for (size_t i = 0; i < ARRAY_SIZE(trees); i++) {
		add_node(trees[i], 0, "total", 0);
		for (const char *name = "a\0b\0c\0"; *name; name += 2) {
			uint32_t node = add_node(trees[i], 0, name, 0);

			trees[i]->nodes[node].self = trees[i]->nodes[node].total =
				i ? INT64_MIN : INT64_MAX;
		}
		trees[i]->nodes[0].total = i ? INT64_MIN : INT64_MAX;
	}
	assert_int_equal(0, flamebearer_init(&bearer, &left, &right, 100));
	EXPECT_EQ(INT64_MAX, bearer.totals[0], "left");
	EXPECT_EQ(INT64_MIN, bearer.totals[1], "right");
}

RUN_TESTS(cmocka_unit_test(children_begin_after_their_parents_self),
	  cmocka_unit_test(what_is_left_out_is_other),
	  cmocka_unit_test(two_trees_have_the_same_nodes),
	  cmocka_unit_test(names_alone_tell_siblings_apart),
	  cmocka_unit_test(an_empty_tree_is_one_node),
	  cmocka_unit_test(sums_beyond_64_bits_saturate),
	  cmocka_unit_test(random_trees_keep_their_sums))
