// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/collector/store/store_fixture.h"

#include "collector/store/rocksdb/forest.h"
#include "collector/store/rocksdb/forest_view.h"

static uint32_t add(struct forest *forest, const char *text, enum stack_end end)
{
	struct profile *profile = test_profile();
	uint32_t stack = stack_of_text(profile, text, end), node;

	assert_int_equal(0, forest_add_stack(forest, profile, stack, &node));
	EXPECT_EQ(node, forest_find_stack(forest, profile->stacks[stack].id), "found again");
	profile_free(profile);
	return node;
}

static void expect_stack(const struct forest *forest, uint32_t node, const char *expected)
{
	struct store_forest view = { .node_count = forest->node_count,
				     .parents = forest->parents,
				     .frames = forest->frames,
				     .locations = forest->locations };
	char text[4096] = "";

	append_stack_text(&view, node, text);
	EXPECT_STR(expected, text, "stack");
}

TEST(stacks_share_their_callers)
{
	struct forest *forest = forest_new();
	uint32_t first = add(forest, "main;run;a", STACK_END_COMPLETE);
	uint32_t second = add(forest, "main;run;b", STACK_END_COMPLETE);
	uint32_t caller = add(forest, "main;run", STACK_END_COMPLETE);
	uint32_t other = add(forest, "other;run;a", STACK_END_COMPLETE);

	EXPECT_EQ(1 + 4 + 3, forest->node_count, "root, main run a b, other run a");
	EXPECT_EQ(5, forest->locations->location_count, "main run a b other");
	EXPECT_EQ(caller, forest->parents[first], "a's caller");
	EXPECT_EQ(caller, forest->parents[second], "b's caller");
	expect_stack(forest, first, "main;run;a");
	expect_stack(forest, other, "other;run;a");
	for (uint32_t i = 1; i < forest->node_count; i++)
		assert_true(forest->parents[i] < i);
	forest_free(forest);
}

TEST(the_end_is_a_stacks_outermost_node)
{
	struct forest *forest = forest_new();
	uint32_t cut = add(forest, "run;a", STACK_END_FAULT);
	uint32_t whole = add(forest, "run;a", STACK_END_COMPLETE);
	uint32_t empty = add(forest, "", STACK_END_LOST), lost;

	assert_true(cut != whole);
	expect_stack(forest, cut, "unreadable memory;run;a");
	expect_stack(forest, whole, "run;a");
	expect_stack(forest, empty, "stack lost;");
	assert_int_equal(0, forest_add_lost(forest, &lost));
	EXPECT_EQ(lost, forest->parents[empty], "the node of lost stacks");
	forest_free(forest);
}

TEST(copies_a_stack_with_its_locations)
{
	struct forest *from = forest_new(), *to = forest_new();
	uint32_t node, copy;

	add(from, "x;y", STACK_END_COMPLETE); // so that numbers differ
	node = add(from, "main;run;a", STACK_END_DEPTH);
	struct id128 id = from->stacks[1].id;
	assert_int_equal(0, forest_copy_stack(to, from, id, node, &copy));
	EXPECT_EQ(copy, forest_find_stack(to, id), "known by its id");
	expect_stack(to, copy, "too deep;main;run;a");
	EXPECT_EQ(3, to->locations->location_count, "locations");
	forest_free(from);
	forest_free(to);
}

// ---- records --------------------------------------------------------------------------------------------

/** All that @forest has beyond *mark, applied to @copy. */
static int replay(struct forest *forest, struct forest_mark *mark, struct forest *copy)
{
	int rc = 0;

	for (int kind = RECORD_STRINGS; kind <= RECORD_STACKS && rc == 0; kind++) {
		struct buffer record = { 0 };

		forest_encode(forest, kind, mark, &record);
		if (record.size)
			rc = forest_decode(copy, kind, (struct bytes){ record.bytes, record.size },
					   NULL);
		buffer_deinit(&record);
	}
	struct forest_mark now = forest_mark_of(forest);
	forest_saved(forest, &now);
	*mark = now;
	mark->renamed = 0;
	return rc;
}

TEST(restores_a_forest_from_its_records)
{
	struct forest *forest = forest_new(), *copy = forest_new();
	struct forest_mark mark = forest_mark_of(forest);
	char text[256];

	for (int i = 0; i < 300; i++) {
		sprintf(text, "main;f%d;g%d;h%d", i % 7, i % 31, i);
		add(forest, text, i % 3 ? STACK_END_COMPLETE : STACK_END_NO_TABLE);
		if (i % 50 == 0)
			assert_int_equal(0, replay(forest, &mark, copy));
	}
	assert_int_equal(0, replay(forest, &mark, copy));
	EXPECT_EQ(forest->node_count, copy->node_count, "nodes");
	EXPECT_EQ(forest->stack_count, copy->stack_count, "stacks");
	EXPECT_EQ(0, memcmp(forest->parents, copy->parents, forest->node_count * 4), "parents");
	EXPECT_EQ(0, memcmp(forest->frames, copy->frames, forest->node_count * 4), "frames");
	for (uint32_t i = 0; i < forest->stack_count; i++)
		EXPECT_EQ(forest->stacks[i].node, forest_find_stack(copy, forest->stacks[i].id),
			  "stack");
	expect_stack(copy, forest->stacks[299].node, "main;f5;g20;h299");
	EXPECT_EQ(forest->stacks[10].node, add(copy, "main;f3;g10;h10", STACK_END_COMPLETE),
		  "its indexes work");
	forest_free(forest);
	forest_free(copy);
}

TEST(saves_late_names_as_records)
{
	struct forest *forest = forest_new(), *copy = forest_new();
	struct forest_mark mark = forest_mark_of(forest);
	struct profile *unnamed = test_profile(), *named = test_profile();
	uint32_t location = location_of_name(unnamed, "f", false), stack, node;

	assert_int_equal(0, profile_add_stack(unnamed, &location, 1, STACK_END_COMPLETE, &stack));
	assert_int_equal(0, forest_add_stack(forest, unnamed, stack, &node));
	assert_int_equal(0, replay(forest, &mark, copy));
	expect_stack(copy, node, "?");
	location_of_name(named, "f", true);
	assert_int_equal(0, forest_copy_names(forest, named));
	EXPECT_EQ(1, forest->renamed_count, "renamed");
	assert_int_equal(0, forest_copy_names(forest, named));
	EXPECT_EQ(1, forest->renamed_count, "once");
	assert_int_equal(0, replay(forest, &mark, copy));
	expect_stack(copy, node, "f");
	EXPECT_EQ(0, forest->renamed_count, "saved");
	profile_free(unnamed);
	profile_free(named);
	forest_free(forest);
	forest_free(copy);
}

/** Records in order, each damaged in turn: refused or accepted, never harmful. */
TEST(refuses_damaged_records)
{
	struct forest *forest = forest_new();
	struct forest_mark mark = forest_mark_of(forest);
	struct buffer records[RECORD_STACKS + 1] = { 0 };
	char text[64];

	for (int i = 0; i < 20; i++) {
		sprintf(text, "main;f%d;g%d", i % 3, i);
		add(forest, text, STACK_END_COMPLETE);
	}
	for (int kind = RECORD_STRINGS; kind <= RECORD_STACKS; kind++)
		forest_encode(forest, kind, &mark, &records[kind]);
	for (int damaged = RECORD_STRINGS; damaged <= RECORD_STACKS; damaged++) {
		for (size_t i = 0; i < 2 * records[damaged].size; i++) {
			struct forest *copy = forest_new();
			int rc = 0;

			for (int kind = RECORD_STRINGS; kind <= damaged && rc == 0; kind++) {
				size_t size = records[kind].size;
				_cleanup_free_ uint8_t *bytes = malloc(size + 1);

				memcpy(bytes, records[kind].bytes, size);
				if (kind == damaged && i < size)
					bytes[i] ^= (uint8_t)(0x81 + i);
				else if (kind == damaged)
					size = i - size;
				rc = forest_decode(copy, kind, (struct bytes){ bytes, size }, NULL);
				if (kind == damaged && size < records[kind].size)
					EXPECT_EQ(-EBADMSG, rc, "cut");
			}
			for (uint32_t node = 1; node < copy->node_count; node++)
				assert_true(copy->parents[node] < node);
			forest_free(copy);
		}
		assert_int_equal(-EBADMSG, forest_decode(forest, damaged,
							 (struct bytes){ records[damaged].bytes,
									 records[damaged].size },
							 NULL)); // goes on elsewhere
	}
	for (int kind = RECORD_STRINGS; kind <= RECORD_STACKS; kind++)
		buffer_deinit(&records[kind]);
	forest_free(forest);
}

TEST(a_full_forest_counts_stacks_as_lost)
{
	struct forest *forest = forest_new();
	struct profile *profile = test_profile();
	uint32_t stack = stack_of_text(profile, "main;f", STACK_END_COMPLETE), node, lost;

	// Nodes with frames that nothing looks up: quick to add.
	for (uint32_t i = 0; !forest_is_full(forest); i++)
		assert_int_equal(0, forest_restore_node(forest, 0, i));
	assert_int_equal(0, forest_add_stack(forest, profile, stack, &node));
	assert_int_equal(0, forest_add_lost(forest, &lost));
	EXPECT_EQ(lost, node, "node");
	EXPECT_EQ(1, forest->stacks_dropped, "counted");
	profile_free(profile);
	forest_free(forest);
}

// ---- views ----------------------------------------------------------------------------------------------

/** A snapshot that follows @before. Returns the steps under the lock in *ret_steps. */
static struct forest_view *snapshot(const struct forest_view *before, const struct forest *forest,
				    uint32_t *ret_steps)
{
	struct forest_extent extent = forest_extent_of(forest);
	struct forest_view *view = forest_view_begin(before, &extent);
	int rc;

	assert_non_null(view);
	for (*ret_steps = 1; (rc = forest_view_step(view, forest)) == -EAGAIN; (*ret_steps)++)
		continue;
	assert_int_equal(0, rc);
	return view;
}

TEST(a_view_is_copied_in_small_steps)
{
	struct forest *forest = forest_new();
	struct forest_extent empty = forest_extent_of(forest);
	struct forest_view *view = forest_view_begin(NULL, &empty), *first, *second;
	uint32_t steps, node;

	for (uint32_t i = 0; i < 1000000; i++)
		assert_int_equal(0, forest_restore_node(forest, 0, i));
	EXPECT_EQ(-ENOSPC, forest_view_step(view, forest), "it has outgrown its room");
	forest_view_unref(view);
	first = snapshot(NULL, forest, &steps);
	EXPECT_EQ(1000001, first->forest.node_count, "nodes");
	assert_in_range(steps, 8000000 / FOREST_VIEW_STEP_BYTES,
			8000000 / FOREST_VIEW_STEP_BYTES + 2);

	node = add(forest, "main;f", STACK_END_COMPLETE);
	second = snapshot(first, forest, &steps);
	EXPECT_EQ(1, steps, "only the growth");
	EXPECT_EQ(1000002, second->forest.node_count, "nodes");
	EXPECT_EQ(0, memcmp(first->parents, second->parents, 4000000), "what was there");
	char text[64] = "";
	append_stack_text(&second->forest, node, text);
	EXPECT_STR("main;f", text, "stack");
	forest_view_unref(first);
	forest_view_unref(second);
	forest_free(forest);
}

TEST(a_view_grows_while_it_is_copied)
{
	struct forest *forest = forest_new();

	for (uint32_t i = 0; i < 300000; i++)
		assert_int_equal(0, forest_restore_node(forest, 0, i));
	struct forest_extent extent = forest_extent_of(forest);
	struct forest_view *view = forest_view_begin(NULL, &extent);
	EXPECT_EQ(-EAGAIN, forest_view_step(view, forest), "more to copy");
	uint32_t node = add(forest, "main;f", STACK_END_COMPLETE);
	while (forest_view_step(view, forest))
		continue;
	char text[64] = "";
	append_stack_text(&view->forest, node, text);
	EXPECT_STR("main;f", text, "added meanwhile");
	forest_view_unref(view);
	forest_free(forest);
}

TEST(a_view_is_immutable)
{
	struct forest *forest = forest_new();
	uint32_t node = add(forest, "main;f", STACK_END_COMPLETE);
	uint32_t steps;
	struct forest_view *view = snapshot(NULL, forest, &steps), *taken;
	char text[64] = "";

	assert_false(forest_view_is_stale(view, forest));
	for (int i = 0; i < 1000; i++) {
		sprintf(text, "main;f;g%d", i);
		add(forest, text, STACK_END_COMPLETE);
	}
	assert_true(forest_view_is_stale(view, forest));
	EXPECT_EQ(3, view->forest.node_count, "nodes");
	text[0] = 0;
	append_stack_text(&view->forest, node, text);
	EXPECT_STR("main;f", text, "stack");
	forest_view_unref(view);

	taken = forest_view_take(forest);
	EXPECT_EQ(1003, taken->forest.node_count, "nodes");
	text[0] = 0;
	append_stack_text(&taken->forest, 1002, text);
	EXPECT_STR("main;f;g999", text, "stack");
	forest_view_unref(taken);
}

RUN_TESTS(cmocka_unit_test(stacks_share_their_callers),
	  cmocka_unit_test(the_end_is_a_stacks_outermost_node),
	  cmocka_unit_test(copies_a_stack_with_its_locations),
	  cmocka_unit_test(restores_a_forest_from_its_records),
	  cmocka_unit_test(saves_late_names_as_records), cmocka_unit_test(refuses_damaged_records),
	  cmocka_unit_test(a_full_forest_counts_stacks_as_lost),
	  cmocka_unit_test(a_view_is_copied_in_small_steps),
	  cmocka_unit_test(a_view_grows_while_it_is_copied), cmocka_unit_test(a_view_is_immutable))
