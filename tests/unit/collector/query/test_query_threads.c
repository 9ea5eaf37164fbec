// SPDX-License-Identifier: Apache-2.0
// Timelines of threads against sums over all samples; wall-clock time for files.
// Subject: collector/query/query_threads.c
#include "tests/unit/collector/query/query_fixture.h"

#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "base/contract/wait_classes.h"

enum { SLOTS = 100, THREADS = 5 };

#define SLOT_NS 20000000ULL

static const char *const measured[] = {
	PROFILE_TYPE_WALL,        PROFILE_TYPE_WALL,    PROFILE_TYPE_CPU,     PROFILE_TYPE_GPU_SPIN,
	PROFILE_TYPE_SCHED_DELAY, PROFILE_TYPE_OFF_CPU, PROFILE_TYPE_OFF_CPU, PROFILE_TYPE_OFF_CPU,
	PROFILE_TYPE_PAGE_FAULT, // none of a timeline
};

/** What tells series of one thread apart. */
static const char *const marks[ARRAY_SIZE(measured)][2] = {
	{ LABEL_STATE, "running" }, { LABEL_STATE, "blocked" }, { "", "" }, { "", "" }, { "", "" },
	{ LABEL_WAIT, "idle" },     { LABEL_WAIT, "lock" },     { "", "" },
};

static uint32_t add_series(struct store *store, uint32_t thread, size_t kind)
{
	struct labels labels = { 0 };
	char name[16];

	snprintf(name, sizeof(name), "t%u", thread / 2);
	assert_int_equal(0, labels_set(&labels, LABEL_SERVICE, "llm"));
	assert_int_equal(0, labels_set(&labels, thread % 4 < 2 ? LABEL_NODE : LABEL_INSTANCE,
				       thread % 2 ? "a" : "b"));
	assert_int_equal(0, labels_set(&labels, LABEL_THREAD, name));
	if (marks[kind][0] && *marks[kind][0])
		assert_int_equal(0, labels_set(&labels, marks[kind][0], marks[kind][1]));
	uint32_t series = memory_store_add_series(store, &labels, measured[kind]);
	labels_deinit(&labels);
	return series;
}

static struct store *random_threads(void)
{
	struct store *store = memory_store_new(PARTITION_NS);

	add_random_location(store->profile, 0);
	for (uint32_t thread = 0; thread < THREADS; thread++)
		for (size_t kind = 0; kind < ARRAY_SIZE(measured); kind++)
			add_series(store, thread, kind);
	for (uint32_t i = 0; i < SAMPLES; i++) {
		struct memory_sample sample = {
			.series = random_below(store->series_count),
			.slot_ns = SLOT_NS,
			.time_ns = PARTITION_NS + random_below(SLOTS) * SLOT_NS,
			.more_slots = random_below(4) ? 0 : random_below(20),
			.location_count = 1,
			.value = 1 + random_below(20000000),
		};
		memory_store_add(store, &sample);
	}
	return store;
}

/** Its node or its instance, as add_series() has set one. */
static const char *place_of(const struct labels *labels)
{
	const char *node = labels_get(labels, LABEL_NODE);

	return node ? node : labels_get(labels, LABEL_INSTANCE);
}

/** The sum of what one part of @thread has in @range. */
static int64_t naive_part(const struct store *store, const struct timeline_thread *thread,
			  const struct thread_part *part, struct time_range range)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < store->sample_count; i++) {
		const struct memory_series *series = &store->series[store->samples[i].series];
		const char *wait = labels_get(&series->labels, LABEL_WAIT);
		bool is_blocked = strcmp(series->type, PROFILE_TYPE_OFF_CPU) == 0;

		wait = !is_blocked ? "" : wait ? wait : "other";
		if (strcmp(series->type, part->type) == 0 && strcmp(wait, part->wait) == 0 &&
		    strcmp(place_of(&series->labels), place_of(&thread->labels)) == 0 &&
		    strcmp(labels_get(&series->labels, LABEL_THREAD),
			   labels_get(&thread->labels, LABEL_THREAD)) == 0)
			sum += sample_value(&store->samples[i], range);
	}
	return sum;
}

static void expect_thread(const struct store *store, const struct thread_timeline *timeline,
			  const struct timeline_thread *thread, int64_t *ret_sum)
{
	int64_t active = 0;

	for (uint32_t p = 0; p < thread->part_count; p++) {
		const struct thread_part *part = &thread->parts[p];
		int64_t total = 0;

		for (uint32_t slot = 0; slot < timeline->slot_count; slot++) {
			uint64_t from_ns = timeline->from_ns + slot * timeline->slot_ns;

			EXPECT_EQ(naive_part(store, thread, part,
					     (struct time_range){ from_ns,
								  from_ns + timeline->slot_ns }),
				  part->values[slot], part->type);
			total += part->values[slot];
		}
		EXPECT_EQ(total, part->total, part->type);
		assert_true(total > 0);
		if (strcmp(part->type, PROFILE_TYPE_WALL) != 0 && strcmp(part->wait, "idle") != 0)
			active += total;
		*ret_sum += total;
	}
	EXPECT_EQ(active, thread->active, labels_get(&thread->labels, LABEL_THREAD));
}

/** All that the selected threads have in @range. */
static int64_t naive_sum(const struct store *store, struct time_range range)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < store->sample_count; i++)
		if (strcmp(store->series[store->samples[i].series].type, PROFILE_TYPE_PAGE_FAULT) !=
		    0)
			sum += sample_value(&store->samples[i], range);
	return sum;
}

TEST(parts_of_threads_are_exact_sums)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct store *store = random_threads();
		struct selector selector = { 0 };
		uint64_t slot_ns = (1 + random_below(4)) * SLOT_NS;
		uint64_t from_ns = PARTITION_NS + random_below(50) * SLOT_NS;
		const struct query query = {
			.store = store,
			.selector = &selector,
			.range = { from_ns, from_ns + (1 + random_below(60)) * SLOT_NS },
		};
		struct thread_timeline timeline;
		struct error err;
		int64_t sum = 0;

		assert_int_equal(0, query_threads(&query, slot_ns, THREADS, &timeline, &err));
		assert_int_equal(0, timeline.from_ns % slot_ns);
		for (uint32_t i = 0; i < timeline.thread_count; i++) {
			expect_thread(store, &timeline, &timeline.threads[i], &sum);
			assert_true(!i ||
				    timeline.threads[i - 1].active >= timeline.threads[i].active);
		}
		EXPECT_EQ(naive_sum(store,
				    (struct time_range){ timeline.from_ns,
							 timeline.from_ns +
								 timeline.slot_count * slot_ns }),
			  sum, "nothing is missing");
		thread_timeline_deinit(&timeline);
		store_close(store);
	}
}

TEST(the_most_active_threads_are_shown)
{
	struct store *store = random_threads();
	struct selector selector = { 0 };
	const struct query query = {
		.store = store,
		.selector = &selector,
		.range = { PARTITION_NS, PARTITION_NS + 2 * SLOTS * SLOT_NS },
	};
	struct thread_timeline all, some;
	struct error err;

	assert_int_equal(0, query_threads(&query, SLOT_NS, THREADS, &all, &err));
	assert_int_equal(THREADS, all.thread_count);
	assert_int_equal(0, all.left_out);
	assert_int_equal(0, query_threads(&query, SLOT_NS, 2, &some, &err));
	assert_int_equal(2, some.thread_count);
	assert_int_equal(THREADS - 2, some.left_out);
	assert_int_equal(all.threads[2].active + all.threads[3].active + all.threads[4].active,
			 some.left_out_active);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(all.threads[i].active, some.threads[i].active);
		for (uint32_t p = 0; p < some.threads[i].part_count; p++)
			assert_memory_equal(all.threads[i].parts[p].values,
					    some.threads[i].parts[p].values,
					    some.slot_count * sizeof(int64_t));
	}
	thread_timeline_deinit(&all);
	thread_timeline_deinit(&some);
	store_close(store);
}

static const struct {
	const char *what;
	uint64_t slots;
	int rc;
	const char *text;
} sizes[] = {
	{ "as many slots as there may be", QUERY_THREAD_SLOTS_MAX, 0, "" },
	{ "one more", QUERY_THREAD_SLOTS_MAX + 1, -EINVAL, "choose at least" },
};

TEST(a_timeline_has_bounded_slots)
{
	struct store *store = random_threads();
	struct selector selector = { 0 };

	for EACH (c, sizes) {
		const struct query query = {
			.store = store,
			.selector = &selector,
			.range = { PARTITION_NS, PARTITION_NS + c->slots * SLOT_NS },
		};
		struct thread_timeline timeline = { 0 };
		struct error err = { 0 };

		EXPECT_EQ(c->rc, query_threads(&query, SLOT_NS, 1, &timeline, &err), c->what);
		assert_non_null(strstr(err.text, c->text));
		thread_timeline_deinit(&timeline);
	}
	store_close(store);
}

TEST(a_timeline_has_bounded_values)
{
	enum { MANY = QUERY_THREAD_CELLS_MAX / QUERY_THREAD_SLOTS_MAX + 1 };
	struct store *store = memory_store_new(PARTITION_NS);
	struct selector selector = { 0 };
	const struct query query = {
		.store = store,
		.selector = &selector,
		.range = { PARTITION_NS, PARTITION_NS + QUERY_THREAD_SLOTS_MAX * SLOT_NS },
	};
	struct thread_timeline timeline = { 0 };
	struct error err = { 0 };

	add_random_location(store->profile, 0);
	for (uint32_t i = 0; i < MANY; i++) {
		struct memory_sample sample = { .series = add_series(store, 2 * i, 2),
						.slot_ns = SLOT_NS,
						.time_ns = PARTITION_NS,
						.location_count = 1,
						.value = 1 };
		memory_store_add(store, &sample);
	}
	assert_int_equal(-E2BIG, query_threads(&query, SLOT_NS, MANY, &timeline, &err));
	assert_non_null(strstr(err.text, "choose fewer threads, longer slots"));
	assert_int_equal(0, query_threads(&query, SLOT_NS, MANY - 2, &timeline, &err));
	assert_int_equal(2, timeline.left_out);
	thread_timeline_deinit(&timeline);
	store_close(store);
}

/* A thread's wall-clock time has a stack where another type has it. */
TEST(exported_wall_time_has_stacks)
{
	struct store *store = memory_store_new(PARTITION_NS);
	struct selector selector = { 0 };
	const struct query query = { .store = store,
				     .selector = &selector,
				     .type = PROFILE_TYPE_WALL,
				     .range = { PARTITION_NS, 2 * PARTITION_NS } };
	struct profile *profile;
	struct error err;
	// Running for 30 ms, of which ticks say 20; blocked on a lock and idle for 10 ms each.
	static const struct {
		size_t kind;
		int64_t ms;
	} parts[] = { { 0, 30 }, { 1, 20 }, { 2, 20 }, { 5, 10 }, { 6, 10 } };

	add_random_location(store->profile, 0);
	for EACH (part, parts) {
		struct memory_sample sample = { .series = add_series(store, 0, part->kind),
						.slot_ns = SLOT_NS,
						.time_ns = PARTITION_NS,
						.location_count = part->kind > 1,
						.value = part->ms * (int64_t)NS_PER_MS };
		memory_store_add(store, &sample);
	}
	assert_int_equal(0, query_timeline(&query, &profile, &err));
	assert_int_equal(3, profile->sample_count);
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct series *series = &profile->series[profile->samples[i].series];
		const char *wait = labels_get(&series->labels, LABEL_WAIT);

		EXPECT_STR(PROFILE_TYPE_WALL, profile_string(profile, series->type), "type");
		EXPECT_STR(wait ? "blocked" : "running", labels_get(&series->labels, LABEL_STATE),
			   "state");
		EXPECT_EQ(wait ? 10 : 30, profile->samples[i].value / NS_PER_MS, "ms");
		EXPECT_EQ(1, profile->stacks[profile->samples[i].stack].location_count, "frames");
	}
	profile_free(profile);
	store_close(store);
}

TEST(a_selector_without_threads_is_an_empty_timeline)
{
	struct store *store = memory_store_new(PARTITION_NS);
	struct selector selector = { 0 };
	const struct query query = { .store = store,
				     .selector = &selector,
				     .range = { PARTITION_NS, 2 * PARTITION_NS } };
	struct thread_timeline timeline;
	struct error err;

	assert_int_equal(0, query_threads(&query, SLOT_NS, 10, &timeline, &err));
	assert_int_equal(0, timeline.thread_count);
	assert_int_equal(50, timeline.slot_count);
	thread_timeline_deinit(&timeline);
	store_close(store);
}

TEST(sums_beyond_64_bits_saturate)
{
	struct store *store = memory_store_new(PARTITION_NS);
	struct selector selector = { 0 };
	const struct query query = {
		.store = store,
		.selector = &selector,
		.range = { PARTITION_NS, PARTITION_NS + SLOTS * SLOT_NS },
	};
	struct thread_timeline timeline;
	struct error err;

	add_random_location(store->profile, 0);
	for (uint32_t thread = 0; thread < 6; thread += 2)
		for (size_t kind = 0; kind < ARRAY_SIZE(measured); kind++) {
			const struct memory_sample sample = {
				.series = add_series(store, thread, kind),
				.slot_ns = SLOT_NS,
				.time_ns = PARTITION_NS,
				.location_count = 1,
				.value = kind == 5 ? INT64_MIN : INT64_MAX, // idle
			};
			memory_store_add(store, &sample);
		}
	assert_int_equal(0, query_threads(&query, SLOT_NS, 1, &timeline, &err));
	EXPECT_EQ(INT64_MAX, timeline.threads[0].active, "of a thread");
	EXPECT_EQ(2, timeline.left_out, "others");
	EXPECT_EQ(INT64_MAX, timeline.left_out_active, "of the others");
	thread_timeline_deinit(&timeline);
	store_close(store);
}

RUN_TESTS(cmocka_unit_test(parts_of_threads_are_exact_sums),
	  cmocka_unit_test(the_most_active_threads_are_shown),
	  cmocka_unit_test(sums_beyond_64_bits_saturate),
	  cmocka_unit_test(a_timeline_has_bounded_slots),
	  cmocka_unit_test(a_timeline_has_bounded_values),
	  cmocka_unit_test(exported_wall_time_has_stacks),
	  cmocka_unit_test(a_selector_without_threads_is_an_empty_timeline))
