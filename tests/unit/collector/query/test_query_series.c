// SPDX-License-Identifier: Apache-2.0
// Series and heat maps against sums over all samples, and gauges.
#include "tests/unit/collector/query/query_fixture.h"

static int64_t naive_step(const struct query *query, const char *group, uint64_t from_ns,
			  uint64_t step_ns)
{
	struct query step = *query;
	int64_t sum = 0;

	step.range = (struct time_range){ from_ns, from_ns + step_ns };
	for (uint32_t i = 0; i < query->store->sample_count; i++) {
		const struct memory_sample *sample = &query->store->samples[i];
		const char *value =
			query->group_by ? labels_get(&query->store->series[sample->series].labels,
						     query->group_by)
					: NULL;

		if (sample_selected(&step, sample) && strcmp(value ? value : "", group) == 0)
			sum += sample_value(sample, step.range);
	}
	return sum;
}

TEST(series_have_whole_steps_and_exact_sums)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct store *store = random_store();
		struct selector selector;
		struct query query = random_query(store, &selector);
		struct query_series_set set;
		struct error err;
		uint64_t step_ns = (1 + random_below(30)) * 20000000ULL;

		assert_int_equal(0, query_series(&query, step_ns, &set, &err));
		assert_int_equal(0, set.first_step_ns % step_ns);
		assert_true(set.first_step_ns <= query.range.from_ns);
		assert_true(query.range.from_ns - set.first_step_ns < step_ns);
		assert_true(set.first_step_ns + set.step_count * step_ns >= query.range.to_ns);
		assert_true(set.first_step_ns + set.step_count * step_ns - query.range.to_ns <
			    step_ns);
		for (uint32_t i = 0; i < set.count; i++) {
			int64_t total = 0;

			for (uint32_t step = 0; step < set.step_count; step++) {
				EXPECT_EQ(naive_step(&query, set.series[i].group,
						     set.first_step_ns + step * step_ns, step_ns),
					  set.series[i].values[step], set.series[i].group);
				total += set.series[i].values[step];
			}
			EXPECT_EQ(total, set.series[i].total, set.series[i].group);
			assert_true(!i || set.series[i - 1].total >= total);
		}
		query_series_set_deinit(&set);
		selector_deinit(&selector);
		store_close(store);
	}
}

TEST(sums_groups_beyond_the_limit_as_other)
{
	struct store *store = memory_store_new(PARTITION_NS);
	struct selector selector = { 0 };
	struct query query = { .store = store,
			       .selector = &selector,
			       .type = PROFILE_TYPE_CPU,
			       .range = { 0, PARTITION_NS },
			       .group_by = "pod" };
	struct query_series_set set;
	struct error err;

	for (uint32_t i = 0; i < QUERY_GROUPS_MAX + 20; i++) {
		struct labels labels = { 0 };
		char pod[16];

		snprintf(pod, sizeof(pod), "p%u", i);
		assert_int_equal(0, labels_set(&labels, "pod", pod));
		struct memory_sample sample = {
			.series = memory_store_add_series(store, &labels, PROFILE_TYPE_CPU),
			.slot_ns = 20000000,
			.value = 10000 + i,
		};
		memory_store_add(store, &sample);
		labels_deinit(&labels);
	}
	assert_int_equal(0, query_series(&query, 20000000, &set, &err));
	assert_int_equal(QUERY_GROUPS_MAX + 1, set.count);
	EXPECT_STR("other", set.series[0].group, "20 pods together are the largest");
	assert_int_equal(20 * 10000 + 190, set.series[0].total); // p0 to p19
	EXPECT_STR("p119", set.series[1].group, "the largest pod");
	assert_int_equal(10119, set.series[1].total);
	query_series_set_deinit(&set);
	store_close(store);
}

TEST(a_heat_map_counts_each_slot)
{
	struct store *store = random_store();
	struct selector selector = { 0 };
	struct query query = { .store = store,
			       .selector = &selector,
			       .type = PROFILE_TYPE_CPU,
			       .range = { PARTITION_NS + 5, 3 * PARTITION_NS + 1 },
			       .group_by = NULL };
	struct heat_map map;
	struct error err;
	int64_t value_max = 0;

	assert_int_equal(0, query_heat_map(&query, 20000000, 0, &map, &err));
	assert_int_equal(PARTITION_NS, map.from_ns);
	assert_int_equal(101, map.slot_count);
	for (uint32_t i = 0; i < map.slot_count; i++) {
		EXPECT_EQ(naive_step(&query, "", map.from_ns + i * map.slot_ns, map.slot_ns),
			  map.values[i], "slot");
		value_max = map.values[i] > value_max ? map.values[i] : value_max;
	}
	assert_true(value_max > 0);
	assert_int_equal(value_max, map.value_max);
	heat_map_deinit(&map);
	store_close(store);
}

TEST(peaks_are_the_largest_finer_slots)
{
	enum { SLOT_MS = 500, FINE_MS = 20 };
	const uint64_t fine_ns = FINE_MS * 1000000ULL;
	struct store *store = random_store();
	struct memory_sample late = { .slot_ns = 20000000,
				      .time_ns = 5000 * PARTITION_NS + 40000000,
				      .location_count = 1,
				      .value = 77 };
	struct selector selector = { 0 };
	struct query query = { .store = store,
			       .selector = &selector,
			       .type = PROFILE_TYPE_CPU,
			       .range = { 0, 7000 * PARTITION_NS } };
	struct heat_map map, plain;
	struct error err;

	memory_store_add(store, &late); // beyond what is read at a time
	assert_int_equal(0, query_heat_map(&query, SLOT_MS * 1000000ULL, fine_ns, &map, &err));
	assert_int_equal(0, query_heat_map(&query, SLOT_MS * 1000000ULL, 0, &plain, &err));
	assert_null(plain.peaks);
	assert_int_equal(plain.slot_count, map.slot_count);
	assert_int_equal(plain.value_max, map.value_max);
	assert_memory_equal(plain.values, map.values, map.slot_count * sizeof(*map.values));
	for (uint32_t i = 0; i < map.slot_count; i++) {
		int64_t peak = 0;

		if (!map.values[i]) {
			assert_int_equal(0, map.peaks[i]);
			continue;
		}
		for (uint64_t at = 0; at < SLOT_MS / FINE_MS; at++) {
			int64_t value = naive_step(
				&query, "", map.from_ns + i * map.slot_ns + at * fine_ns, fine_ns);

			peak = value > peak ? value : peak;
		}
		EXPECT_EQ(peak, map.peaks[i], "peak");
	}
	assert_int_equal(77, map.peaks[5000 * 2]);
	assert_int_equal(-EINVAL, query_heat_map(&query, 30000000, fine_ns, &map, &err));
	assert_non_null(strstr(err.text, "multiple of peak"));
	heat_map_deinit(&map);
	heat_map_deinit(&plain);
	store_close(store);
}

TEST(refuses_too_many_points_with_a_remedy)
{
	struct store *store = random_store();
	struct selector selector = { 0 };
	struct query query = { .store = store,
			       .selector = &selector,
			       .type = PROFILE_TYPE_CPU,
			       .range = { 0, 3600 * PARTITION_NS },
			       .group_by = NULL };
	struct query_series_set set = { 0 };
	struct heat_map map = { 0 };
	struct error err;

	assert_int_equal(-EINVAL, query_series(&query, 20000000, &set, &err));
	assert_non_null(strstr(err.text, "choose at least 328 ms"));
	assert_int_equal(0, query_series(&query, 328000000, &set, &err));
	query_series_set_deinit(&set);
	assert_int_equal(-EINVAL, query_series(&query, 0, &set, &err));
	query.range.to_ns = 7 * 3600 * PARTITION_NS;
	assert_int_equal(-EINVAL, query_heat_map(&query, 20000000, 0, &map, &err));
	store_close(store);
}

// ---- gauges ---------------------------------------------------------------------------------------

#define RSS PROFILE_TYPE_RSS

static void add_gauge(struct store *store, const char *service, uint32_t seconds, int64_t value)
{
	struct labels labels = { 0 };

	assert_int_equal(0, labels_set(&labels, "service", service));
	uint32_t series = memory_store_add_series(store, &labels, RSS);
	for (uint32_t i = 0; i < seconds; i++) {
		struct memory_sample sample = {
			.series = series,
			.slot_ns = 20000000,
			.time_ns = PARTITION_NS * i + 980000000,
			.value = value + i,
		};
		memory_store_add(store, &sample);
	}
	labels_deinit(&labels);
}

TEST(averages_a_gauge_per_step)
{
	static const struct {
		const char *what;
		uint64_t step_ns, expected_step_ns;
		uint32_t step;
		int64_t value;
	} cases[] = {
		{ "each second", PARTITION_NS, PARTITION_NS, 7, 1007 },
		{ "ten seconds", 10 * PARTITION_NS, 10 * PARTITION_NS, 1, 1014 },
		{ "less than a second", 20000000, PARTITION_NS, 7, 1007 },
		{ "no whole seconds", 1500000000, 2 * PARTITION_NS, 3, 1006 },
	};
	struct store *store = memory_store_new(PARTITION_NS);
	struct selector selector = { 0 };
	struct query query = { .store = store,
			       .selector = &selector,
			       .type = RSS,
			       .range = { 0, 60 * PARTITION_NS },
			       .group_by = "service" };
	struct error err;

	add_gauge(store, "a", 60, 1000);
	add_gauge(store, "b", 30, 500);
	for EACH (c, cases) {
		struct query_series_set set;

		assert_int_equal(0, query_series(&query, c->step_ns, &set, &err));
		EXPECT_EQ(c->expected_step_ns, set.step_ns, c->what);
		EXPECT_EQ(60 * PARTITION_NS / c->expected_step_ns, set.step_count, c->what);
		EXPECT_EQ(c->value, set.series[0].values[c->step], c->what);
		EXPECT_EQ(1029, set.series[0].total, "the mean of its values");
		EXPECT_EQ(257, set.series[1].total, "b was there half of the time");
		query_series_set_deinit(&set);
	}
	store_close(store);
}

/** A level of @value in the seconds [@begin, @end) of a stack of one location. */
static void add_level(struct store *store, uint32_t series, uint32_t location, uint32_t begin,
		      uint32_t end, int64_t value)
{
	for (uint32_t second = begin; second < end; second++) {
		struct memory_sample sample = {
			.series = series,
			.slot_ns = 20000000,
			.time_ns = PARTITION_NS * second,
			.locations = { location },
			.location_count = 1,
			.value = value,
		};
		memory_store_add(store, &sample);
	}
}

/** What the tree has below its root at location "x.so+0x@number". */
static int64_t level_of(const struct flame_tree *tree, uint32_t number)
{
	char end[16];

	snprintf(end, sizeof(end), "+0x%x", number);
	for (uint32_t i = 1; i < tree->node_count; i++) {
		const char *name = string_table_get(&tree->strings, tree->nodes[i].name);
		size_t size = strlen(name), end_size = strlen(end);

		if (size >= end_size && strcmp(name + size - end_size, end) == 0)
			return tree->nodes[i].total;
	}
	return 0;
}

TEST(averages_gauge_stacks_over_seconds_with_data)
{
	enum { KEPT = 12, FREED = 0 }; // native locations without names
	static const struct {
		const char *what;
		uint64_t from_ns, to_ns;
		int64_t kept, freed;
	} cases[] = {
		{ "while both were there", 12 * PARTITION_NS, 18 * PARTITION_NS, 700, 300 },
		{ "one second", 12 * PARTITION_NS, 13 * PARTITION_NS, 700, 300 },
		{ "within a second", 12 * PARTITION_NS + 5, 12 * PARTITION_NS + 6, 700, 300 },
		{ "parts of seconds count", 18 * PARTITION_NS + 1, 22 * PARTITION_NS - 1, 700,
		  150 },
		{ "after one was freed", 20 * PARTITION_NS, 30 * PARTITION_NS, 700, 0 },
		{ "before there were data", 0, 20 * PARTITION_NS, 700, 300 },
		{ "after the last data", 20 * PARTITION_NS, 60 * PARTITION_NS, 700, 0 },
		{ "all", 0, 60 * PARTITION_NS, 700, 100 },
	};
	struct store *store = memory_store_new(PARTITION_NS);
	struct selector selector = { 0 };
	struct labels labels = { 0 };
	struct error err;

	for (uint32_t i = 0; i <= KEPT; i++)
		add_random_location(store->profile, i);
	uint32_t series = memory_store_add_series(store, &labels, RSS);
	add_level(store, series, KEPT, 10, 40, 700);
	add_level(store, series, FREED, 10, 20, 300);
	for EACH (c, cases) {
		struct query query = { .store = store,
				       .selector = &selector,
				       .type = RSS,
				       .range = { c->from_ns, c->to_ns } };
		struct profile *profile;
		struct flame_tree tree;
		int64_t sum = 0;

		assert_int_equal(0, query_flame_tree(&query, &tree, &err));
		EXPECT_EQ(c->kept, level_of(&tree, KEPT), c->what);
		EXPECT_EQ(c->freed, level_of(&tree, FREED), c->what);
		EXPECT_EQ(c->kept + c->freed, tree.nodes[0].total, c->what);
		flame_tree_deinit(&tree);
		assert_int_equal(0, query_profile(&query, &profile, &err));
		for (uint32_t i = 0; i < profile->sample_count; i++)
			sum += profile->samples[i].value;
		EXPECT_EQ(c->kept + c->freed, sum, c->what);
		profile_free(profile);
	}
	store_close(store);
}

TEST(averages_a_gauge_over_several_ranges)
{
	enum { KEPT = 12, FREED = 0 };
	static const struct {
		const char *what;
		struct query_ranges parts;
		int64_t kept, freed;
	} cases[] = {
		{ "one second with both, one with one",
		  { { { 12 * PARTITION_NS, 13 * PARTITION_NS },
		      { 30 * PARTITION_NS, 31 * PARTITION_NS } },
		    2 },
		  700,
		  150 },
		{ "parts of the same second count once",
		  { { { 12 * PARTITION_NS + 5, 12 * PARTITION_NS + 6 },
		      { 12 * PARTITION_NS + 8, 12 * PARTITION_NS + 9 },
		      { 30 * PARTITION_NS + 1, 33 * PARTITION_NS - 1 } },
		    3 },
		  700,
		  75 },
		{ "one after the last data",
		  { { { 18 * PARTITION_NS, 20 * PARTITION_NS },
		      { 50 * PARTITION_NS, 60 * PARTITION_NS } },
		    2 },
		  700,
		  300 },
	};
	struct store *store = memory_store_new(PARTITION_NS);
	struct selector selector = { 0 };
	struct labels labels = { 0 };
	struct error err;

	for (uint32_t i = 0; i <= KEPT; i++)
		add_random_location(store->profile, i);
	uint32_t series = memory_store_add_series(store, &labels, RSS);
	add_level(store, series, KEPT, 10, 40, 700);
	add_level(store, series, FREED, 10, 20, 300);
	for EACH (c, cases) {
		struct query query = { .store = store,
				       .selector = &selector,
				       .type = RSS,
				       .range = query_ranges_hull(&c->parts),
				       .parts = c->parts };
		struct flame_tree tree;

		assert_int_equal(0, query_flame_tree(&query, &tree, &err));
		EXPECT_EQ(c->kept, level_of(&tree, KEPT), c->what);
		EXPECT_EQ(c->freed, level_of(&tree, FREED), c->what);
		flame_tree_deinit(&tree);
	}
	store_close(store);
}

TEST(a_tree_of_means_adds_up)
{
	struct store *store = memory_store_new(PARTITION_NS);
	struct selector selector = { 0 };
	struct query query = {
		.store = store, .selector = &selector, .type = RSS, .range = { 0, 3 * PARTITION_NS }
	};
	struct labels labels = { 0 };
	struct flame_tree tree;
	struct error err;

	for (uint32_t i = 0; i < LOCATIONS; i++)
		add_random_location(store->profile, i);
	uint32_t series = memory_store_add_series(store, &labels, RSS);
	for (uint32_t i = 0; i < LOCATIONS; i++) // thirds
		add_level(store, series, i, i % 3, 3, 1000 + 7 * i);
	assert_int_equal(0, query_flame_tree(&query, &tree, &err));
	int64_t sum = 0;
	for (uint32_t i = 0; i < tree.node_count; i++) {
		int64_t below = 0;

		sum += tree.nodes[i].self;
		for (uint32_t k = i + 1; k < tree.node_count; k++)
			below += tree.nodes[k].parent == i ? tree.nodes[k].total : 0;
		EXPECT_EQ(tree.nodes[i].total, tree.nodes[i].self + below, "total");
	}
	EXPECT_EQ(sum, tree.nodes[0].total, "all");
	flame_tree_deinit(&tree);
	store_close(store);
}

TEST(a_gauge_has_no_heat_map)
{
	struct store *store = memory_store_new(PARTITION_NS);
	struct selector selector = { 0 };
	struct query query = { .store = store,
			       .selector = &selector,
			       .type = RSS,
			       .range = { 0, 60 * PARTITION_NS } };
	struct heat_map map;
	struct error err;

	add_gauge(store, "a", 60, 1000);
	assert_int_equal(-EINVAL, query_heat_map(&query, 20000000, 0, &map, &err));
	assert_non_null(strstr(err.text, RSS " is a gauge"));
	assert_non_null(strstr(err.text, "/api/v1/series"));
	store_close(store);
}

RUN_TESTS(cmocka_unit_test(series_have_whole_steps_and_exact_sums),
	  cmocka_unit_test(sums_groups_beyond_the_limit_as_other),
	  cmocka_unit_test(a_heat_map_counts_each_slot),
	  cmocka_unit_test(peaks_are_the_largest_finer_slots),
	  cmocka_unit_test(refuses_too_many_points_with_a_remedy),
	  cmocka_unit_test(averages_a_gauge_per_step),
	  cmocka_unit_test(averages_gauge_stacks_over_seconds_with_data),
	  cmocka_unit_test(averages_a_gauge_over_several_ranges),
	  cmocka_unit_test(a_tree_of_means_adds_up), cmocka_unit_test(a_gauge_has_no_heat_map))
