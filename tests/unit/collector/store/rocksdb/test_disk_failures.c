// SPDX-License-Identifier: Apache-2.0
// Subject: collector/store/rocksdb/rocksdb_keeper.c
// Any change of a store's files may fail: the process lives, what was acknowledged is there once, and
// batches are taken again when the disk is back.
#include "tests/unit/collector/store/rocksdb/disk_double.h"

#include "collector/store/disk_room.h"
#include "collector/store/rocksdb/rocksdb.h"
#include "tests/unit/collector/store/clock_double.h"
#include "tests/unit/collector/store/store_fixture.h"

enum {
	BATCHES = 24,
	FLUSH_EVERY = 8,
	RUNS_MAX = 40, // of a sweep over all changes
};

static const uint64_t mib = 1 << 20;

struct scene {
	struct store_options options;
	struct store *store;
	bool acknowledged[BATCHES + 1];
	uint64_t base_ns;
};

static void scene_open(struct scene *scene)
{
	struct error err = { 0 };

	if (rocksdb_store_open(&scene->options, &scene->store, &err) < 0)
		fail_msg("open: %s", err.text);
}

static void scene_begin(struct scene *scene)
{
	memset(&disk_double, 0, sizeof(disk_double));
	disk_double_heal();
	disk_double.total_bytes = 1000 * mib;
	disk_double.free_bytes = 900 * mib;
	*scene = (struct scene){ .base_ns = hour_ns(0) };
	directory_new(disk_double.path);
	scene->options =
		(struct store_options){ .path = disk_double.path, .memory_bytes = 32 << 20 };
	scene_open(scene);
}

static void scene_end(struct scene *scene)
{
	store_close(scene->store);
	directory_remove(disk_double.path);
	disk_double.path[0] = 0;
}

static uint64_t batch_ns(const struct scene *scene, uint64_t sequence)
{
	return scene->base_ns + sequence * 40 * NS_PER_SECOND;
}

/** Returns store_append()'s rc. A batch has the value of its sequence. */
static int send_batch(struct scene *scene, uint64_t sequence, struct error *err)
{
	struct store_batch_id batch = batch_of(0, sequence);
	struct store_append_result result = { 0 };
	struct profile *profile = test_profile();
	char stack[64];

	sprintf(stack, "main;f%llu", (unsigned long long)sequence % 5);
	add_text(profile, "service=s", batch_ns(scene, sequence), stack, (int64_t)sequence);
	int rc = store_append(scene->store, &batch, profile, &result, err);
	profile_free(profile);
	if (rc == 0)
		scene->acknowledged[sequence] = true;
	return rc;
}

/** All that was acknowledged is there, with its value. */
static void expect_acknowledged(struct scene *scene, const char *what)
{
	struct dump dump;
	char line[128];

	dump_store(scene->store, "{}", all_time, SCAN_ROWS, &dump);
	for (uint64_t i = 1; i <= BATCHES; i++) {
		sprintf(line, "service=s %llu main;f%llu",
			(unsigned long long)(batch_ns(scene, i) / NS_PER_MS),
			(unsigned long long)i % 5);
		const struct dump_line *found = dump_find(&dump, line);
		if (scene->acknowledged[i] && !found)
			fail_msg("%s: batch %llu was acknowledged and is not there", what,
				 (unsigned long long)i);
		if (found)
			EXPECT_EQ(i, found->value, what);
	}
	dump_deinit(&dump);
}

static bool takes_batches(struct scene *scene)
{
	struct store_health health;

	store_read_health(scene->store, &health);
	return health.takes_batches;
}

static void maintain(struct scene *scene)
{
	store_maintain(scene->store, scene->base_ns + 7200 * NS_PER_SECOND, NULL);
}

/** Batches in order, each until it is acknowledged, as an agent sends them. Returns how often one failed. */
static int send_all(struct scene *scene, const char *what)
{
	int failures = 0;

	for (uint64_t i = 1; i <= BATCHES; i++) {
		struct error err = { 0 };

		for (int tries = 0; send_batch(scene, i, &err) < 0; tries++) {
			failures++;
			if (tries > 3)
				fail_msg("%s: batch %llu: %s", what, (unsigned long long)i,
					 err.text);
			expect_acknowledged(scene, what);
			maintain(scene);
		}
		if (i % FLUSH_EVERY == 0)
			store_flush(scene->store, NULL);
	}
	maintain(scene);
	return failures;
}

TEST(any_failed_change_loses_nothing)
{
	struct scene scene;
	long changes;
	int failed_runs = 0;

	scene_begin(&scene);
	disk_double_fail(1 << 30, 0, 0);
	assert_int_equal(0, send_all(&scene, "good disk"));
	changes = disk_double.changes;
	scene_end(&scene);
	assert_true(changes > RUNS_MAX);
	for (long i = 0; i < RUNS_MAX; i++) {
		static const int codes[] = { EIO, ENOSPC, EROFS };
		char what[64];

		sprintf(what, "change %ld of %ld fails", i * changes / RUNS_MAX, changes);
		scene_begin(&scene);
		disk_double_fail(i * changes / RUNS_MAX, 1, codes[i % 3]);
		failed_runs += send_all(&scene, what) > 0;
		expect_acknowledged(&scene, what);
		store_close(scene.store);
		scene_open(&scene);
		expect_acknowledged(&scene, what);
		maintain(&scene); // the failure may have met the opening
		assert_true(takes_batches(&scene));
		scene_end(&scene);
	}
	if (failed_runs < RUNS_MAX / 2)
		fail_msg("only %d runs met the failure: the test says little", failed_runs);
}

TEST(disk_that_stays_bad_serves_queries)
{
	static const struct {
		const char *what;
		int code;
		const char *word;
	} rows[] = {
		{ "bad blocks", EIO, "check the disk" },
		{ "full", ENOSPC, "free space" },
		{ "remounted", EROFS, "read-write" },
	};

	for EACH (row, rows) {
		struct error err = { 0 };
		struct scene scene;

		scene_begin(&scene);
		for (uint64_t i = 1; i <= 10; i++)
			assert_int_equal(0, send_batch(&scene, i, NULL));
		disk_double_fail(0, INT32_MAX, row->code);
		EXPECT_EQ(-row->code, send_batch(&scene, 11, &err), row->what);
		if (!strstr(err.text, row->word))
			fail_msg("%s: \"%s\" does not say \"%s\"", row->what, err.text, row->word);
		maintain(&scene); // opens it for queries only
		maintain(&scene);
		assert_false(takes_batches(&scene));
		EXPECT_EQ(-row->code, send_batch(&scene, 11, &err), row->what);
		expect_acknowledged(&scene, row->what);
		// A start is no different.
		store_close(scene.store);
		scene_open(&scene);
		assert_false(takes_batches(&scene));
		expect_acknowledged(&scene, row->what);
		disk_double_heal();
		maintain(&scene);
		assert_true(takes_batches(&scene));
		assert_int_equal(0, send_all(&scene, row->what));
		expect_acknowledged(&scene, row->what);
		scene_end(&scene);
	}
}

TEST(refuses_batches_before_disk_is_full)
{
	struct error err = { 0 };
	struct scene scene;

	scene_begin(&scene);
	scene.options.disk_free_bytes = 100 * mib;
	store_close(scene.store);
	scene_open(&scene);
	maintain(&scene);
	assert_int_equal(0, send_batch(&scene, 1, NULL));
	disk_double.free_bytes = 49 * mib;
	assert_int_equal(-ENOSPC, send_batch(&scene, 2, &err));
	assert_non_null(strstr(err.text, "49 MiB free"));
	assert_false(takes_batches(&scene));
	expect_acknowledged(&scene, "full");
	disk_double.free_bytes = 51 * mib; // not yet: it would be refused again at once
	maintain(&scene);
	assert_false(takes_batches(&scene));
	disk_double.free_bytes = 65 * mib;
	maintain(&scene);
	assert_int_equal(0, send_batch(&scene, 2, NULL));
	scene_end(&scene);
}

static uint64_t partition_count(struct scene *scene)
{
	struct store_stats stats;

	store_read_stats(scene->store, &stats);
	return stats.partitions;
}

TEST(oldest_hours_go_for_room)
{
	struct scene scene;

	scene_begin(&scene);
	scene.options.disk_free_bytes = 100 * mib;
	store_close(scene.store);
	scene_open(&scene);
	scene.base_ns -= 3 * 3600 * NS_PER_SECOND;
	for (int hour = 0; hour < 4; hour++)
		append_text(scene.store, 1, (uint64_t)hour + 1, "service=s",
			    scene.base_ns + (uint64_t)hour * 3600 * NS_PER_SECOND, "main", 1);
	assert_int_equal(4, partition_count(&scene));
	disk_double.free_bytes = 90 * mib; // batches are taken still
	maintain(&scene);
	assert_int_equal(3, partition_count(&scene));
	disk_double.free_bytes = 110 * mib;
	maintain(&scene);
	assert_int_equal(3, partition_count(&scene));
	disk_double.free_bytes = 10 * mib;
	for (int i = 0; i < 4; i++)
		maintain(&scene);
	assert_int_equal(2, partition_count(&scene));
	scene_end(&scene);
}

TEST(store_stays_below_its_size)
{
	struct store_stats stats;
	struct scene scene;

	scene_begin(&scene);
	scene.options.size_bytes_max = 1;
	store_close(scene.store);
	scene_open(&scene);
	for (int hour = 0; hour < 4; hour++)
		append_text(scene.store, 1, (uint64_t)hour + 1, "service=s",
			    scene.base_ns - (uint64_t)hour * 3600 * NS_PER_SECOND, "main", 1);
	for (int i = 0; i < 4; i++)
		maintain(&scene);
	store_read_stats(scene.store, &stats);
	assert_int_equal(2, stats.partitions);
	assert_int_equal(2, stats.partitions_dropped);
	scene_end(&scene);
}

static bool has_ballast(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", disk_double.path, DISK_BALLAST_NAME);
	return access(path, F_OK) == 0;
}

TEST(ballast_gives_room_to_come_up)
{
	struct scene scene;

	scene_begin(&scene);
	scene.options.disk_free_bytes = 4 * mib;
	store_close(scene.store);
	scene_open(&scene);
	maintain(&scene);
	assert_true(has_ballast());
	assert_int_equal(0, send_batch(&scene, 1, NULL));
	store_close(scene.store);
	disk_double.free_bytes = 0;
	scene_open(&scene);
	assert_false(has_ballast());
	expect_acknowledged(&scene, "full");
	scene_end(&scene);
}

TEST(failed_deletion_of_old_hour_is_repeated)
{
	struct scene scene;

	scene_begin(&scene);
	clock_reset();
	scene.options.retention_ns = 3600 * NS_PER_SECOND;
	scene.options.clock = &clock_double;
	store_close(scene.store);
	scene_open(&scene);
	append_text(scene.store, 1, 1, "service=s", clock_realtime_ns(), "main", 1);
	clock_pass(3 * 3600 * NS_PER_SECOND);
	uint64_t later_ns = double_realtime_ns();
	disk_double_fail(0, 1, EIO);
	assert_true(store_maintain(scene.store, later_ns, NULL) < 0);
	store_maintain(scene.store, later_ns, NULL);
	assert_int_equal(0, partition_count(&scene));
	store_close(scene.store);
	scene_open(&scene);
	assert_int_equal(0, partition_count(&scene));
	scene_end(&scene);
}

// ---- rewriting what is deleted --------------------------------------------------------------------------

static int64_t tenant_sum(struct scene *scene, const char *selector)
{
	struct dump dump;
	int64_t sum = 0;

	dump_store(scene->store, selector, all_time, SCAN_SUMS, &dump);
	for (uint32_t i = 0; i < dump.count; i++)
		sum += dump.lines[i].value;
	dump_deinit(&dump);
	return sum;
}

/** An hour of two tenants, closed and open, of which red's is deleted and not rewritten. */
static void begin_deleted(struct scene *scene)
{
	struct selector selector = selector_of("{tenant=\"red\"}");
	struct store_deletion deletion;

	scene_begin(scene);
	for (uint64_t i = 1; i <= 4; i++) {
		struct profile *profile = test_profile();
		uint64_t time_ns = scene->base_ns + i * 60 * NS_PER_SECOND;

		add_text(profile, "service=s,tenant=blue", time_ns, "main;f", 1);
		add_text(profile, "service=s,tenant=red", time_ns, "main;f", 100);
		append_profile(scene->store, 1, i, profile);
		if (i == 2)
			assert_int_equal(0, store_flush(scene->store, NULL));
	}
	assert_int_equal(0, store_delete(scene->store, &selector, all_time, &deletion, NULL));
	EXPECT_EQ(2, deletion.series + deletion.partitions, "series and hours");
	selector_deinit(&selector);
}

static uint64_t count_tombstones(struct scene *scene)
{
	struct store_stats stats;

	store_read_stats(scene->store, &stats);
	return stats.tombstones;
}

static void expect_blue_only(struct scene *scene, const char *what)
{
	EXPECT_EQ(4, tenant_sum(scene, "{}"), what);
	EXPECT_EQ(0, tenant_sum(scene, "{tenant=\"red\"}"), what);
}

/** The disk fails after @good_changes of the rewrite, as if the process were killed there. */
static void run_rewrite(long good_changes)
{
	struct scene scene;
	char what[64];

	sprintf(what, "after %ld changes", good_changes);
	begin_deleted(&scene);
	disk_double_fail(good_changes, INT32_MAX, EIO);
	store_maintain(scene.store, scene.base_ns, NULL);
	store_close(scene.store);
	disk_double_heal();
	scene_open(&scene);
	expect_blue_only(&scene, what);
	for (int i = 0; count_tombstones(&scene) && i < 1000; i++)
		assert_int_equal(0, store_maintain(scene.store, scene.base_ns, NULL));
	EXPECT_EQ(0, count_tombstones(&scene), what);
	expect_blue_only(&scene, what);
	scene_end(&scene);
}

TEST(any_failed_change_resurrects_nothing_deleted)
{
	struct scene scene;

	begin_deleted(&scene);
	disk_double.changes = 0;
	for (int i = 0; count_tombstones(&scene) && i < 1000; i++)
		store_maintain(scene.store, scene.base_ns, NULL);
	long changes = disk_double.changes;
	scene_end(&scene);
	assert_true(changes > 10);
	// The first ones are writes of rows; most of the others are of files that are moved.
	for (long i = 0; i < changes; i += i < 12 ? 1 : 7)
		run_rewrite(i);
}

RUN_TESTS(cmocka_unit_test(any_failed_change_loses_nothing),
	  cmocka_unit_test(any_failed_change_resurrects_nothing_deleted),
	  cmocka_unit_test(disk_that_stays_bad_serves_queries),
	  cmocka_unit_test(refuses_batches_before_disk_is_full),
	  cmocka_unit_test(oldest_hours_go_for_room), cmocka_unit_test(store_stays_below_its_size),
	  cmocka_unit_test(ballast_gives_room_to_come_up),
	  cmocka_unit_test(failed_deletion_of_old_hour_is_repeated))
