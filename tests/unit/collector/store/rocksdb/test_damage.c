// SPDX-License-Identifier: Apache-2.0
// Subject: collector/store/rocksdb/rocksdb_check.c
// Bytes of a store's files flip: the store comes up, serves the rest with right values, and says what is
// missing; --check finds it.
#include "collector/store/rocksdb/rocksdb.h"

#include <fcntl.h>

#include "collector/store/rocksdb/key.h"
#include "tests/unit/collector/store/store_fixture.h"

enum {
	HOURS = 4,
	BATCHES = 6,                         // an hour
	ALL_BATCHES = (HOURS + 1) * BATCHES, // twice as many in the last
	RUNS = 60,
	FILES_MAX = 64,
};

static uint64_t base_ns;

static struct store *open_store(const char *path)
{
	const struct store_options options = { .path = path, .memory_bytes = 32 << 20 };
	struct store *store = NULL;
	struct error err = { 0 };

	if (rocksdb_store_open(&options, &store, &err) < 0)
		fail_msg("open: %s", err.text);
	return store;
}

static uint64_t batch_ns(int hour, int number)
{
	return base_ns + (uint64_t)hour * 3600 * NS_PER_SECOND +
	       (uint64_t)number * 61 * NS_PER_SECOND;
}

static void line_of(int hour, int number, char line[128])
{
	sprintf(line, "service=s%d %llu main;f%d;g%d", number % 3,
		(unsigned long long)(batch_ns(hour, number) / NS_PER_MS), hour, number);
}

static void append_batch(struct store *store, int hour, int number, uint64_t sequence)
{
	char labels[32], stack[64];

	sprintf(labels, "service=s%d", number % 3);
	sprintf(stack, "main;f%d;g%d", hour, number);
	append_text(store, 1, sequence, labels, batch_ns(hour, number), stack,
		    100 * hour + number + 1);
}

/** Hours of batches, closed and open ones, in several files. */
static void fill_store(const char *path)
{
	struct store *store = open_store(path);
	uint64_t sequence = 0;

	for (int hour = 0; hour < HOURS; hour++) {
		for (int i = 0; i < BATCHES; i++) {
			append_batch(store, hour, i, ++sequence);
			if (i == BATCHES / 2)
				assert_int_equal(0, store_flush(store, NULL));
		}
		// Memory goes to files, as it does in a store that is larger.
		store_close(store);
		store = open_store(path);
	}
	// These stay in the log.
	for (int i = 0; i < BATCHES; i++)
		append_batch(store, HOURS - 1, BATCHES + i, ++sequence);
	store_close(store);
}

/** How many batches are there. Each has its value, and there is nothing else. */
static int count_batches(struct store *store, const char *what)
{
	struct dump dump;
	int count = 0;

	dump_store(store, "{}", all_time, SCAN_ROWS, &dump);
	for (int hour = 0; hour < HOURS; hour++) {
		for (int i = 0; i < 2 * BATCHES; i++) {
			char line[128];

			line_of(hour, i, line);
			const struct dump_line *found = dump_find(&dump, line);
			if (found)
				EXPECT_EQ(100 * hour + i + 1, found->value, what);
			count += found != NULL;
		}
	}
	EXPECT_EQ(count, dump.count, what);
	dump_deinit(&dump);
	return count;
}

static void ignore_damage(void *context, uint64_t start_ns, const char *text)
{
	(void)context, (void)start_ns;
	if (getenv("DAMAGE_VERBOSE"))
		fprintf(stderr, "  check: %s\n", text);
}

static void ignore_progress(void *context, uint64_t start_ns, uint32_t count,
			    const struct store_check *found)
{
	(void)context, (void)start_ns, (void)count, (void)found;
}

/** Is the store good, by --check? */
static bool is_good(const char *path, struct store_check *ret_found)
{
	const struct store_checker checker = { NULL, ignore_damage, ignore_progress };
	struct error err = { 0 };
	int rc = rocksdb_store_check(path, &checker, ret_found, &err);

	if (rc < 0 && getenv("DAMAGE_VERBOSE"))
		fprintf(stderr, "  check: %s\n", err.text);
	return rc == 0 && ret_found->damaged == 0;
}

static void copy_files(const char *from, const char *to)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -rf %s; cp -r %s %s", to, from, to);
	assert_int_equal(0, system(command));
}

/** Flip a byte of a file that holds data. Returns its name. */
static const char *flip_byte(const char *path, unsigned int *seed)
{
	static char names[FILES_MAX][256];
	DIR *directory = opendir(path);
	struct dirent *entry;
	int count = 0;

	while ((entry = readdir(directory)) && count < FILES_MAX)
		if (strstr(entry->d_name, ".sst") || strstr(entry->d_name, "MANIFEST") ||
		    strstr(entry->d_name, ".log"))
			snprintf(names[count++], sizeof(names[0]), "%s", entry->d_name);
	const char *name = names[rand_r(seed) % (unsigned int)count];
	int fd = openat(dirfd(directory), name, O_RDWR);
	off_t size = lseek(fd, 0, SEEK_END), at = size ? rand_r(seed) % size : 0;
	uint8_t byte = 0;
	assert_true(pread(fd, &byte, 1, at) >= 0);
	byte ^= (uint8_t)(1 << rand_r(seed) % 8);
	if (size)
		assert_int_equal(1, pwrite(fd, &byte, 1, at));
	close(fd);
	closedir(directory);
	return name;
}

/** As an agent does: again and again, with maintenance between. */
static void expect_new_batch(struct store *store, const char *what)
{
	uint64_t hours[] = { HOURS, HOURS - 1, 0 };

	for EACH (hour, hours) {
		struct store_batch_id batch = batch_of(2, (uint64_t)(hour - hours) + 1);
		struct error err = { 0 };
		int tries = 0;

		for (int rc = -1; rc < 0; tries++) {
			struct store_append_result result = { 0 };
			struct profile *profile = test_profile();

			add_text(profile, "service=new", base_ns + *hour * 3600 * NS_PER_SECOND,
				 "main", 1);
			rc = store_append(store, &batch, profile, &result, &err);
			profile_free(profile);
			if (rc < 0 && tries > 5)
				fail_msg("%s: hour %d: %s", what, (int)*hour, err.text);
			if (rc < 0)
				store_maintain(store, clock_realtime_ns(), NULL);
		}
	}
}

TEST(check_finds_nothing_in_good_store)
{
	struct store_check found = { 0 };
	char path[64];

	base_ns = hour_ns(-HOURS);
	directory_new(path);
	fill_store(path);
	assert_true(is_good(path, &found));
	assert_int_equal(HOURS, found.partitions);
	assert_int_equal(ALL_BATCHES, found.rows);
	assert_true(found.chunks > 0 && found.runs > 0 && found.records > 0);
	directory_remove(path);
}

TEST(flipped_bytes_cost_only_what_they_hit)
{
	char path[64], copy[80];
	int damaged_runs = 0;

	base_ns = hour_ns(-HOURS);
	directory_new(path);
	snprintf(copy, sizeof(copy), "%s-copy", path);
	fill_store(path);
	for (unsigned int i = 0; i < RUNS; i++) {
		struct store_check found = { 0 };
		struct store_stats stats;
		unsigned int seed = i;
		char what[128];

		copy_files(path, copy);
		snprintf(what, sizeof(what), "seed %u, %s", i, flip_byte(copy, &seed));
		if (getenv("DAMAGE_VERBOSE"))
			fprintf(stderr, "%s\n", what);
		bool good = is_good(copy, &found);
		struct store *store = open_store(copy);
		int count = count_batches(store, what);
		store_read_stats(store, &stats);
		if (getenv("DAMAGE_VERBOSE"))
			fprintf(stderr, "  good %d count %d damaged %d\n", good, count,
				(int)stats.partitions_damaged);
		if (count < ALL_BATCHES) {
			damaged_runs++;
			if (good)
				fail_msg("%s: the check found nothing", what);
			struct store_damage damage;

			store_read_damage(store, all_time, &damage);
			EXPECT_EQ(stats.partitions_damaged, damage.partitions, what);
			if (!damage.partitions && !stats.damaged_openings)
				fail_msg("%s: nobody says what is missing", what);
		}
		// It takes new batches.
		expect_new_batch(store, what);
		store_close(store);
	}
	if (damaged_runs < RUNS / 10)
		fail_msg("only %d runs lost something: the test says little", damaged_runs);
	char command[128];
	snprintf(command, sizeof(command), "rm -rf %s", copy);
	assert_int_equal(0, system(command));
	directory_remove(path);
}

RUN_TESTS(cmocka_unit_test(check_finds_nothing_in_good_store),
	  cmocka_unit_test(flipped_bytes_cost_only_what_they_hit))
