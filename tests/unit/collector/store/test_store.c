// SPDX-License-Identifier: Apache-2.0
// The embedded store: what every store must do, and what is its own.
#include "tests/unit/collector/store/clock_double.h"
#include "tests/unit/collector/store/store_intervals.h"

#include <fcntl.h>

#include "collector/store/agent_table.h"
#include "base/version.h"
#include "collector/store/rocksdb/key.h"
#include "collector/store/rocksdb/rocksdb.h"
#include "collector/store/rocksdb/partition_quota.h"

static int conformance_open(const struct store_options *options, struct store **ret_store,
			    struct error *err)
{
	return rocksdb_store_open(options, ret_store, err);
}

// ---- directories ------------------------------------------------------------------------------------

static void expect_refused(const struct store_options *options, int rc, const char *text)
{
	struct store *store = NULL;
	struct error err = { 0 };

	EXPECT_EQ(rc, rocksdb_store_open(options, &store, &err), text);
	if (!strstr(err.text, text))
		fail_msg("\"%s\" does not say \"%s\"", err.text, text);
}

static void write_file(const char *directory, const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_int_equal(strlen(text), write(fd, text, strlen(text)));
}

TEST(leaves_foreign_folders_alone)
{
	struct store_options options = { 0 };
	char path[64];

	directory_new(path);
	options.path = path;
	write_file(path, "CURRENT", "somebody else's\n");
	expect_refused(&options, -EBADMSG, "choose another folder");
	directory_remove(path);
	options.path = "/nonexistent/parent/store";
	expect_refused(&options, -ENOENT, "parent");
}

/* A volume of Kubernetes that root made. */
TEST(names_the_user_that_may_not_write)
{
	struct store_options options = { 0 };
	char path[64];

	if (geteuid() != 0)
		SKIP("needs root, to be another user");
	directory_new(path);
	options.path = path;
	assert_int_equal(0, chmod(path, 0755));
	assert_int_equal(0, seteuid(10001));
	expect_refused(&options, -EACCES, "permission denied for uid 10001");
	expect_refused(&options, -EACCES, "chown -R 10001:");
	assert_int_equal(0, seteuid(0));
	directory_remove(path);
}

TEST(refuses_a_second_process)
{
	struct scene scene;

	scene_begin(&scene, (struct store_options){ 0 });
	expect_refused(&scene.options, -EBUSY, "another process has it open");
	scene_end(&scene);
}

static void expect_total(struct scene *scene, int64_t total)
{
	struct dump dump;

	dump_store(scene->store, "{}", all_time, SCAN_SUMS, &dump);
	EXPECT_EQ(1, dump.count, "stacks");
	EXPECT_EQ(total, dump.lines[0].value, "their sum");
	dump_deinit(&dump);
}

TEST(makes_a_lost_list_of_files_again)
{
	struct scene scene;
	char path[128];

	scene_begin(&scene, (struct store_options){ 0 });
	append_text(scene.store, 1, 1, "service=a", hour_ns(0), "main", 1);
	scene_reopen(&scene); // from the log to files
	for (uint64_t i = 2; i <= 3; i++) {
		append_text(scene.store, 1, i, "service=a", hour_ns(0), "main", 1);
		store_close(scene.store);
		if (i == 2)
			write_file(scene.path, "CURRENT", "MANIFEST-999999\n");
		snprintf(path, sizeof(path), "%s/CURRENT", scene.path);
		if (i == 3)
			assert_int_equal(0, unlink(path));
		scene_open(&scene);
		expect_total(&scene, (int64_t)i);
	}
	snprintf(path, sizeof(path), "rm -r %s/lost", scene.path);
	assert_int_equal(0, system(path));
	scene_end(&scene);
}

TEST(refuses_options_that_contradict_the_store)
{
	struct scene scene;
	struct store_options other;

	scene_begin(&scene, (struct store_options){ .partition_ns = 1800 * NS_PER_SECOND });
	store_close(scene.store);
	other = scene.options;
	other.partition_ns = 3600 * NS_PER_SECOND;
	expect_refused(&other, -EINVAL, "partitions are 1800 s long");
	other.partition_ns = 90 * NS_PER_SECOND;
	expect_refused(&other, -EINVAL, "whole minutes");
	other = scene.options;
	other.memory_bytes = 1 << 20;
	expect_refused(&other, -EINVAL, "32 MiB");
	scene.options.partition_ns = 0; // takes what is there
	scene_open(&scene);
	scene_end(&scene);
}

/** Make the store say that it is of @format, and that programs that know @suffices can use it. */
static void write_format(const char *path, uint64_t format, uint64_t suffices)
{
	struct key key = key_of_meta("format"), value = { .size = 0 };
	struct key suffices_key = key_of_meta("format_suffices"), number = { .size = 0 };
	struct db_batch *batch;
	struct db *db;

	assert_int_equal(0, db_open(path, 32 << 20, DB_READ_WRITE, &db, NULL));
	batch = db_batch_new(db);
	key_append(&value, format, 8);
	db_batch_put(batch, DB_META, key_bytes(&key), key_bytes(&value));
	key_append(&number, suffices, 8);
	db_batch_put(batch, DB_META, key_bytes(&suffices_key), key_bytes(&number));
	assert_int_equal(0, db_write(db, batch, true, NULL));
	db_batch_freep(&batch);
	db_close(db);
}

TEST(refuses_a_store_of_another_format)
{
	struct scene scene;

	scene_begin(&scene, (struct store_options){ 0 });
	append_text(scene.store, 1, 1, "service=a", hour_ns(0), "main", 7);
	scene_flush(&scene);
	store_close(scene.store);
	write_format(scene.path, 5, 5);
	expect_refused(&scene.options, -EBADMSG,
		       "its format is 5, newer than this program's 4; use the cairn-collector that "
		       "wrote it (version " CAIRN_VERSION ")");
	write_format(scene.path, 1, 1);
	expect_refused(&scene.options, -EBADMSG, "its format is 1, older than this program's 2");
	write_format(scene.path, 2, 2);
	scene_open(&scene);
	scene_end(&scene);
}

TEST(opens_a_newer_store_that_says_it_may)
{
	struct scene scene;

	scene_begin(&scene, (struct store_options){ 0 });
	append_text(scene.store, 1, 1, "service=a", hour_ns(0), "main", 7);
	store_close(scene.store);
	write_format(scene.path, 5, 4);
	scene_open(&scene);
	expect_total(&scene, 7);
	scene_end(&scene);
}

// ---- maintenance ------------------------------------------------------------------------------------

static struct store_stats stats_of(const struct scene *scene)
{
	struct store_stats stats;

	store_read_stats(scene->store, &stats);
	return stats;
}

TEST(closes_a_minute_90_seconds_after_its_end)
{
	struct scene scene;
	uint64_t start_ns = hour_ns(0);

	scene_begin(&scene, (struct store_options){ 0 });
	append_text(scene.store, 1, 1, "service=a", start_ns, "main", 1);
	assert_int_equal(0, store_maintain(scene.store, start_ns + 149 * NS_PER_SECOND, NULL));
	EXPECT_EQ(0, stats_of(&scene).chunk_rows, "89 s after its end");
	assert_int_equal(0, store_maintain(scene.store, start_ns + 150 * NS_PER_SECOND, NULL));
	EXPECT_EQ(1, stats_of(&scene).chunk_rows, "90 s after its end");
	append_text(scene.store, 1, 2, "service=a", start_ns, "main", 1);
	assert_int_equal(0, store_maintain(scene.store, start_ns + 151 * NS_PER_SECOND, NULL));
	EXPECT_EQ(1, stats_of(&scene).chunk_rows, "a late row waits for others");
	assert_int_equal(0, store_maintain(scene.store, start_ns + 166 * NS_PER_SECOND, NULL));
	EXPECT_EQ(2, stats_of(&scene).chunk_rows, "not for ever");
	scene_end(&scene);
}

static int append_as(struct scene *scene, uint64_t identity, uint64_t sequence, bool *ret_duplicate)
{
	struct store_batch_id batch = batch_of(1, sequence);
	struct profile *profile = test_profile();
	struct store_append_result result = { 0 };
	struct error err = { 0 };

	batch.identity = (struct id128){ identity, identity };
	add_text(profile, "service=a", hour_ns(0), "main", 1);
	int rc = store_append(scene->store, &batch, profile, &result, &err);
	*ret_duplicate = result.duplicate;
	profile_free(profile);
	if (rc == -EINVAL)
		assert_non_null(strstr(err.text, "sequence: "));
	return rc;
}

TEST(nobody_acknowledges_in_anothers_name)
{
	struct scene scene;
	bool duplicate;

	scene_begin(&scene, (struct store_options){ 0 });
	assert_int_equal(0, append_as(&scene, 1, 5, &duplicate));
	// Somebody else sends the agent's next sequences.
	for (uint64_t sequence = 6; sequence < 20; sequence++)
		assert_int_equal(0, append_as(&scene, 2, sequence, &duplicate));
	for (int reopened = 0; reopened < 2; reopened++) {
		assert_int_equal(0, append_as(&scene, 1, 6 + (uint64_t)reopened, &duplicate));
		assert_false(duplicate);
		assert_int_equal(0, append_as(&scene, 2, 19, &duplicate));
		assert_true(duplicate);
		scene_reopen(&scene);
	}
	scene_end(&scene);
}

TEST(refuses_leaps_of_the_sequence)
{
	struct scene scene;
	bool duplicate;

	scene_begin(&scene, (struct store_options){ 0 });
	EXPECT_EQ(-EINVAL, append_as(&scene, 1, UINT64_MAX, &duplicate), "2^64 - 1, at first");
	EXPECT_EQ(0, append_as(&scene, 1, 5, &duplicate), "the agent's");
	EXPECT_EQ(-EINVAL, append_as(&scene, 1, UINT64_MAX, &duplicate), "2^64 - 1");
	EXPECT_EQ(-EINVAL, append_as(&scene, 1, 6 + SEQUENCE_JUMP_MAX, &duplicate), "a leap");
	EXPECT_EQ(0, append_as(&scene, 1, 6, &duplicate), "the next");
	assert_false(duplicate);
	EXPECT_EQ(0, append_as(&scene, 1, 6 + SEQUENCE_JUMP_MAX, &duplicate), "a gap");
	scene_end(&scene);
}

TEST(refuses_selectors_without_a_tenant)
{
	const struct selector by_hand = { 0 };
	_cleanup_(selector_deinit) struct selector parsed = { 0 };
	struct store_selection *selection = NULL;
	struct name_list names = { 0 };
	struct scene scene;

	scene_begin(&scene, (struct store_options){ 0 });
	assert_int_equal(-EPERM, store_select(scene.store, &by_hand, PROFILE_TYPE_CPU, all_time,
					      &selection, NULL));
	assert_int_equal(-EPERM, store_label_names(scene.store, &by_hand, all_time, &names, NULL));
	assert_int_equal(-EPERM, store_label_values(scene.store, "service", &by_hand, all_time,
						    &names, NULL));
	assert_int_equal(0, selector_parse("{}", "", &parsed, NULL));
	assert_int_equal(0, store_label_names(scene.store, &parsed, all_time, &names, NULL));
	name_list_deinit(&names);
	scene_end(&scene);
}

static void fail_of_damage(void *context, uint64_t start_ns, const char *text)
{
	(void)context, (void)start_ns;
	fail_msg("damaged: %s", text);
}

static void ignore_progress(void *context, uint64_t start_ns, uint32_t count,
			    const struct store_check *found)
{
	(void)context, (void)start_ns, (void)count, (void)found;
}

TEST(closes_a_large_minute_in_portions)
{
	struct model model = { .random = 7 };
	const struct store_checker checker = { .damage = fail_of_damage,
					       .progress = ignore_progress };
	struct store_check found = { 0 };
	struct scene scene;
	uint64_t start_ns = hour_ns(0);

	// Batches of 1,700 rows become five runs each, and every portion has one or two of them.
	scene_begin(&scene, (struct store_options){ .close_rows_max = 400 });
	for (uint64_t i = 1; i <= 6; i++)
		append_profile(scene.store, 1, i,
			       model_batch(&model, 1700, start_ns, 2 * NS_PER_SECOND));
	expect_model(&model, scene.store, "{}", all_time, "open");
	scene_reopen(&scene);
	scene_flush(&scene);
	for EACH (selector, model_selectors)
		expect_model(&model, scene.store, *selector, all_time, "closed");
	expect_activity(&model, scene.store, "{}",
			(struct time_range){ start_ns, start_ns + 60 * NS_PER_SECOND },
			TEST_SLOT_NS, false, "closed");
	store_close(scene.store);
	assert_int_equal(0, rocksdb_store_check(scene.path, &checker, &found, NULL));
	assert_true(found.chunks >= found.rows / 400);
	scene_open(&scene);
	model_deinit(&model);
	scene_end(&scene);
}

// ---- quotas of series ---------------------------------------------------------------------------------

/** A batch of @count series of @labels, by thread; each has one row of 1. */
static struct store_append_result append_limited(struct scene *scene, uint64_t sequence,
						 uint32_t tenant_series_max, const char *labels,
						 uint32_t first, uint32_t count)
{
	struct store_batch_id batch = batch_of(1, sequence);
	struct profile *profile = test_profile();
	struct store_append_result result;
	char text[128];

	batch.tenant_series_max = tenant_series_max;
	for (uint32_t i = first; i < first + count; i++) {
		snprintf(text, sizeof(text), "%s,thread=t%u", labels, i);
		add_text(profile, text, hour_ns(0), "main", 1);
	}
	assert_int_equal(0, store_append(scene->store, &batch, profile, &result, NULL));
	profile_free(profile);
	return result;
}

static struct store_append_result append_threads(struct scene *scene, uint64_t sequence,
						 const char *labels, uint32_t first, uint32_t count)
{
	return append_limited(scene, sequence, 0, labels, first, count);
}

TEST(a_batch_brings_its_tenants_limit)
{
	struct store_append_result result;
	struct scene scene;
	struct dump dump;

	scene_begin(&scene, (struct store_options){ 0 });
	result = append_limited(&scene, 1, 50, "process=p,tenant=shop", 0, 60);
	EXPECT_EQ(10, result.rows_tenant, "beyond it");
	EXPECT_EQ(10, result.rows_other, "under the label other");
	result = append_limited(&scene, 2, 0, "process=p,tenant=bank", 0, 60);
	EXPECT_EQ(0, result.rows_other, "another tenant's");
	dump_store(scene.store, "{tenant=\"shop\"}", all_time, SCAN_SUMS, &dump);
	EXPECT_EQ(60, dump.lines[0].value, "the sum is right");
	dump_deinit(&dump);
	dump_store(scene.store, "{other=\"tenant\"}", all_time, SCAN_SERIES_SUMS, &dump);
	assert_string_equal("other=tenant,tenant=shop main", dump.lines[0].text);
	EXPECT_EQ(10, dump.lines[0].value, "the excess");
	dump_deinit(&dump);
	result = append_threads(&scene, 3, "node=n,process=p,service=s", 0,
				SERIES_PER_PROCESS_MAX + 5);
	EXPECT_EQ(5, result.rows_other, "a process's quota");
	EXPECT_EQ(0, result.rows_tenant, "is not the tenant's");
	scene_end(&scene);
}

TEST(excess_of_a_process_goes_to_one_series)
{
	enum { EXCESS = 500, COUNT = SERIES_PER_PROCESS_MAX + EXCESS };
	struct store_append_result result;
	struct scene scene;
	struct dump dump;

	scene_begin(&scene, (struct store_options){ 0 });
	result = append_threads(&scene, 1, "node=n,process=p,service=s", 0, COUNT);
	EXPECT_EQ(EXCESS, result.rows_other, "said in the answer");
	EXPECT_EQ(0, result.rows_series, "nothing is dropped");
	for (int reopened = 0; reopened < 2; reopened++) {
		EXPECT_EQ(SERIES_PER_PROCESS_MAX + 1, stats_of(&scene).series, "series");
		dump_store(scene.store, "{service=\"s\"}", all_time, SCAN_SUMS, &dump);
		EXPECT_EQ(COUNT, dump.lines[0].value, "the sum is right");
		dump_deinit(&dump);
		dump_store(scene.store, "{other=\"process\"}", all_time, SCAN_SERIES_SUMS, &dump);
		EXPECT_EQ(EXCESS, dump.lines[0].value, "the excess");
		assert_string_equal("node=n,other=process,process=p,service=s main",
				    dump.lines[0].text);
		dump_deinit(&dump);
		scene_reopen(&scene);
	}
	// The quota holds after a restart, and only for this process.
	result = append_threads(&scene, 2, "node=n,process=p,service=s", 90000, 10);
	EXPECT_EQ(10, result.rows_other, "new threads of it");
	result = append_threads(&scene, 3, "node=n,process=q,service=t", 90000, 10);
	EXPECT_EQ(0, result.rows_other, "of another");
	result = append_threads(&scene, 4, "node=n,process=p,service=s", 0, 10);
	EXPECT_EQ(0, result.rows_other, "series that are there");
	EXPECT_EQ(10, stats_of(&scene).rows_other, "counted since the start");
	EXPECT_EQ(SERIES_PER_PROCESS_MAX + 11, stats_of(&scene).series, "series of both");
	scene_end(&scene);
}

// ---- the clock --------------------------------------------------------------------------------------

static void maintain_now(struct scene *scene)
{
	assert_int_equal(0, store_maintain(scene->store, double_realtime_ns(), NULL));
}

#define HOURS_NS(hours) ((hours)*3600LL * (int64_t)NS_PER_SECOND)

/** A profile of the true time, as agents send it. */
static int append_true_time(struct scene *scene, uint64_t sequence,
			    struct store_append_result *ret_result, struct error *err)
{
	struct store_batch_id batch = batch_of(1, sequence);
	struct profile *profile = test_profile();

	profile->to_ns = clock_realtime_ns();
	profile->from_ns = profile->to_ns - 5 * NS_PER_SECOND;
	add_text(profile, "service=a", profile->from_ns, "main", 1);
	int rc = store_append(scene->store, &batch, profile, ret_result, err);
	profile_free(profile);
	return rc;
}

TEST(a_clock_that_jumps_deletes_nothing)
{
	struct scene scene;
	struct store_append_result result;
	struct error err = { 0 };
	struct store_health health;

	clock_reset();
	scene_begin(&scene, (struct store_options){ .retention_ns = (uint64_t)HOURS_NS(7 * 24),
						    .clock = &clock_double });
	append_text(scene.store, 2, 1, "service=a", hour_ns(-20), "main", 1);
	maintain_now(&scene);
	realtime_ahead_ns = HOURS_NS(8 * 24);
	maintain_now(&scene);
	EXPECT_EQ(1, stats_of(&scene).partitions, "8 days ahead");
	EXPECT_EQ(1, stats_of(&scene).clock_doubted, "in doubt");
	store_read_health(scene.store, &health);
	assert_non_null(strstr(health.clock, "it jumped by +691200 s (limit 300 s)"));
	// What agents send now looks old: they keep it.
	EXPECT_EQ(-EAGAIN, append_true_time(&scene, 1, &result, &err), "asked to come again");
	assert_non_null(strstr(err.text, "clock is in doubt"));
	realtime_ahead_ns = 0;
	maintain_now(&scene);
	store_read_health(scene.store, &health);
	assert_string_equal("", health.clock);
	EXPECT_EQ(0, stats_of(&scene).clock_doubted, "back");
	EXPECT_EQ(0, append_true_time(&scene, 1, &result, &err), "stored");
	scene_end(&scene);
}

/** One batch of each of @count agents, all of one sender where @clock is not 0. */
static void append_of_agents(struct scene *scene, uint64_t first, uint64_t count, uint64_t clock,
			     int64_t ahead_ns)
{
	for (uint64_t agent = first; agent < first + count; agent++) {
		struct store_batch_id batch = batch_of(agent, 1);
		struct profile *profile = test_profile();
		struct store_append_result result;
		struct error err = { 0 };

		if (clock)
			batch.clock = (struct id128){ clock, 3 };
		profile->to_ns = clock_realtime_ns() + (uint64_t)ahead_ns;
		profile->from_ns = profile->to_ns - 5 * NS_PER_SECOND;
		add_text(profile, "service=a", profile->from_ns, "main", 1);
		assert_int_equal(0, store_append(scene->store, &batch, profile, &result, &err));
		profile_free(profile);
	}
}

TEST(invented_agents_have_one_vote_on_time)
{
	struct scene scene;

	clock_reset();
	scene_begin(&scene, (struct store_options){ .clock = &clock_double });
	append_of_agents(&scene, 1, 3, 0, 0);
	append_of_agents(&scene, 100, 100, 1, HOURS_NS(1) / 2);
	maintain_now(&scene);
	EXPECT_EQ(0, stats_of(&scene).clock_doubted, "one sender's hundred agents");
	append_of_agents(&scene, 200, 100, 0, HOURS_NS(1) / 2);
	maintain_now(&scene);
	EXPECT_EQ(1, stats_of(&scene).clock_doubted, "a hundred senders");
	scene_end(&scene);
}

TEST(a_clock_behind_keeps_batches_waiting)
{
	struct scene scene;
	struct store_append_result result;
	struct error err = { 0 };

	clock_reset();
	scene_begin(&scene, (struct store_options){ .clock = &clock_double });
	EXPECT_EQ(0, append_true_time(&scene, 1, &result, &err), "stored");
	maintain_now(&scene);
	realtime_ahead_ns = HOURS_NS(-2);
	for (int reopened = 0; reopened < 2; reopened++) { // by the monotonic clock; by the mark
		EXPECT_EQ(-EAGAIN, append_true_time(&scene, 2, &result, &err), "2 h behind");
		EXPECT_EQ(1, stats_of(&scene).clock_doubted, "in doubt");
		scene_reopen(&scene);
	}
	realtime_ahead_ns = 0;
	EXPECT_EQ(0, append_true_time(&scene, 2, &result, &err), "stored");
	EXPECT_EQ(0, result.rows_future + result.rows_late, "whole");
	scene_end(&scene);
}

TEST(a_clock_after_a_long_stop_needs_confirmation)
{
	struct scene scene;
	struct store_append_result result;
	struct error err = { 0 };

	for (int accepted = 0; accepted < 2; accepted++) {
		clock_reset();
		realtime_ahead_ns = HOURS_NS(-100);
		scene_begin(&scene, (struct store_options){ .retention_ns = (uint64_t)HOURS_NS(24),
							    .clock = &clock_double });
		append_text(scene.store, 2, 1, "service=a", hour_ns(-100), "main", 1);
		maintain_now(&scene);
		realtime_ahead_ns = 0;
		scene.options.accept_clock = accepted;
		scene_reopen(&scene);
		maintain_now(&scene);
		EXPECT_EQ(accepted ? 0 : 1, stats_of(&scene).partitions, "100 h later");
		if (!accepted) {
			EXPECT_EQ(0, append_true_time(&scene, 1, &result, &err), "an agent agrees");
			maintain_now(&scene);
			EXPECT_EQ(1, stats_of(&scene).partitions, "only the new one");
			EXPECT_EQ(0, stats_of(&scene).clock_doubted, "confirmed");
		}
		scene_end(&scene);
	}
}

TEST(refuses_rows_out_of_range_by_name)
{
	struct scene scene;
	struct store_append_result result;
	struct store_batch_id batch = batch_of(1, 1);
	struct profile *profile = test_profile();
	uint64_t now_ns = clock_realtime_ns(), hour = (uint64_t)HOURS_NS(1);

	scene_begin(&scene, (struct store_options){ .retention_ns = 24 * hour });
	add_text(profile, "service=a", now_ns, "main", 1);
	add_text(profile, "service=a", now_ns - 30 * hour, "main", 1);
	add_text(profile, "service=a", now_ns + 2 * hour, "main", 1);
	add_text(profile, "service=a", now_ns + 3 * hour, "main", 1);
	assert_int_equal(0, store_append(scene.store, &batch, profile, &result, NULL));
	EXPECT_EQ(1, result.rows_late, "late");
	EXPECT_EQ(2, result.rows_future, "of the future");
	assert_true(result.accepted.from_ns > now_ns - 25 * hour);
	assert_true(result.accepted.to_ns > now_ns && result.accepted.to_ns < now_ns + 2 * hour);
	EXPECT_EQ(1, stats_of(&scene).rows_appended, "stored");
	profile_free(profile);
	scene_end(&scene);
}

TEST(retention_drops_a_day_an_hour)
{
	struct scene scene;

	clock_reset();
	scene_begin(&scene, (struct store_options){ .retention_ns = (uint64_t)HOURS_NS(1000),
						    .clock = &clock_double });
	for (int i = 0; i < 30; i++)
		append_text(scene.store, 1, (uint64_t)i + 1, "service=a", hour_ns(-40 + i), "main",
			    1);
	clock_pass((uint64_t)HOURS_NS(1000));
	maintain_now(&scene);
	maintain_now(&scene);
	EXPECT_EQ(6, stats_of(&scene).partitions, "24 are gone");
	EXPECT_EQ(2, stats_of(&scene).retention_put_off, "counted");
	clock_pass((uint64_t)HOURS_NS(1));
	maintain_now(&scene);
	EXPECT_EQ(0, stats_of(&scene).partitions, "an hour later");
	scene_end(&scene);
}

TEST(retention_drops_whole_partitions)
{
	struct scene scene;
	struct dump dump;
	uint64_t hour = 3600 * NS_PER_SECOND;

	clock_reset();
	scene_begin(&scene,
		    (struct store_options){ .retention_ns = 1000 * hour, .clock = &clock_double });
	for (int i = 0; i < 4; i++)
		append_text(scene.store, 1, (uint64_t)i + 1, "service=a", hour_ns(-10 + i),
			    "main;f", 1 << i);
	scene_flush(&scene);
	append_text(scene.store, 1, 5, "service=a", hour_ns(-9), "main;f", 1 << 4); // open
	EXPECT_EQ(4, stats_of(&scene).partitions, "before");
	clock_pass(hour_ns(-8) + 1000 * hour - clock_realtime_ns());
	maintain_now(&scene);
	for (int reopened = 0; reopened < 2; reopened++) {
		EXPECT_EQ(2, stats_of(&scene).partitions, "after");
		EXPECT_EQ(hour_ns(-8), stats_of(&scene).oldest_ns, "oldest");
		EXPECT_EQ(hour_ns(-7), stats_of(&scene).newest_ns, "newest");
		dump_store(scene.store, "{}", all_time, SCAN_SUMS, &dump);
		EXPECT_EQ(12, dump.lines[0].value, "sum of what is left");
		dump_deinit(&dump);
		scene_reopen(&scene);
	}
	// A stack of a dropped partition is still known to the one after it.
	struct profile *profile = test_profile();
	add_known(profile, "service=a", hour_ns(-6), "main;f", 1);
	append_profile(scene.store, 1, 6, profile);
	scene_end(&scene);
}

TEST(a_refused_batch_leaves_no_partition)
{
	struct scene scene;
	struct profile *profile = test_profile();
	struct store_batch_id batch = batch_of(1, 1);
	struct store_append_result result;

	scene_begin(&scene, (struct store_options){ 0 });
	append_text(scene.store, 2, 1, "service=a", 0, "main;f", 1); // the epoch is a time too
	add_known(profile, "service=a", hour_ns(0), "main;unknown", 1);
	assert_int_equal(0, store_append(scene.store, &batch, profile, &result, NULL));
	EXPECT_EQ(1, result.unknown_stack_count, "unknown");
	free(result.unknown_stacks);
	EXPECT_EQ(2, stats_of(&scene).partitions, "before");
	assert_int_equal(0, store_maintain(scene.store, clock_realtime_ns(), NULL));
	EXPECT_EQ(1, stats_of(&scene).partitions, "after");
	profile_free(profile);
	scene_end(&scene);
}

TEST(a_selection_outlives_its_partition)
{
	struct scene scene;
	struct selector selector = selector_of("{}");
	struct store_selection *selection;
	struct dump dump = { 0 };
	struct store_scanner scanner = { .context = &dump,
					 .partition = dump_partition,
					 .rows = dump_rows };

	clock_reset();
	scene_begin(&scene, (struct store_options){ .retention_ns = (uint64_t)HOURS_NS(1000),
						    .clock = &clock_double });
	append_text(scene.store, 1, 1, "service=a", hour_ns(0), "main", 1);
	assert_int_equal(0, store_select(scene.store, &selector, NULL, all_time, &selection, NULL));
	EXPECT_EQ(1, selection->series_count, "series");
	clock_pass(hour_ns(1001) - clock_realtime_ns());
	maintain_now(&scene);
	assert_int_equal(0, store_scan(scene.store, selection, all_time, &scanner, NULL));
	EXPECT_EQ(0, dump.count, "rows");
	store_selection_free(selection);
	selector_deinit(&selector);
	scene_end(&scene);
}

TEST(works_with_little_memory)
{
	struct scene scene;
	struct model model = { .random = 3 };
	char stack[256];

	scene_begin(&scene, (struct store_options){ .memory_bytes = 32 << 20 });
	for (uint64_t i = 1; i <= 12; i++)
		append_profile(
			scene.store, 1, i,
			model_batch(&model, 300, hour_ns((int)i % 6 - 5), 60 * NS_PER_SECOND));
	// Dictionaries of about 10 MB each: not all fit at once.
	for (uint64_t i = 0; i < 6; i++) {
		struct profile *profile = test_profile();

		for (uint32_t j = 0; j < 30000; j++) {
			sprintf(stack, "main;big%u;leaf%u", j % 100, j);
			add_text(profile, "service=big", hour_ns((int)i - 5), stack, 1);
		}
		append_profile(scene.store, 2, i + 1, profile);
		assert_int_equal(0, store_maintain(scene.store, clock_realtime_ns(), NULL));
	}
	scene_flush(&scene);
	for (int i = 0; i < 3; i++) {
		expect_model(&model, scene.store, "{service=~\"s.*\"}", all_time, "evicted");
		assert_int_equal(0, store_maintain(scene.store, clock_realtime_ns(), NULL));
		uint64_t memory = stats_of(&scene).memory_bytes;
		if (memory > 32 << 20)
			fail_msg("%llu bytes of memory", (unsigned long long)memory);
	}
	model_deinit(&model);
	scene_end(&scene);
}

TEST(writes_rollups_where_they_save_rows)
{
	struct scene scene;
	struct model model = { .random = 4 };
	struct dump sums, grouped, rows;

	scene_begin(&scene, (struct store_options){ 0 });
	for (uint64_t i = 1; i <= 30; i++)
		append_profile(scene.store, 1, i,
			       model_batch(&model, 1000, hour_ns(0), 2 * NS_PER_SECOND));
	scene_flush(&scene);
	dump_store(scene.store, "{}", all_time, SCAN_ROWS, &rows);
	dump_store(scene.store, "{}", all_time, SCAN_SUMS, &sums);
	dump_store(scene.store, "{}", all_time, DUMP_SERVICE_SUMS, &grouped);
	EXPECT_EQ(sums.row_count, grouped.row_count, "sums of services, which are groups");
	if (sums.row_count * 16 > rows.row_count)
		fail_msg("%llu sums were read for %llu rows", (unsigned long long)sums.row_count,
			 (unsigned long long)rows.row_count);
	dump_deinit(&sums);
	dump_deinit(&grouped);
	dump_deinit(&rows);
	model_deinit(&model);
	scene_end(&scene);
}

RUN_TESTS(cmocka_unit_test(a_batch_brings_its_tenants_limit), CONFORMANCE_TESTS, INTERVAL_TESTS,
	  cmocka_unit_test(refuses_a_store_of_another_format),
	  cmocka_unit_test(opens_a_newer_store_that_says_it_may),
	  cmocka_unit_test(leaves_foreign_folders_alone),
	  cmocka_unit_test(names_the_user_that_may_not_write),
	  cmocka_unit_test(refuses_a_second_process),
	  cmocka_unit_test(makes_a_lost_list_of_files_again),
	  cmocka_unit_test(refuses_options_that_contradict_the_store),
	  cmocka_unit_test(closes_a_minute_90_seconds_after_its_end),
	  cmocka_unit_test(nobody_acknowledges_in_anothers_name),
	  cmocka_unit_test(refuses_leaps_of_the_sequence),
	  cmocka_unit_test(refuses_selectors_without_a_tenant),
	  cmocka_unit_test(closes_a_large_minute_in_portions),
	  cmocka_unit_test(excess_of_a_process_goes_to_one_series),
	  cmocka_unit_test(a_clock_that_jumps_deletes_nothing),
	  cmocka_unit_test(invented_agents_have_one_vote_on_time),
	  cmocka_unit_test(a_clock_behind_keeps_batches_waiting),
	  cmocka_unit_test(a_clock_after_a_long_stop_needs_confirmation),
	  cmocka_unit_test(refuses_rows_out_of_range_by_name),
	  cmocka_unit_test(retention_drops_a_day_an_hour),
	  cmocka_unit_test(retention_drops_whole_partitions),
	  cmocka_unit_test(a_refused_batch_leaves_no_partition),
	  cmocka_unit_test(a_selection_outlives_its_partition),
	  cmocka_unit_test(works_with_little_memory),
	  cmocka_unit_test(writes_rollups_where_they_save_rows))
