// SPDX-License-Identifier: Apache-2.0
// Deleted series are never shown again, everything else stays exact, and the files lose them.
#include "tests/unit/collector/store/store_model.h"

#include <fcntl.h>
#include <pthread.h>

#include "collector/store/rocksdb/key.h"
#include "collector/store/rocksdb/rocksdb.h"
#include "collector/store/rocksdb/tombstone.h"

#define MINUTE (60 * NS_PER_SECOND)

/** A store in a directory of its own. */
struct scene {
	char path[64];
	struct store *store;
};

static void open_scene(struct scene *scene)
{
	struct store_options options = { .path = scene->path };
	struct error err = { 0 };

	if (rocksdb_store_open(&options, &scene->store, &err) < 0)
		fail_msg("open: %s", err.text);
}

static void begin(struct scene *scene)
{
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

	if (store_maintain(scene->store, clock_realtime_ns(), &err) < 0)
		fail_msg("maintain: %s", err.text);
}

static struct store_stats stats_of(const struct scene *scene)
{
	struct store_stats stats;

	store_read_stats(scene->store, &stats);
	return stats;
}

static void rewrite_all(struct scene *scene)
{
	for (int i = 0; stats_of(scene).tombstones; i++) {
		if (i == 10000)
			fail_msg("%llu tombstones are left",
				 (unsigned long long)stats_of(scene).tombstones);
		maintain(scene);
	}
}

static int delete_text(struct scene *scene, const char *text, struct time_range range,
		       struct store_deletion *ret_deletion, struct error *err)
{
	struct selector selector = selector_of(text);
	int rc = store_delete(scene->store, &selector, range, ret_deletion, err);

	selector_deinit(&selector);
	return rc;
}

static struct store_deletion delete_series(struct scene *scene, const char *text,
					   struct time_range range)
{
	struct store_deletion deletion = { 0 };
	struct error err = { 0 };

	if (delete_text(scene, text, range, &deletion, &err) < 0)
		fail_msg("delete %s: %s", text, err.text);
	return deletion;
}

static uint64_t check_damage;

static void note_damage(void *context, uint64_t start_ns, const char *text)
{
	(void)context;
	fprintf(stderr, "damage in %llu: %s\n", (unsigned long long)start_ns, text);
	check_damage++;
}

static void ignore_progress(void *context, uint64_t start_ns, uint32_t count,
			    const struct store_check *found)
{
	(void)context, (void)start_ns, (void)count, (void)found;
}

/** The closed store agrees with itself. Returns what it has. */
static struct store_check check(struct scene *scene)
{
	const struct store_checker checker = { .damage = note_damage, .progress = ignore_progress };
	struct store_check found = { 0 };

	store_close(scene->store);
	check_damage = 0;
	assert_int_equal(0, rocksdb_store_check(scene->path, &checker, &found, NULL));
	EXPECT_EQ(0, check_damage, "damage");
	open_scene(scene);
	return found;
}

static uint64_t sum_of(struct scene *scene, const char *selector)
{
	struct dump dump;
	uint64_t sum = 0;

	dump_store(scene->store, selector, all_time, SCAN_SUMS, &dump);
	for (uint32_t i = 0; i < dump.count; i++)
		sum += (uint64_t)dump.lines[i].value;
	dump_deinit(&dump);
	return sum;
}

static void expect_values(struct scene *scene, const char *name, const char *expected)
{
	struct selector selector = selector_of("{}");
	struct name_list list = { 0 };
	char found[512] = "";

	assert_int_equal(0,
			 store_label_values(scene->store, name, &selector, all_time, &list, NULL));
	for (uint32_t i = 0; i < list.count; i++)
		sprintf(found + strlen(found), "%s%s", i ? " " : "", list.names[i]);
	assert_string_equal(expected, found);
	name_list_deinit(&list);
	selector_deinit(&selector);
}

// ---- random deletions ---------------------------------------------------------------------------------

enum { MODEL_MINUTES = 12 }; // over a partition's end

static const char *const selectors[] = {
	"{}",
	"{service=\"s1\"}",
	"{node=~\"n[13]\"}",
	"{service=\"s2\",node!=\"n0\"}",
	"{thread=~\"t(1|7|39)\"}",
	"{thread=\"t5\"}",
	"{service!~\"s.*\"}",
};

static void model_delete(struct model *model, const char *text, struct time_range range)
{
	struct selector selector = selector_of(text);
	uint32_t kept = 0;

	for (uint32_t i = 0; i < model->count; i++) {
		const struct model_sample *sample = &model->samples[i];
		uint64_t time_ns = sample->slot * TEST_SLOT_NS;

		if (time_ns < range.from_ns || time_ns >= range.to_ns ||
		    !model_matches(sample->series, &selector))
			model->samples[kept++] = *sample;
	}
	model->count = kept;
	selector_deinit(&selector);
}

/** The series that a selection of everything has are those with samples. */
static void expect_series(const struct model *model, struct scene *scene, const char *what)
{
	struct selector selector = selector_of("{}");
	bool has[MODEL_SERIES] = { false };
	struct name_list list = { 0 };
	uint32_t expected = 0;

	for (uint32_t i = 0; i < model->count; i++)
		has[model->samples[i].series] = true;
	for (uint32_t i = 0; i < MODEL_SERIES; i++)
		expected += has[i];
	assert_int_equal(
		0, store_label_values(scene->store, "thread", &selector, all_time, &list, NULL));
	EXPECT_EQ(expected, list.count, what);
	for (uint32_t i = 0; i < list.count; i++)
		EXPECT_EQ(true, has[atoi(list.names[i] + 1)], list.names[i]);
	name_list_deinit(&list);
	selector_deinit(&selector);
}

static void expect_all(struct model *model, struct scene *scene, uint64_t from_ns, const char *what)
{
	uint64_t length_ns = MODEL_MINUTES * MINUTE;

	expect_series(model, scene, what);
	for (int i = 0; i < 3; i++) {
		const char *selector =
			selectors[i ? model_random(model, ARRAY_SIZE(selectors)) : 0];
		uint64_t from = from_ns +
				model_random(model, (uint32_t)(length_ns / NS_PER_MS)) * NS_PER_MS;
		struct time_range range = { from,
					    from + 1 + model_random(model, 400) * NS_PER_SECOND };

		expect_model(model, scene->store, selector, i ? range : all_time, what);
		range.to_ns += 10 * NS_PER_SECOND;
		expect_activity(model, scene->store, selector, range,
				i == 1 ? 5 * NS_PER_SECOND : TEST_SLOT_NS, i == 1, what);
	}
}

static void delete_at_random(struct model *model, struct scene *scene, uint64_t from_ns)
{
	const char *selector = selectors[1 + model_random(model, ARRAY_SIZE(selectors) - 1)];
	struct time_range range = all_time;

	if (model_random(model, 3)) {
		range.from_ns = from_ns + model_random(model, MODEL_MINUTES) * MINUTE;
		range.to_ns = range.from_ns + (1 + model_random(model, 4)) * MINUTE;
	}
	delete_series(scene, selector, range);
	model_delete(model, selector, range);
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

static void run_at_random(uint64_t seed, uint32_t length_max)
{
	struct model model = { .random = seed, .length_max = length_max };
	uint64_t from_ns = hour_ns(0) + 3600 * NS_PER_SECOND - MODEL_MINUTES / 2 * MINUTE;
	uint64_t sequence = 0;
	char what[64];
	struct scene scene;

	begin(&scene);
	for (int i = 0; i < 40; i++) {
		uint32_t step = model_random(&model, 12);

		sprintf(what, "seed %llu, step %d (%u)", (unsigned long long)seed, i, step);
		if (step < 5)
			append_at_random(&model, &scene, ++sequence, from_ns, step < 3);
		else if (step < 7)
			flush(&scene);
		else if (step < 9)
			delete_at_random(&model, &scene, from_ns);
		else if (step < 10)
			maintain(&scene);
		else if (step < 11)
			reopen(&scene);
		if (step >= 7)
			expect_all(&model, &scene, from_ns, what);
	}
	delete_at_random(&model, &scene, from_ns);
	rewrite_all(&scene);
	expect_all(&model, &scene, from_ns, "rewritten");
	check(&scene);
	flush(&scene);
	expect_all(&model, &scene, from_ns, "rewritten, closed and opened again");
	check(&scene);
	model_deinit(&model);
	end(&scene);
}

TEST(deletions_equal_brute_force)
{
	for (uint64_t seed = 1; seed <= 5; seed++)
		run_at_random(seed, seed % 2 ? 0 : 200);
}

/** More rows than a chunk has, of few stacks: sums by node are stored beside them. */
static void add_many(struct model *model, struct profile *profile, uint32_t series,
		     uint64_t from_ns, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct model_sample sample = { .series = series,
					       .stack = i % 12,
					       .slot = from_ns / TEST_SLOT_NS + i / 12,
					       .value = 1 + i % 7 };

		model_add_to_profile(&sample, profile);
		model_add(model, &sample);
	}
}

TEST(a_chunk_that_stays_counts_in_new_sums)
{
	struct model model = { .random = 1 };
	struct profile *profile = test_profile();
	uint64_t from_ns = hour_ns(0);
	struct scene scene;

	begin(&scene);
	add_many(&model, profile, 0, from_ns, 33000); // fills a chunk
	add_many(&model, profile, 3, from_ns, 500);   // the same service's second chunk
	add_many(&model, profile, 6, from_ns, 500);
	append_profile(scene.store, 1, 1, profile);
	flush(&scene);
	delete_series(&scene, "{thread=\"t3\"}", all_time);
	model_delete(&model, "{thread=\"t3\"}", all_time);
	rewrite_all(&scene);
	expect_model(&model, scene.store, "{}", all_time, "rewritten");
	expect_model(&model, scene.store, "{service=\"s0\"}", all_time, "rewritten");
	check(&scene);
	model_deinit(&model);
	end(&scene);
}

// ---- what a user sees -----------------------------------------------------------------------------------

static void append_two_tenants(struct scene *scene, uint64_t sequence, uint64_t time_ns)
{
	struct profile *profile = test_profile();

	add_text(profile, "service=web,tenant=blue", time_ns, "main;f", 3);
	add_text(profile, "service=web,tenant=red", time_ns, "main;f", 5);
	add_text(profile, "service=db,tenant=red", time_ns, "main;g", 7);
	append_profile(scene->store, 1, sequence, profile);
}

TEST(a_deleted_tenant_is_gone_at_once)
{
	uint64_t time_ns = hour_ns(0);
	struct scene scene;

	begin(&scene);
	append_two_tenants(&scene, 1, time_ns); // closed
	flush(&scene);
	append_two_tenants(&scene, 2, time_ns + NS_PER_SECOND); // open
	append_two_tenants(&scene, 3, time_ns + 3600 * NS_PER_SECOND);
	struct store_deletion deletion = delete_series(&scene, "{tenant=\"red\"}", all_time);
	EXPECT_EQ(2, deletion.series, "series");
	EXPECT_EQ(2, deletion.partitions, "hours");
	for (int i = 0; i < 4; i++) {
		EXPECT_EQ(9, sum_of(&scene, "{}"), "what is left");
		EXPECT_EQ(0, sum_of(&scene, "{tenant=\"red\"}"), "the tenant");
		expect_values(&scene, "tenant", "blue");
		expect_values(&scene, "service", "web");
		if (i == 0)
			reopen(&scene);
		else if (i == 1)
			flush(&scene);
		else
			rewrite_all(&scene);
	}
	EXPECT_EQ(3, check(&scene).rows, "rows on disk");
	deletion = delete_series(&scene, "{tenant=\"red\"}", all_time);
	EXPECT_EQ(0, deletion.series, "nothing is left to delete");
	EXPECT_EQ(0, stats_of(&scene).tombstones, "tombstones of nothing");
	end(&scene);
}

TEST(later_batches_of_deleted_series_are_shown)
{
	uint64_t time_ns = hour_ns(0);
	struct scene scene;

	begin(&scene);
	append_two_tenants(&scene, 1, time_ns);
	delete_series(&scene, "{}", all_time);
	append_two_tenants(&scene, 2, time_ns);
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(15, sum_of(&scene, "{}"), "of the second batch");
		expect_values(&scene, "tenant", "blue red");
		if (i == 0)
			reopen(&scene);
		else
			rewrite_all(&scene);
	}
	append_two_tenants(&scene, 3, time_ns);
	EXPECT_EQ(30, sum_of(&scene, "{}"), "of the second and the third batch");
	delete_series(&scene, "{tenant=\"red\"}", all_time);
	rewrite_all(&scene);
	append_two_tenants(&scene, 4, time_ns); // under labels that are gone from the files
	flush(&scene);
	reopen(&scene);
	EXPECT_EQ(3 * 3 + 12, sum_of(&scene, "{}"), "of three batches, one of them whole");
	expect_values(&scene, "tenant", "blue red");
	check(&scene);
	end(&scene);
}

TEST(refuses_parts_of_minutes)
{
	const struct time_range ranges[] = {
		{ 1, UINT64_MAX },
		{ 0, MINUTE + 1 },
		{ MINUTE, MINUTE },
		{ 2 * MINUTE, MINUTE },
	};
	struct store_deletion deletion;
	struct scene scene;

	begin(&scene);
	for EACH (range, ranges) {
		struct error err = { 0 };

		EXPECT_EQ(-EINVAL, delete_text(&scene, "{}", *range, &deletion, &err), "rc");
		assert_non_null(strstr(err.text, "whole minutes"));
	}
	end(&scene);
}

TEST(more_deletions_wait_for_the_rewrite)
{
	uint64_t time_ns = hour_ns(0) / MINUTE * MINUTE;
	struct store_deletion deletion;
	struct error err = { 0 };
	struct scene scene;

	begin(&scene);
	for (uint64_t i = 0; i <= TOMBSTONES_MAX; i++) {
		char labels[64];

		sprintf(labels, "service=s%llu", (unsigned long long)i);
		append_text(scene.store, 1, i + 1, labels, time_ns, "main", 1);
	}
	for (int i = 0; i < TOMBSTONES_MAX; i++) {
		char selector[64];

		sprintf(selector, "{service=\"s%d\"}", i);
		delete_series(&scene, selector, all_time);
	}
	EXPECT_EQ(TOMBSTONES_MAX, stats_of(&scene).tombstones, "tombstones");
	EXPECT_EQ(-EAGAIN, delete_text(&scene, "{}", all_time, &deletion, &err), "one more");
	assert_non_null(strstr(err.text, "too many deletions wait for their rewrite"));
	EXPECT_EQ(1, sum_of(&scene, "{}"), "what it did not delete");
	reopen(&scene);
	EXPECT_EQ(1, sum_of(&scene, "{}"), "and after a restart");
	rewrite_all(&scene);
	EXPECT_EQ(1, delete_series(&scene, "{}", all_time).series, "after the rewrite");
	EXPECT_EQ(0, sum_of(&scene, "{}"), "all is deleted");
	end(&scene);
}

// ---- at the same time -----------------------------------------------------------------------------------

enum { WRITERS = 3, WRITER_BATCHES = 60, WRITER_ROWS = 20 };

struct writer {
	struct store *store;
	uint64_t agent;
	_Atomic uint32_t *left; // writers that are not done
};

/** Rows of both tenants, under new labels now and then. */
static void *write_batches(void *argument)
{
	const struct writer *writer = argument;
	char labels[80], stack[32];

	for (uint64_t i = 1; i <= WRITER_BATCHES; i++) {
		uint64_t time_ns = hour_ns(0) + i * 2 * NS_PER_SECOND;
		struct profile *profile = test_profile();

		for (uint64_t j = 0; j < WRITER_ROWS; j++) {
			sprintf(stack, "main;f%llu", (unsigned long long)(i * j % 13));
			sprintf(labels, "service=web,tenant=blue,thread=t%llu",
				(unsigned long long)(i / 7 % 3));
			add_text(profile, labels, time_ns, stack, 1);
			sprintf(labels, "service=web,tenant=red,thread=t%llu",
				(unsigned long long)(writer->agent * 100 + i / 5));
			add_text(profile, labels, time_ns, stack, 1000);
		}
		append_profile(writer->store, writer->agent, i, profile);
	}
	atomic_fetch_sub(writer->left, 1);
	return NULL;
}

static void *read_sums(void *argument)
{
	const struct writer *writer = argument;
	struct scene scene = { .store = writer->store };

	for (uint64_t before = 0, now; atomic_load(writer->left); before = now) {
		now = sum_of(&scene, "{tenant=\"blue\"}");
		if (now < before || now % WRITER_ROWS)
			fail_msg("blue has %llu rows after %llu", (unsigned long long)now,
				 (unsigned long long)before);
	}
	return NULL;
}

TEST(deletions_run_beside_batches_and_queries)
{
	_Atomic uint32_t left = WRITERS;
	struct writer writers[WRITERS];
	pthread_t threads[WRITERS], reader;
	struct scene scene;

	begin(&scene);
	for (int i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){ scene.store, (uint64_t)i + 1, &left };
		assert_int_equal(0, pthread_create(&threads[i], NULL, write_batches, &writers[i]));
	}
	assert_int_equal(0, pthread_create(&reader, NULL, read_sums, &writers[0]));
	for (int i = 0; atomic_load(&left); i++) {
		struct store_deletion deletion;
		int rc = delete_text(&scene, "{tenant=\"red\"}", all_time, &deletion, NULL);

		// Batches in flight may delay the rewrite until there is no room for one more.
		EXPECT_EQ(true, rc == 0 || rc == -EAGAIN, "rc");
		if (i % 3 == 0)
			flush(&scene);
		maintain(&scene);
	}
	for (int i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	pthread_join(reader, NULL);
	delete_series(&scene, "{tenant=\"red\"}", all_time);
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(WRITERS * WRITER_BATCHES * WRITER_ROWS, sum_of(&scene, "{}"), "blue's");
		expect_values(&scene, "tenant", "blue");
		expect_values(&scene, "thread", "t0 t1 t2");
		if (i == 0)
			rewrite_all(&scene);
		else
			check(&scene);
	}
	end(&scene);
}

// ---- what is on disk --------------------------------------------------------------------------------------

static bool has_bytes(const void *bytes, size_t size, const char *text)
{
	return memmem(bytes, size, text, strlen(text)) != NULL;
}

/** Is @text in one of the files? Compressed blocks do not show it, the write-ahead log does. */
static bool is_in_files(const struct scene *scene, const char *text)
{
	DIR *directory = opendir(scene->path);
	struct dirent *entry;
	bool found = false;

	while ((entry = readdir(directory))) {
		static char bytes[8 << 20];
		int fd = openat(dirfd(directory), entry->d_name, O_RDONLY | O_CLOEXEC);
		ssize_t size = fd < 0 ? 0 : read(fd, bytes, sizeof(bytes));

		found = found || (size > 0 && has_bytes(bytes, (size_t)size, text));
		close(fd);
	}
	closedir(directory);
	return found;
}

/** Is @text in a value of the database, or in one of its files? */
static bool is_on_disk(struct scene *scene, const char *text)
{
	struct bytes from = { "", 0 }, to = { "\xff\xff\xff\xff\xff\xff\xff\xff\xff", 9 };
	struct db *db;
	bool found = is_in_files(scene, text);

	store_close(scene->store);
	assert_int_equal(0, db_open(scene->path, 64 << 20, DB_READ_ONLY, &db, NULL));
	for (int family = 0; family < DB_FAMILY_COUNT; family++) {
		struct db_iterator *iterator = db_iterator_open(db, family, from, to, false);

		while (db_iterator_next(iterator)) {
			struct bytes value = db_iterator_value(iterator);

			found = found || has_bytes(value.at, value.size, text);
		}
		db_iterator_freep(&iterator);
	}
	db_close(db);
	open_scene(scene);
	return found;
}

TEST(deleted_labels_leave_the_files)
{
	uint64_t time_ns = hour_ns(0);
	struct scene scene;

	begin(&scene);
	append_text(scene.store, 1, 1, "service=s3cr3tservice,thread=password=hunter2", time_ns,
		    "main", 1);
	append_text(scene.store, 1, 2, "service=web,thread=worker", time_ns, "main", 2);
	flush(&scene);
	append_text(scene.store, 1, 3, "service=s3cr3tservice,thread=password=hunter3", time_ns,
		    "main", 4);
	EXPECT_EQ(true, is_in_files(&scene, "hunter2"), "in the log");
	delete_series(&scene, "{thread=~\"password.*\"}", all_time);
	append_text(scene.store, 1, 4, "service=web,thread=worker", time_ns + 3600 * NS_PER_SECOND,
		    "main", 8); // of an hour that is not rewritten
	rewrite_all(&scene);
	EXPECT_EQ(false, is_on_disk(&scene, "hunter2"), "a closed minute's label");
	EXPECT_EQ(false, is_on_disk(&scene, "hunter3"), "an open minute's label");
	EXPECT_EQ(false, is_on_disk(&scene, "s3cr3t"), "the service");
	EXPECT_EQ(true, is_on_disk(&scene, "worker"), "others' labels");
	EXPECT_EQ(10, sum_of(&scene, "{}"), "others' rows");
	EXPECT_EQ(2, check(&scene).rows, "rows");
	end(&scene);
}

TEST(a_later_backup_has_nothing_deleted)
{
	char folder[80], restored[80];
	struct scene scene, copy;
	struct error err = { 0 };

	begin(&scene);
	append_two_tenants(&scene, 1, hour_ns(0));
	flush(&scene);
	delete_series(&scene, "{tenant=\"red\"}", all_time);
	sprintf(folder, "%s-backup", scene.path);
	sprintf(restored, "%s-restored", scene.path);
	if (store_backup(scene.store, folder, &err) < 0)
		fail_msg("backup: %s", err.text);
	assert_int_equal(0, rocksdb_store_restore(folder, restored, NULL));
	strcpy(copy.path, restored);
	open_scene(&copy);
	EXPECT_EQ(3, sum_of(&copy, "{}"), "before the rewrite");
	rewrite_all(&copy);
	EXPECT_EQ(3, sum_of(&copy, "{}"), "rewritten");
	end(&copy);
	char command[128];
	sprintf(command, "rm -rf %s", folder);
	assert_int_equal(0, system(command));
	end(&scene);
}

RUN_TESTS(cmocka_unit_test(deletions_equal_brute_force),
	  cmocka_unit_test(a_chunk_that_stays_counts_in_new_sums),
	  cmocka_unit_test(a_deleted_tenant_is_gone_at_once),
	  cmocka_unit_test(later_batches_of_deleted_series_are_shown),
	  cmocka_unit_test(refuses_parts_of_minutes),
	  cmocka_unit_test(more_deletions_wait_for_the_rewrite),
	  cmocka_unit_test(deletions_run_beside_batches_and_queries),
	  cmocka_unit_test(deleted_labels_leave_the_files),
	  cmocka_unit_test(a_later_backup_has_nothing_deleted))
