// SPDX-License-Identifier: Apache-2.0
#include "agent/ship/spool.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "agent/ship/sending_note.h"
#include "base/log.h"
#include "tests/unit/agent/ship/batches.h"
#include "tests/unit/agent/ship/disk_double.h"

enum { LONG_MS = 600 * 1000 };

/* What a failed allocation lost never comes (tests/allocations). */
static uint32_t wait_ms(void)
{
	return getenv("ALLOCATION_SECONDS") ? 2000 : 60000;
}

#define WAIT_FOR(condition)                                                          \
	do {                                                                         \
		uint64_t until_ns_ = clock_monotonic_ns() + wait_ms() * NS_PER_MS;   \
		while (!(condition) && clock_monotonic_ns() < until_ns_)             \
			nanosleep(&(struct timespec){ 0, 2000000 }, NULL);           \
		if (!(condition))                                                    \
			fail_msg("waited %u ms in vain for " #condition, wait_ms()); \
	} while (0)

static const struct spool_options in_memory = { .memory_bytes_max = 64 << 20, .count_max = 1000 };

/* On disk at once, tried again at once. */
static struct spool_options on_disk(void)
{
	return (struct spool_options){ .memory_bytes_max = 64 << 20,
				       .count_max = 1000,
				       .folder = disk_folder,
				       .folder_bytes_max = 64 << 20,
				       .retry_ms = 1 };
}

static struct spool *open_spool(struct spool_options options)
{
	struct spool *spool = NULL;
	struct error err = { 0 };

	EXPECT_EQ(0, spool_open(&options, &spool, &err), err.text);
	spool_end(spool); // spool_next() returns NULL rather than wait for what a test has lost
	return spool;
}

static void add(struct spool *spool, uint64_t sequence, uint32_t sample_count)
{
	spool_add(spool, batch_of(sequence, sample_count), sample_count);
}

static struct spool_stats stats_of(struct spool *spool)
{
	struct spool_stats stats;

	spool_read_stats(spool, &stats);
	return stats;
}

/* The oldest batch is this one; it is sent. */
static void expect_next(struct spool *spool, uint64_t sequence)
{
	struct batch *batch = spool_next(spool);

	assert_non_null(batch);
	assert_non_null(batch->profile);
	EXPECT_EQ(sequence, batch->id.sequence, "the oldest");
	spool_finish(spool, batch);
}

static void expect_empty(struct spool *spool)
{
	struct spool_stats stats = stats_of(spool);

	EXPECT_EQ(0, stats.count + stats.memory_bytes + stats.folder_count + stats.folder_bytes,
		  "empty");
}

// ---- in memory ------------------------------------------------------------------------------

TEST(takes_batches_in_order)
{
	struct spool *spool = open_spool(in_memory);

	for (uint64_t i = 1; i <= 3; i++)
		add(spool, i, 1);
	for (uint64_t i = 1; i <= 3; i++)
		expect_next(spool, i);
	expect_empty(spool);
	add(spool, 4, 1);
	EXPECT_EQ(1, stats_of(spool).count, "usable after it was empty");
	struct batch *batch = spool_next(spool);
	add(spool, 5, 1);
	spool_return(spool, batch);
	expect_next(spool, 4);
	expect_next(spool, 5);
	assert_null(spool_next(spool));
	EXPECT_EQ(0, spool_close(spool, NULL), "lost");
}

static const struct {
	const char *what;
	size_t bytes_max; // in packed batches
	uint32_t count_max;
	uint32_t added, kept;
} bounds[] = {
	{ "within both", 11, 11, 10, 10 },
	{ "by bytes", 4, 10, 10, 4 },
	{ "by count", 10, 3, 10, 3 },
	{ "nothing fits", 0, 10, 3, 0 },
};

/* Some numbers take a byte less. */
static size_t packed_bytes_max(void)
{
	struct batch *one = packed_batch_of(1000, 5);
	size_t bytes = one->memory_bytes + 8;

	batch_free(one);
	return bytes;
}

TEST(drops_and_counts_the_oldest)
{
	for EACH (row, bounds) {
		struct spool *spool = open_spool((struct spool_options){
			.memory_bytes_max = row->bytes_max * packed_bytes_max(),
			.count_max = row->count_max });

		// Under way, so that the others wait, packed.
		spool_add(spool, packed_batch_of(1000, 5), 5);
		struct batch *first = row->bytes_max ? spool_next(spool) : NULL;
		uint64_t before = stats_of(spool).dropped_batches;
		for (uint64_t i = 1; i <= row->added; i++)
			add(spool, i, 5);
		struct spool_stats stats = stats_of(spool);
		EXPECT_EQ(row->kept, stats.count, row->what);
		EXPECT_EQ(row->added - row->kept, stats.dropped_batches - before, row->what);
		EXPECT_EQ(5 * stats.dropped_batches, stats.dropped_samples, row->what);
		assert_true(stats.memory_bytes <= row->bytes_max * packed_bytes_max());
		if (first)
			spool_finish(spool, first);
		if (row->kept)
			expect_next(spool, row->added - row->kept + 1);
		spool_add(spool, NULL, 7); // there was no memory for it
		EXPECT_EQ(5 * stats.dropped_batches + 7, stats_of(spool).dropped_samples,
			  row->what);
		EXPECT_EQ(row->kept ? row->kept - 1 : 0, spool_close(spool, NULL), row->what);
	}
}

// ---- on disk --------------------------------------------------------------------------------

TEST(acknowledged_batch_skips_disk)
{
	disk_folder_make();
	struct spool_options options = on_disk();
	options.memory_ms = LONG_MS;
	struct spool *spool = open_spool(options);

	WAIT_FOR(stats_of(spool).uses_folder);
	for (uint64_t i = 1; i <= 20; i++) {
		add(spool, i, 5);
		struct batch *batch = spool_next(spool);
		nanosleep(&(struct timespec){ 0, 2000000 }, NULL); // a call to the collector
		spool_finish(spool, batch);
	}
	EXPECT_EQ(0, stats_of(spool).written, "files");
	EXPECT_EQ(0, spool_close(spool, NULL), "lost");
	disk_folder_remove();
}

TEST(the_next_start_sends_what_waited)
{
	struct spool_rest rest = { 0 };

	disk_folder_make();
	struct spool *spool = open_spool(on_disk());
	for (uint64_t i = 1; i <= 4; i++)
		add(spool, i, 5);
	struct batch *last = batch_of(5, 5), *sending = spool_next(spool);
	spool_add(spool, last, 5);
	WAIT_FOR(stats_of(spool).folder_count == 5); // also the one that is being sent
	EXPECT_EQ(0, stats_of(spool).memory_bytes, "freed");
	assert_null(last->profile);
	assert_null(last->packed.bytes);
	spool_finish(spool, sending);
	spool_return(spool, spool_next(spool));
	EXPECT_EQ(0, spool_close(spool, &rest), "lost");
	EXPECT_EQ(4, rest.kept, "kept");

	spool = open_spool(on_disk());
	WAIT_FOR(stats_of(spool).found == 4);
	add(spool, 100, 5);
	for (uint64_t i = 2; i <= 5; i++)
		expect_next(spool, i);
	expect_next(spool, 100);
	expect_empty(spool);
	EXPECT_EQ(0, spool_close(spool, &rest), "lost");
	EXPECT_EQ(0, rest.kept, "kept");
	disk_folder_remove();
}

/* What a process that is killed has written is there: here it has no time to close anything. */
TEST(a_killed_agent_loses_nothing_that_waited)
{
	disk_folder_make();
	pid_t child = fork();
	if (child == 0) {
		struct spool *spool = open_spool(on_disk());

		for (uint64_t i = 1; i <= 5; i++)
			add(spool, i, 5);
		spool_next(spool);
		WAIT_FOR(stats_of(spool).folder_count == 5);
		raise(SIGKILL);
	}
	assert_true(child > 0);
	assert_int_equal(child, waitpid(child, NULL, 0));
	struct spool *spool = open_spool(on_disk());
	WAIT_FOR(stats_of(spool).uses_folder);
	for (uint64_t i = 1; i <= 5; i++)
		expect_next(spool, i);
	spool_close(spool, NULL);
	disk_folder_remove();
}

/* It ends: no memory for the batch, or a fault. */
static void end_while_sending(uint64_t expected)
{
	pid_t child = fork();

	if (child == 0) {
		struct spool *spool = open_spool(on_disk());

		WAIT_FOR(stats_of(spool).uses_folder);
		struct batch *batch = spool_next(spool);
		_exit(batch && batch->id.sequence == expected ? 0 : 1);
	}
	int status = 1;
	assert_true(child > 0);
	assert_int_equal(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status, "the oldest");
}

TEST(drops_batch_at_fourth_start)
{
	disk_folder_make();
	struct spool *spool = open_spool(on_disk());
	for (uint64_t i = 1; i <= 3; i++)
		add(spool, i, 5);
	EXPECT_EQ(0, spool_close(spool, NULL), "lost");

	for (int i = 0; i < 2; i++)
		end_while_sending(1);
	spool = open_spool(on_disk()); // one in good order begins the count anew
	WAIT_FOR(stats_of(spool).uses_folder);
	spool_return(spool, spool_next(spool));
	spool_close(spool, NULL);
	for (int i = 0; i < SENDING_STARTS_MAX; i++)
		end_while_sending(1);
	end_while_sending(2);

	spool = open_spool(on_disk());
	WAIT_FOR(stats_of(spool).uses_folder);
	expect_next(spool, 2);
	expect_next(spool, 3);
	expect_empty(spool);
	spool_close(spool, NULL);
	disk_folder_remove();
}

TEST(closing_writes_what_waits)
{
	struct spool_options options;
	struct spool_rest rest = { 0 };

	disk_folder_make();
	options = on_disk();
	options.memory_ms = LONG_MS;
	struct spool *spool = open_spool(options);
	for (uint64_t i = 1; i <= 5; i++)
		add(spool, i, 5);
	spool_return(spool, spool_next(spool));
	EXPECT_EQ(0, spool_close(spool, &rest), "lost");
	EXPECT_EQ(5, rest.kept, "kept");
	spool = open_spool(options);
	WAIT_FOR(stats_of(spool).uses_folder);
	for (uint64_t i = 1; i <= 5; i++)
		expect_next(spool, i);
	spool_close(spool, NULL);
	disk_folder_remove();
}

TEST(a_full_folder_drops_the_oldest)
{
	struct spool_options options;
	struct spool_rest rest = { 0 };

	disk_folder_make();
	options = on_disk();
	options.count_max = 4;
	struct spool *spool = open_spool(options);
	for (uint64_t i = 1; i <= 10; i++) {
		add(spool, i, 5);
		WAIT_FOR(stats_of(spool).written == i);
	}
	struct spool_stats stats = stats_of(spool);
	EXPECT_EQ(4, stats.folder_count, "by count");
	EXPECT_EQ(6, stats.dropped_batches, "dropped");
	EXPECT_EQ(30, stats.dropped_samples, "samples");
	EXPECT_EQ(0, spool_close(spool, &rest), "lost");

	options.count_max = 100;
	options.folder_bytes_max = stats.folder_bytes / 4 * 3 + 8; // lower than before
	spool = open_spool(options);
	WAIT_FOR(stats_of(spool).folder_count == 3);
	EXPECT_EQ(5, stats_of(spool).dropped_samples, "of an earlier start, by its header");
	for (uint64_t i = 8; i <= 10; i++)
		expect_next(spool, i);
	add(spool, 11, 100000); // larger than all: it waits in memory
	add(spool, 12, 5);
	WAIT_FOR(stats_of(spool).written == 1);
	EXPECT_EQ(2, stats_of(spool).count, "both wait");
	expect_next(spool, 11);
	expect_next(spool, 12);
	spool_close(spool, NULL);
	disk_folder_remove();
}

TEST(damaged_files_are_dropped_and_counted)
{
	char path[256];

	disk_folder_make();
	struct spool *spool = open_spool(on_disk());
	for (uint64_t i = 1; i <= 5; i++)
		add(spool, i, 5);
	EXPECT_EQ(0, spool_close(spool, NULL), "lost");
	for (int i = 2; i <= 4; i++) {
		snprintf(path, sizeof(path), "%s/%016x.batch", disk_own, i);
		if (i == 2)
			assert_int_equal(0, truncate(path, 100));
		else if (i == 3)
			assert_int_equal(0, truncate(path, 0));
		else
			assert_int_equal(0, unlink(path));
	}
	spool = open_spool(on_disk());
	WAIT_FOR(stats_of(spool).uses_folder);
	expect_next(spool, 1);
	expect_next(spool, 5);
	EXPECT_EQ(2, stats_of(spool).damaged, "cut short, and empty");
	expect_empty(spool);
	EXPECT_EQ(0, spool_close(spool, NULL), "lost");
	disk_folder_remove();
}

static const int disk_errors[] = { EIO, ENOSPC, EROFS };

TEST(a_failing_disk_leaves_batches_in_memory)
{
	for EACH (error, disk_errors) {
		struct spool_rest rest = { 0 };

		disk_folder_make();
		struct spool *spool = open_spool(on_disk());
		add(spool, 1, 5);
		WAIT_FOR(stats_of(spool).written == 1);
		disk_set((struct disk_double){ .folder = disk_folder, .error = *error });
		for (uint64_t i = 2; i <= 4; i++)
			add(spool, i, 5);
		WAIT_FOR(stats_of(spool).failures >= 2); // and tried again
		EXPECT_EQ(false, stats_of(spool).uses_folder, "known");
		EXPECT_EQ(4, stats_of(spool).count, "all wait");
		disk_set((struct disk_double){ 0 });
		WAIT_FOR(stats_of(spool).written == 4);
		EXPECT_EQ(true, stats_of(spool).uses_folder, "again");
		disk_set((struct disk_double){ .folder = disk_folder, .error = *error });
		add(spool, 5, 5);
		EXPECT_EQ(1, spool_close(spool, &rest), "lost: it is in no file");
		EXPECT_EQ(4, rest.kept, "kept");
		disk_set((struct disk_double){ 0 });

		spool = open_spool(on_disk());
		WAIT_FOR(stats_of(spool).uses_folder);
		for (uint64_t i = 1; i <= 4; i++)
			expect_next(spool, i);
		spool_close(spool, NULL);
		disk_folder_remove();
	}
}

/* As in a rollout that starts the new agent first. */
TEST(takes_over_freed_folder)
{
	disk_folder_make();
	struct spool *old = open_spool(on_disk()), *new;
	add(old, 1, 5);
	WAIT_FOR(stats_of(old).written == 1);
	new = open_spool(on_disk());
	WAIT_FOR(stats_of(new).failures >= 1);
	add(new, 100, 5);
	add(old, 2, 5);
	EXPECT_EQ(0, spool_close(old, NULL), "lost");
	WAIT_FOR(stats_of(new).written == 1);
	EXPECT_EQ(2, stats_of(new).found, "of the other agent");
	expect_next(new, 1);
	expect_next(new, 2);
	expect_next(new, 100);
	spool_close(new, NULL);
	disk_folder_remove();
}

/* Three threads at once, for the sanitizer of races: what is sent is in order, and nothing is lost. */
TEST(sampling_sending_and_writing_share_batches)
{
	enum { BATCHES = 300 };

	disk_folder_make();
	struct spool *spool = open_spool(on_disk());
	for (uint64_t i = 1; i <= BATCHES; i++) {
		add(spool, i, 5);
		if (i % 3 == 0)
			expect_next(spool, i / 3);
		if (i % 7 == 0)
			spool_return(spool, spool_next(spool));
	}
	for (uint64_t i = BATCHES / 3 + 1; i <= BATCHES; i++)
		expect_next(spool, i);
	expect_empty(spool);
	EXPECT_EQ(0, spool_close(spool, NULL), "lost");
	spool = open_spool(on_disk());
	WAIT_FOR(stats_of(spool).uses_folder);
	EXPECT_EQ(0, stats_of(spool).found, "no file is left");
	spool_close(spool, NULL);
	disk_folder_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_batches_in_order),
		cmocka_unit_test(drops_and_counts_the_oldest),
		cmocka_unit_test(acknowledged_batch_skips_disk),
		cmocka_unit_test(the_next_start_sends_what_waited),
		cmocka_unit_test(a_killed_agent_loses_nothing_that_waited),
		cmocka_unit_test(drops_batch_at_fourth_start),
		cmocka_unit_test(closing_writes_what_waits),
		cmocka_unit_test(a_full_folder_drops_the_oldest),
		cmocka_unit_test(damaged_files_are_dropped_and_counted),
		cmocka_unit_test(a_failing_disk_leaves_batches_in_memory),
		cmocka_unit_test(takes_over_freed_folder),
		cmocka_unit_test(sampling_sending_and_writing_share_batches),
	};

	log_set_level(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
