// SPDX-License-Identifier: Apache-2.0
// Subject: collector/store/rocksdb/rocksdb_merge.c
// Merged chunks have the rows that were stored, whatever came before, after and meanwhile; longer slots keep all sums.
#include "tests/unit/collector/store/store_model.h"

#include "collector/store/rocksdb/key.h"
#include "collector/store/rocksdb/rocksdb.h"
#include "tests/unit/collector/store/clock_double.h"

#define MINUTE (60 * NS_PER_SECOND)

enum { MODEL_MINUTES = 12 };

struct scene {
	char path[64];
	struct store_options options;
	struct store *store;
};

static void open_scene(struct scene *scene)
{
	struct error err = { 0 };

	scene->options.path = scene->path;
	scene->options.clock = &clock_double;
	if (rocksdb_store_open(&scene->options, &scene->store, &err) < 0)
		fail_msg("open: %s", err.text);
}

static void begin(struct scene *scene, struct store_options options)
{
	*scene = (struct scene){ .options = options };
	clock_reset();
	directory_new(scene->path);
	open_scene(scene);
}

static void reopen(struct scene *scene)
{
	store_close(scene->store);
	open_scene(scene);
}

static void end(struct scene *scene)
{
	store_close(scene->store);
	directory_remove(scene->path);
}

static void flush(struct scene *scene)
{
	struct error err = { 0 };

	if (store_flush(scene->store, &err) < 0)
		fail_msg("flush: %s", err.text);
}

static void maintain(struct scene *scene)
{
	struct error err = { 0 };

	if (store_maintain(scene->store, double_realtime_ns(), &err) < 0)
		fail_msg("maintain: %s", err.text);
}

static struct store_stats stats_of(const struct scene *scene)
{
	struct store_stats stats;

	store_read_stats(scene->store, &stats);
	return stats;
}

static void merge_all(struct scene *scene)
{
	struct store_stats stats;

	flush(scene);
	for (int i = 0; i < 10000; i++) {
		maintain(scene);
		stats = stats_of(scene);
		if (stats.partitions_merged == stats.partitions && !stats.tombstones)
			return;
	}
	fail_msg("%llu of %llu hours are merged", (unsigned long long)stats.partitions_merged,
		 (unsigned long long)stats.partitions);
}

static void fail_on_damage(void *context, uint64_t start_ns, const char *text)
{
	(void)context;
	fail_msg("damage in %llu: %s", (unsigned long long)start_ns, text);
}

static void ignore_progress(void *context, uint64_t start_ns, uint32_t count,
			    const struct store_check *found)
{
	(void)context, (void)start_ns, (void)count, (void)found;
}

/** The closed store agrees with itself. Returns what it has. */
static struct store_check check(struct scene *scene)
{
	const struct store_checker checker = { .damage = fail_on_damage,
					       .progress = ignore_progress };
	struct store_check found = { 0 };

	store_close(scene->store);
	assert_int_equal(0, rocksdb_store_check(scene->path, &checker, &found, NULL));
	open_scene(scene);
	return found;
}

/** @dense: so many equal rows that rollups are written. */
static void append_at_random(struct model *model, struct scene *scene, uint64_t sequence,
			     uint64_t from_ns, bool dense)
{
	uint64_t minute_ns = from_ns + model_random(model, MODEL_MINUTES) * MINUTE;
	struct profile *profile = dense ? model_batch(model, 1500, minute_ns, 10 * TEST_SLOT_NS)
					: model_batch(model, 150, minute_ns, MINUTE);

	append_profile(scene->store, 1, sequence, profile);
}

static const char *const selectors[] = {
	"{}",
	"{service=\"s1\"}",
	"{node=~\"n[13]\"}",
	"{service=\"s2\",node!=\"n0\"}",
	"{thread=~\"t(1|7|39)\"}",
};

/** A random range whose ends are multiples of @unit_ns. */
static struct time_range random_range(struct model *model, uint64_t from_ns, uint64_t unit_ns)
{
	uint64_t units = MODEL_MINUTES * MINUTE / unit_ns;
	uint64_t from = from_ns + model_random(model, (uint32_t)units) * unit_ns;

	return (struct time_range){ from, from + (1 + model_random(model, (uint32_t)units / 2)) *
							  unit_ns };
}

enum { RANGES_MAX = 3 };

/** Sums of a scan, and of its values times numbers that differ by node. */
struct scanned {
	uint64_t value, by_node;
};

static int add_scanned(void *context, const struct store_rows *rows)
{
	struct scanned *scanned = context;

	for (uint32_t i = 0; i < rows->count; i++) {
		scanned->value += (uint64_t)rows->values[i];
		scanned->by_node +=
			(uint64_t)rows->values[i] * (rows->nodes[i] * 0x9e3779b97f4a7c15ULL);
	}
	return 0;
}

/** Ranges that are read together have what they have one by one. */
static void expect_ranges(struct model *model, struct scene *scene, uint64_t from_ns,
			  enum scan_detail detail, const char *what)
{
	struct selector selector = selector_of(selectors[model_random(model, 3)]);
	struct scanned together = { 0 }, apart = { 0 };
	struct store_scanner scanner = { .detail = detail, .rows = add_scanned };
	struct time_range ranges[RANGES_MAX];
	struct store_selection *selection;
	uint64_t at_ns = from_ns;

	for EACH (range, ranges) {
		range->from_ns = at_ns + model_random(model, 9000) * TEST_SLOT_NS;
		at_ns = range->to_ns =
			range->from_ns + (1 + model_random(model, 9000)) * TEST_SLOT_NS;
	}
	assert_int_equal(0,
			 store_select(scene->store, &selector, NULL, all_time, &selection, NULL));
	scanner.context = &together;
	assert_int_equal(
		0, store_scan_ranges(scene->store, selection, ranges, RANGES_MAX, &scanner, NULL));
	scanner.context = &apart;
	for EACH (range, ranges)
		assert_int_equal(0, store_scan(scene->store, selection, *range, &scanner, NULL));
	EXPECT_EQ(apart.value, together.value, what);
	EXPECT_EQ(apart.by_node, together.by_node, what);
	store_selection_free(selection);
	selector_deinit(&selector);
}

static void expect_rows(struct model *model, struct scene *scene, uint64_t from_ns,
			const char *what)
{
	expect_ranges(model, scene, from_ns, SCAN_SUMS, what);
	expect_ranges(model, scene, from_ns, SCAN_SERIES_SUMS, what);
	for EACH (selector, selectors) {
		struct time_range range = random_range(model, from_ns, TEST_SLOT_NS);

		expect_model(model, scene->store, *selector, all_time, what);
		expect_model(model, scene->store, *selector, range, what);
		range = random_range(model, from_ns, MINUTE);
		expect_model(model, scene->store, *selector, range, what);
		expect_activity(model, scene->store, *selector, range, TEST_SLOT_NS,
				model_random(model, 2), what);
	}
}

static void run_at_random(uint64_t seed, uint32_t length_max)
{
	struct model model = { .random = seed, .length_max = length_max };
	uint64_t from_ns = hour_ns(-1) + 3600 * NS_PER_SECOND - MODEL_MINUTES / 2 * MINUTE;
	uint64_t sequence = 0;
	char what[64];
	struct scene scene;

	// Spans of an hour lie anywhere in longer partitions.
	begin(&scene, (struct store_options){ .partition_ns = seed > 2 ? 120 * MINUTE : 0 });
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 6; i++)
			append_at_random(&model, &scene, ++sequence, from_ns, i % 2);
		if (round % 2)
			flush(&scene); // late rows of minutes that were merged
		sprintf(what, "seed %llu, round %d", (unsigned long long)seed, round);
		expect_rows(&model, &scene, from_ns, what);
		clock_pass(20 * MINUTE);
		merge_all(&scene);
		expect_rows(&model, &scene, from_ns, what);
		check(&scene);
		expect_rows(&model, &scene, from_ns, what);
	}
	model_deinit(&model);
	end(&scene);
}

TEST(merged_rows_equal_brute_force)
{
	for (uint64_t seed = 1; seed <= 4; seed++)
		run_at_random(seed, seed % 2 ? 0 : 200);
}

TEST(few_rows_of_an_hour_become_one_chunk)
{
	struct scene scene;

	begin(&scene, (struct store_options){ 0 });
	for (uint64_t i = 0; i < 60; i++)
		append_text(scene.store, 1, i + 1, "service=a,node=n1", hour_ns(0) + i * MINUTE,
			    "main;run", 10000000);
	flush(&scene);
	EXPECT_EQ(60, check(&scene).chunks, "a chunk a minute");
	merge_all(&scene);
	struct store_check found = check(&scene);
	EXPECT_EQ(1, found.chunks, "chunks of the hour");
	EXPECT_EQ(60, found.rows, "rows");
	end(&scene);
}

TEST(an_hour_under_way_is_not_merged)
{
	struct scene scene;
	uint64_t now_ns;

	begin(&scene, (struct store_options){ 0 });
	now_ns = double_realtime_ns();
	append_text(scene.store, 1, 1, "service=a,node=n1", now_ns - 2 * MINUTE, "main;run", 1);
	flush(&scene);
	maintain(&scene);
	EXPECT_EQ(0, stats_of(&scene).partitions_merged, "merged");
	EXPECT_EQ(0, stats_of(&scene).rows_merged, "rows merged");
	end(&scene);
}

/** A batch of a stack that the agent has defined before. Returns how many stacks are not known. */
static uint32_t append_known(struct scene *scene, uint64_t sequence, uint64_t time_ns)
{
	struct store_batch_id batch = batch_of(1, sequence);
	struct profile *profile = test_profile();
	struct store_append_result result = { 0 };

	add_known(profile, "service=a,node=n1", time_ns, "main;run", 10);
	assert_int_equal(0, store_append(scene->store, &batch, profile, &result, NULL));
	free(result.unknown_stacks);
	profile_free(profile);
	return result.unknown_stack_count;
}

TEST(agents_define_stacks_of_old_hours_again)
{
	struct time_range hour = { hour_ns(-1), hour_ns(0) };
	uint64_t sequence = 0;
	struct scene scene;
	struct dump dump;

	begin(&scene, (struct store_options){ 0 });
	append_text(scene.store, 1, ++sequence, "service=a,node=n1", hour.from_ns, "main;run", 5);
	merge_all(&scene);
	EXPECT_EQ(0, append_known(&scene, ++sequence, hour.from_ns), "unknown in the newest hour");
	for (int i = 0; i < 2; i++)
		append_text(scene.store, 1, ++sequence, "service=a,node=n1", hour_ns(i),
			    "main;later", 1);
	flush(&scene);
	clock_pass(60 * MINUTE); // the last of these hours is past, and late rows are collected
	merge_all(&scene);
	EXPECT_EQ(1, append_known(&scene, ++sequence, hour.from_ns), "unknown later");
	append_text(scene.store, 1, sequence, "service=a,node=n1", hour.from_ns, "main;run", 10);
	check(&scene);
	EXPECT_EQ(0, append_known(&scene, ++sequence, hour.from_ns), "defined again");
	dump_store(scene.store, "{}", hour, SCAN_SUMS, &dump);
	EXPECT_EQ(1, dump.count, "stacks");
	EXPECT_EQ(35, dump.lines[0].value, "their sum");
	dump_deinit(&dump);
	check(&scene);
	end(&scene);
}

// ---- longer slots ---------------------------------------------------------------------------------------

/** Sums over the longer slots are what brute force finds. */
static void expect_sums(struct model *model, struct scene *scene, uint64_t from_ns,
			uint64_t slot_ns, const char *what)
{
	for EACH (selector, selectors) {
		struct time_range range = random_range(model, from_ns, slot_ns);

		for (int detail = SCAN_SERIES_SUMS; detail <= (int)DUMP_SERVICE_SUMS; detail++) {
			struct dump expected, actual;

			model_dump(model, *selector, range, detail, &expected);
			dump_store(scene->store, *selector, range, detail, &actual);
			expect_equal_dumps(&expected, &actual, what);
			dump_deinit(&expected);
			dump_deinit(&actual);
		}
		expect_activity(model, scene->store, *selector, range, slot_ns,
				model_random(model, 2), what);
	}
}

static uint64_t resolution_of(struct scene *scene)
{
	return store_resolution(scene->store, all_time);
}

static void age_at_random(uint64_t seed, uint32_t length_max)
{
	struct model model = { .random = seed, .length_max = length_max };
	uint64_t from_ns = hour_ns(-1) + 3600 * NS_PER_SECOND - MODEL_MINUTES / 2 * MINUTE;
	uint64_t sequence = 0;
	struct scene scene;

	begin(&scene, (struct store_options){ .seconds_after_ns = (uint64_t)HOURS_NS(24),
					      .minutes_after_ns = (uint64_t)HOURS_NS(48) });
	for (int i = 0; i < 12; i++)
		append_at_random(&model, &scene, ++sequence, from_ns, i % 2);
	merge_all(&scene);
	EXPECT_EQ(0, resolution_of(&scene), "as they came");
	expect_rows(&model, &scene, from_ns, "as they came");
	clock_pass((uint64_t)HOURS_NS(25));
	scene.options.accept_clock = true; // a day has passed at once
	reopen(&scene);
	append_at_random(&model, &scene, ++sequence, from_ns, true); // late
	merge_all(&scene);
	EXPECT_EQ(NS_PER_SECOND, resolution_of(&scene), "seconds");
	expect_sums(&model, &scene, from_ns, NS_PER_SECOND, "seconds");
	check(&scene);
	expect_sums(&model, &scene, from_ns, NS_PER_SECOND, "seconds, opened again");
	clock_pass((uint64_t)HOURS_NS(25));
	reopen(&scene);
	merge_all(&scene);
	EXPECT_EQ(MINUTE, resolution_of(&scene), "minutes");
	expect_sums(&model, &scene, from_ns, MINUTE, "minutes");
	check(&scene);
	EXPECT_EQ(MINUTE, resolution_of(&scene), "minutes, opened again");
	model_deinit(&model);
	end(&scene);
}

TEST(sums_over_longer_slots_equal_brute_force)
{
	for (uint64_t seed = 11; seed <= 14; seed++)
		age_at_random(seed, seed % 2 ? 0 : 3000);
}

/** What a second or a minute of the hour has in slots of 20 ms. */
static void expect_slots(struct scene *scene, uint64_t from_ns, uint64_t length_ns, int64_t each,
			 const char *what)
{
	struct selector selector = selector_of("{}");
	struct time_range range = { from_ns, from_ns + length_ns };
	struct store_selection *selection;
	uint64_t count = length_ns / TEST_SLOT_NS;
	int64_t *counts = calloc(count, sizeof(*counts));

	assert_int_equal(0, store_select(scene->store, &selector, NULL, range, &selection, NULL));
	assert_int_equal(0, store_activity(scene->store, selection, range, TEST_SLOT_NS, NULL,
					   counts, NULL));
	for (uint64_t i = 0; i < count; i++)
		EXPECT_EQ(each, counts[i], what);
	store_selection_free(selection);
	selector_deinit(&selector);
	free(counts);
}

TEST(spreads_downsampled_slots_evenly)
{
	struct scene scene;

	begin(&scene, (struct store_options){ .seconds_after_ns = (uint64_t)HOURS_NS(1) });
	append_text(scene.store, 1, 1, "service=a,node=n1", hour_ns(-3) + 7 * NS_PER_SECOND,
		    "main;run", 5000);
	merge_all(&scene);
	expect_slots(&scene, hour_ns(-3) + 6 * NS_PER_SECOND, NS_PER_SECOND, 0, "before");
	expect_slots(&scene, hour_ns(-3) + 7 * NS_PER_SECOND, NS_PER_SECOND, 100, "its second");
	expect_slots(&scene, hour_ns(-3) + 8 * NS_PER_SECOND, NS_PER_SECOND, 0, "after");
	end(&scene);
}

TEST(older_store_waits_for_upgrade)
{
	struct scene scene;
	struct db *db;
	struct key key = key_of_meta("format"), suffices = key_of_meta("format_suffices");
	static const uint8_t two[8] = { [7] = 2 };

	begin(&scene, (struct store_options){ 0 });
	store_close(scene.store);
	assert_int_equal(0, db_open(scene.path, 32 << 20, DB_READ_WRITE, &db, NULL));
	struct db_batch *batch = db_batch_new(db);
	db_batch_put(batch, DB_META, key_bytes(&key), (struct bytes){ two, sizeof(two) });
	db_batch_put(batch, DB_META, key_bytes(&suffices), (struct bytes){ two, sizeof(two) });
	assert_int_equal(0, db_write(db, batch, true, NULL));
	db_batch_freep(&batch);
	db_close(db);

	open_scene(&scene);
	for (uint64_t i = 0; i < 5; i++)
		append_text(scene.store, 1, i + 1, "service=a,node=n1", hour_ns(0) + i * MINUTE,
			    "main;run", 1);
	flush(&scene);
	for (int i = 0; i < 20; i++)
		maintain(&scene);
	EXPECT_EQ(0, stats_of(&scene).partitions_merged, "merged");
	EXPECT_EQ(5, check(&scene).chunks, "chunks");
	store_close(scene.store);
	scene.options.upgrade = true;
	open_scene(&scene);
	merge_all(&scene);
	EXPECT_EQ(1, check(&scene).chunks, "chunks of the upgraded store");
	end(&scene);
}

TEST(slots_never_become_shorter_again)
{
	struct scene scene;

	begin(&scene, (struct store_options){ .seconds_after_ns = (uint64_t)HOURS_NS(1) });
	append_text(scene.store, 1, 1, "service=a,node=n1", hour_ns(-3), "main;run", 1);
	merge_all(&scene);
	EXPECT_EQ(NS_PER_SECOND, resolution_of(&scene), "seconds");
	scene.options.seconds_after_ns = 0;
	reopen(&scene);
	append_text(scene.store, 1, 2, "service=a,node=n1", hour_ns(-3), "main;run", 1);
	clock_pass(20 * MINUTE);
	merge_all(&scene);
	EXPECT_EQ(NS_PER_SECOND, resolution_of(&scene), "still seconds");
	end(&scene);
}

RUN_TESTS(cmocka_unit_test(merged_rows_equal_brute_force),
	  cmocka_unit_test(few_rows_of_an_hour_become_one_chunk),
	  cmocka_unit_test(an_hour_under_way_is_not_merged),
	  cmocka_unit_test(agents_define_stacks_of_old_hours_again),
	  cmocka_unit_test(sums_over_longer_slots_equal_brute_force),
	  cmocka_unit_test(spreads_downsampled_slots_evenly),
	  cmocka_unit_test(older_store_waits_for_upgrade),
	  cmocka_unit_test(slots_never_become_shorter_again))
