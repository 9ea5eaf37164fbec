// SPDX-License-Identifier: Apache-2.0
// What every implementation of store.h must do with samples that cover more than one slot. A test
// program that has store_conformance.h lists INTERVAL_TESTS among its tests, too.
#pragma once

#include "tests/unit/collector/store/store_conformance.h"

/** Ask of everything @ask while rows are open, closed, late, and after a restart. */
static void in_every_state(struct model *model, uint64_t from_ns,
			   void (*ask)(struct model *model, struct store *store, const char *what))
{
	struct scene scene;

	scene_begin(&scene, (struct store_options){ 0 });
	for (uint64_t i = 1; i <= 20; i++)
		append_profile(scene.store, i % 3, i,
			       model_batch(model, 60, from_ns + i * 10 * NS_PER_SECOND,
					   20 * NS_PER_SECOND));
	ask(model, scene.store, "open");
	scene_reopen(&scene);
	ask(model, scene.store, "reopened");
	scene_flush(&scene);
	ask(model, scene.store, "closed");
	for (uint64_t i = 21; i <= 30; i++)
		append_profile(scene.store, i % 3, i,
			       model_batch(model, 40, from_ns, 120 * NS_PER_SECOND));
	ask(model, scene.store, "late");
	scene_flush(&scene);
	scene_reopen(&scene);
	ask(model, scene.store, "all closed");
	scene_end(&scene);
}

/** Over a partition's end. */
static uint64_t intervals_from_ns(void)
{
	return hour_ns(0) + 3480 * NS_PER_SECOND;
}

static void expect_spread(struct model *model, struct store *store, const char *what)
{
	expect_model_everywhere(model, store, intervals_from_ns(), 240 * NS_PER_SECOND, what);
}

TEST(spreads_an_interval_over_its_slots)
{
	struct model model = { .random = 5, .length_max = 3000 };

	in_every_state(&model, intervals_from_ns(), expect_spread);
	model_deinit(&model);
}

// ---- parts ----------------------------------------------------------------------------------------

enum { PARTS = 5 };

/** The ends of @range and, between them, some at random: slots' borders and others. */
static void cut_range(struct model *model, struct time_range range, uint64_t cuts[PARTS + 1])
{
	uint64_t at = range.from_ns;

	cuts[0] = range.from_ns;
	for (int i = 1; i < PARTS; i++) {
		at += model_random(model, (uint32_t)((range.to_ns - at) / NS_PER_MS)) * NS_PER_MS;
		cuts[i] = model_random(model, 2) ? at : at / TEST_SLOT_NS * TEST_SLOT_NS;
		if (cuts[i] < cuts[i - 1])
			cuts[i] = cuts[i - 1];
	}
	cuts[PARTS] = range.to_ns;
}

static void expect_parts_of_sums(struct store *store, const uint64_t *cuts, enum scan_detail detail,
				 const char *what)
{
	struct time_range range = { cuts[0], cuts[PARTS] };
	struct dump whole, parts = { 0 };

	dump_store(store, "{}", range, detail, &whole);
	for (int i = 0; i < PARTS; i++) {
		struct time_range part = { cuts[i], cuts[i + 1] };
		struct dump dump;

		dump_store(store, "{}", part, detail, &dump);
		for (uint32_t j = 0; j < dump.count; j++)
			dump_add(&parts, dump.lines[j].text, dump.lines[j].value);
		dump_deinit(&dump);
	}
	dump_finish(&parts);
	expect_equal_dumps(&whole, &parts, what);
	dump_deinit(&whole);
	dump_deinit(&parts);
}

static int64_t *activity_of(struct store *store, struct time_range range, uint64_t slot_ns)
{
	struct selector selector = selector_of("{}");
	struct store_selection *selection;
	int64_t *counts = calloc((range.to_ns - range.from_ns) / slot_ns + 1, sizeof(*counts));

	assert_int_equal(0, store_select(store, &selector, NULL, range, &selection, NULL));
	assert_int_equal(0, store_activity(store, selection, range, slot_ns, NULL, counts, NULL));
	store_selection_free(selection);
	selector_deinit(&selector);
	return counts;
}

/** The same, from each series' own rows. */
static int64_t *activity_of_series(struct store *store, struct time_range range, uint64_t slot_ns)
{
	struct selector selector = selector_of("{}");
	struct store_selection *selection;
	uint64_t count = (range.to_ns - range.from_ns) / slot_ns;
	uint32_t rows[MODEL_SERIES];

	for (uint32_t i = 0; i < MODEL_SERIES; i++)
		rows[i] = i;
	int64_t *counts = calloc(count * MODEL_SERIES, sizeof(*counts));
	assert_int_equal(0, store_select(store, &selector, NULL, range, &selection, NULL));
	assert_int_equal(0, store_activity(store, selection, range, slot_ns, rows, counts, NULL));
	for (uint64_t i = count; i < count * MODEL_SERIES; i++)
		counts[i % count] += counts[i];
	store_selection_free(selection);
	selector_deinit(&selector);
	return counts;
}

/** A slot has the same value in every heat map that shows it, and coarser ones add up. */
static void expect_parts_of_activity(struct store *store, const uint64_t *cuts, const char *what)
{
	static const uint64_t coarse_ns[] = { 7 * TEST_SLOT_NS, 130 * NS_PER_MS, NS_PER_SECOND };
	struct time_range range = { cuts[0] / TEST_SLOT_NS * TEST_SLOT_NS,
				    cuts[PARTS] / TEST_SLOT_NS * TEST_SLOT_NS };
	_cleanup_free_ int64_t *whole = activity_of(store, range, TEST_SLOT_NS);
	uint64_t count = (range.to_ns - range.from_ns) / TEST_SLOT_NS;

	for (int i = 1; i < PARTS; i++) {
		uint64_t first = (cuts[i] - range.from_ns) / TEST_SLOT_NS;
		struct time_range part = { range.from_ns + first * TEST_SLOT_NS, range.to_ns };
		_cleanup_free_ int64_t *values = activity_of(store, part, TEST_SLOT_NS);

		for (uint64_t slot = first; slot < count; slot++)
			EXPECT_EQ(whole[slot], values[slot - first], what);
	}
	for EACH (coarse, coarse_ns) {
		_cleanup_free_ int64_t *sums = activity_of(store, range, *coarse);
		uint64_t sum_count = (range.to_ns - range.from_ns) / *coarse;

		for (uint64_t slot = 0; slot < count; slot++)
			if (slot * TEST_SLOT_NS / *coarse < sum_count)
				sums[slot * TEST_SLOT_NS / *coarse] -= whole[slot];
		for (uint64_t i = 0; i < sum_count; i++)
			EXPECT_EQ(0, sums[i], what);
	}
}

static void expect_parts(struct model *model, struct store *store, const char *what)
{
	for (int i = 0; i < 8; i++) {
		uint64_t from_ns = intervals_from_ns() + model_random(model, 100000) * NS_PER_MS;
		struct time_range range = { from_ns,
					    from_ns + 1000 * NS_PER_MS +
						    model_random(model, 150000) * NS_PER_MS };
		uint64_t cuts[PARTS + 1];

		cut_range(model, range, cuts);
		for (int detail = SCAN_SERIES_SUMS; detail <= (int)DUMP_SERVICE_SUMS; detail++)
			expect_parts_of_sums(store, cuts, detail, what);
		expect_parts_of_activity(store, cuts, what);
	}
}

/** So many in few slots and stacks that a store with sums beside its rows has them here. */
static void append_dense(struct model *model, struct store *store, uint64_t from_ns)
{
	for (uint64_t i = 1; i <= 24; i++)
		append_profile(store, 1, i,
			       model_batch(model, 500, from_ns + 60 * NS_PER_SECOND * (i % 2),
					   NS_PER_SECOND));
}

TEST(dense_intervals_add_up)
{
	struct model model = { .random = 6, .length_max = 40 };
	uint64_t from_ns = hour_ns(0) + 600 * NS_PER_SECOND;
	struct time_range range = { from_ns, from_ns + 120 * NS_PER_SECOND };
	struct scene scene;

	scene_begin(&scene, (struct store_options){ 0 });
	append_dense(&model, scene.store, from_ns);
	scene_flush(&scene);
	expect_model_everywhere(&model, scene.store, from_ns, 100 * NS_PER_SECOND, "dense");
	model_deinit(&model);
	scene_end(&scene);

	model = (struct model){ .random = 6, .length_max = 40, .uneven = true };
	scene_begin(&scene, (struct store_options){ 0 });
	append_dense(&model, scene.store, from_ns);
	scene_flush(&scene);
	_cleanup_free_ int64_t *sums = activity_of(scene.store, range, TEST_SLOT_NS);
	_cleanup_free_ int64_t *rows = activity_of_series(scene.store, range, TEST_SLOT_NS);
	for (uint32_t i = 0; i < 6000; i++)
		EXPECT_EQ(rows[i], sums[i], "as the rows say");
	model_deinit(&model);
	scene_end(&scene);
}

TEST(parts_of_a_range_add_up)
{
	struct model model = { .random = 7, .length_max = 3000, .uneven = true };

	in_every_state(&model, intervals_from_ns(), expect_parts);
	model_deinit(&model);
}

// ---- borders --------------------------------------------------------------------------------------

TEST(cuts_intervals_at_their_minute)
{
	struct scene scene;
	struct profile *profile = test_profile();
	uint64_t minute_ns = hour_ns(0) + 60 * NS_PER_SECOND;
	struct time_range before = { minute_ns - 2 * TEST_SLOT_NS, minute_ns };

	scene_begin(&scene, (struct store_options){ 0 });
	assert_int_equal(0, profile_add_interval(profile,
						 series_of_text(profile, "service=a", TEST_TYPE),
						 stack_of_text(profile, "main", STACK_END_COMPLETE),
						 minute_ns / TEST_SLOT_NS - 2, UINT32_MAX, 1001));
	append_profile(scene.store, 1, 1, profile);
	for (int flushed = 0; flushed < 2; flushed++) {
		_cleanup_free_ int64_t *counts = activity_of(scene.store, before, TEST_SLOT_NS);
		struct dump dump;

		EXPECT_EQ(501, counts[0], "what does not divide goes first");
		EXPECT_EQ(500, counts[1], "the minute's last slot");
		dump_store(scene.store, "{}", all_time, SCAN_SUMS, &dump);
		EXPECT_EQ(1001, dump.lines[0].value, "nothing is lost");
		dump_deinit(&dump);
		scene_flush(&scene);
	}
	scene_end(&scene);
}

TEST(extreme_intervals_add_up)
{
	static const int64_t values[] = { INT64_MIN, INT64_MAX, 0, -1, 1, -2999, INT64_MIN + 1 };
	struct time_range minute = { hour_ns(0), hour_ns(0) + 60 * NS_PER_SECOND };

	for EACH (value, values) {
		struct scene scene;
		struct profile *profile = test_profile();

		scene_begin(&scene, (struct store_options){ 0 });
		assert_int_equal(
			0, profile_add_interval(profile,
						series_of_text(profile, "service=a", TEST_TYPE),
						stack_of_text(profile, "main", STACK_END_COMPLETE),
						minute.from_ns / TEST_SLOT_NS, 2999, *value));
		append_profile(scene.store, 1, 1, profile);
		for (int flushed = 0; flushed < 2; flushed++) {
			_cleanup_free_ int64_t *counts =
				activity_of(scene.store, minute, TEST_SLOT_NS);
			uint64_t sum = 0;

			for (int i = 0; i < 3000; i++) {
				int64_t above = counts[i] - *value / 3000;

				assert_true(above >= -1 && above <= 1);
				sum += (uint64_t)counts[i];
			}
			EXPECT_EQ(*value, (int64_t)sum, "sum");
			scene_flush(&scene);
		}
		scene_end(&scene);
	}
}

#define INTERVAL_TESTS                                            \
	cmocka_unit_test(spreads_an_interval_over_its_slots),     \
		cmocka_unit_test(dense_intervals_add_up),         \
		cmocka_unit_test(parts_of_a_range_add_up),        \
		cmocka_unit_test(cuts_intervals_at_their_minute), \
		cmocka_unit_test(extreme_intervals_add_up)
