// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/test.h"

#include "agent/sources/memory_usage.h"
#include "base/cleanup.h"
#include "tests/unit/agent/process/process_tables.h"
#include "tests/unit/base/clock_double.h"

#define SLOT_NS    (20 * NS_PER_MS)
#define READING_NS (5 * NS_PER_US) // of CPU time

#define UP_TO_11 "1 (a) S 1 1 1 0 -1 4194560 11 12 "
#define FROM_13  " 13 14 15 16 17 18 19 20 21 "

static const struct {
	const char *what, *text;
	int rc;
	struct memory_stat stat;
} stats[] = {
	{ "as it is",
	  UP_TO_11 "77" FROM_13 "220 1000 2400 18446744073709551615 1\n",
	  0,
	  { 77, 2400, 220 } },
	{ "a hostile name",
	  "1 (a) S 1) (b\n) S 1 1 1 0 -1 4194560 11 12 77" FROM_13 "220 1000 2400 1 1\n",
	  0,
	  { 77, 2400, 220 } },
	{ "cut before the end", UP_TO_11 "77" FROM_13 "220 1000 2400 ", 0, { 77, 2400, 220 } },
	{ "cut in the number", UP_TO_11 "77" FROM_13 "220 1000 24", -EBADMSG, { 0 } },
	{ "cut early", UP_TO_11, -EBADMSG, { 0 } },
	{ "no name", "1 a S 1 1", -EBADMSG, { 0 } },
	{ "nothing", "", -EBADMSG, { 0 } },
	{ "no number", UP_TO_11 "x" FROM_13 "220 1000 2400 1\n", -EBADMSG, { 0 } },
	{ "below zero", UP_TO_11 "77" FROM_13 "220 1000 -1 1\n", -EBADMSG, { 0 } },
	{ "too large",
	  UP_TO_11 "99999999999999999999999" FROM_13 "220 1000 1 1\n",
	  -EBADMSG,
	  { 0 } },
};

TEST(parses_statm_lines)
{
	for EACH (c, stats) {
		struct memory_stat stat = { 0 };

		EXPECT_EQ(c->rc, memory_stat_parse(c->text, strlen(c->text), &stat), c->what);
		EXPECT_EQ(c->stat.major_faults, stat.major_faults, c->what);
		EXPECT_EQ(c->stat.rss_pages, stat.rss_pages, c->what);
		EXPECT_EQ(c->stat.start_ticks, stat.start_ticks, c->what);
	}
}

struct fixture {
	struct tables tables;
	struct location_table *locations;
	struct memory_usage *usage;
	uint64_t begin_ns, begin_realtime_ns; // monotonic, and Unix time
	uint64_t passed_ns;                   // since then, as the test has it
	char *grown[256];                     // what this process has grown by
	uint32_t grown_count;
};

static void begin(struct fixture *fixture)
{
	struct error err = { 0 };

	realtime_ns = 1700000000 * NS_PER_SECOND; // a second begins
	*fixture = (struct fixture){
		.tables = tables_new(NULL),
		.begin_ns = clock_monotonic_ns(),
		.begin_realtime_ns = realtime_ns,
	};
	fixture->locations = location_table_new(fixture->tables.executables, NULL);
	assert_int_equal(0, memory_usage_open(fixture->tables.processes, &fixture->usage, &err));
	thread_cpu_step_ns = READING_NS;
}

static void finish(struct fixture *fixture)
{
	for (uint32_t i = 0; i < fixture->grown_count; i++)
		free(fixture->grown[i]);
	memory_usage_close(fixture->usage);
	location_table_free(fixture->locations);
	tables_free(&fixture->tables);
}

static struct profile *drain(struct fixture *fixture)
{
	struct export_interval_sources sources = {
		.frames = { .processes = fixture->tables.processes,
			    .locations = fixture->locations },
	};
	struct export_interval interval;

	assert_int_equal(0,
			 export_interval_init(&interval, &sources, SLOT_NS, clock_realtime_ns()));
	assert_int_equal(0, memory_usage_add(fixture->usage, &interval,
					     fixture->begin_realtime_ns + fixture->passed_ns));
	struct profile *profile = export_interval_finish(&interval, clock_realtime_ns());
	export_interval_deinit(&interval);
	return profile;
}

static void tick(struct fixture *fixture)
{
	memory_usage_tick(fixture->usage, fixture->begin_ns + fixture->passed_ns,
			  fixture->begin_realtime_ns + fixture->passed_ns);
}

enum { GROWN_BYTES = 256 << 20 };

TEST(samples_each_second)
{
	struct fixture fixture;
	struct process_key key = key_of(getpid(), 0);
	uint64_t small = 0, large = 0, slot = 0;

	begin(&fixture);
	assert_non_null(process_table_get(fixture.tables.processes, &key, "test"));
	fixture.passed_ns = NS_PER_SECOND; // the second in which it was opened is not exported
	tick(&fixture);
	char *memory = malloc(GROWN_BYTES);
	assert_non_null(memory);
	memset(memory, 1, GROWN_BYTES);
	for (int i = 0; i < 16; i++) {
		fixture.passed_ns += NS_PER_SECOND / 4;
		tick(&fixture);
	}
	struct profile *profile = drain(&fixture);
	EXPECT_EQ(1, profile->series_count, "one gauge");
	EXPECT_STR(PROFILE_TYPE_RSS, profile_string(profile, profile->series[0].type), "its type");
	if (profile->sample_count < 3)
		fail_msg("%u values of about 4 seconds", profile->sample_count);
	small = profile->samples[0].value;
	large = profile->samples[profile->sample_count - 1].value;
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		assert_true(!i || profile->samples[i].slot == slot + NS_PER_SECOND / SLOT_NS);
		slot = profile->samples[i].slot;
	}
	profile_free(profile);
	free(memory);
	assert_true(large > GROWN_BYTES);
	assert_true(large - small > GROWN_BYTES / 10 * 9);
	profile = drain(&fixture);
	EXPECT_EQ(0, profile->sample_count, "each second is exported once");
	profile_free(profile);
	finish(&fixture);
}

TEST(an_exited_process_has_no_sample)
{
	struct fixture fixture;
	struct memory_usage_stats usage;

	begin(&fixture);
	pid_t child = fork_and_wait();
	struct process_key key = key_of(child, 0);
	assert_non_null(process_table_get(fixture.tables.processes, &key, "test"));
	tick(&fixture);
	memory_usage_read_stats(fixture.usage, &usage);
	EXPECT_EQ(1, usage.processes, "followed");
	end(child);
	apply(&fixture.tables, PROCESS_EXIT, key, 0, "test");
	fixture.passed_ns += 6 * NS_PER_SECOND / 5;
	tick(&fixture);
	struct profile *profile = drain(&fixture);
	assert_true(profile->sample_count <= 1); // the second in which it was there
	profile_free(profile);
	memory_usage_read_stats(fixture.usage, &usage);
	EXPECT_EQ(0, usage.processes, "let go");
	finish(&fixture);
}

static void follow(struct fixture *fixture, pid_t pid)
{
	struct process_key key = key_of(pid, 0);

	assert_non_null(process_table_get(fixture->tables.processes, &key, "test"));
}

struct threads {
	struct fixture *fixture;
	uint32_t count;
	pthread_mutex_t mutex;
	pthread_barrier_t all, end;
	pthread_t *ids;
};

static struct memory_usage_stats stats_of(struct fixture *fixture)
{
	struct memory_usage_stats usage;

	memory_usage_read_stats(fixture->usage, &usage);
	return usage;
}

/* Seconds go by at once; this process grows all the while. */
static void let_pass(struct fixture *fixture, uint32_t seconds)
{
	enum { TURNS = 4, STEP_BYTES = 1 << 20 };

	for (uint32_t i = 0; i < seconds * TURNS; i++) {
		char *more = malloc(STEP_BYTES);

		assert_non_null(more);
		assert_true(fixture->grown_count < ARRAY_SIZE(fixture->grown));
		memset(more, 1, STEP_BYTES);
		fixture->grown[fixture->grown_count++] = more;
		tick(fixture);
		fixture->passed_ns += NS_PER_SECOND / TURNS;
	}
}

/* How many sizes there are that are larger than any before: of the one process that grows. */
static uint32_t largest_sizes(const struct profile *profile)
{
	int64_t largest = 0;
	uint32_t count = 0;

	for (uint32_t i = 0; i < profile->sample_count; i++) {
		if (profile->samples[i].value > largest) {
			largest = profile->samples[i].value;
			count++;
		}
	}
	return count;
}

TEST(reads_growing_processes_each_second)
{
	enum { QUIET = 400, SETTLE_SECONDS = 10, SECONDS = 10 };
	struct fixture fixture;
	pid_t children[QUIET];

	begin(&fixture);
	for EACH (child, children) {
		*child = fork_and_wait();
		follow(&fixture, *child);
	}
	let_pass(&fixture, SETTLE_SECONDS);
	follow(&fixture, getpid());
	profile_free(drain(&fixture));
	uint64_t reads = stats_of(&fixture).reads;
	let_pass(&fixture, SECONDS);
	struct profile *profile = drain(&fixture);
	for EACH (child, children)
		end(*child);
	if (largest_sizes(profile) < SECONDS - 2)
		fail_msg("%u sizes in %d s", largest_sizes(profile), SECONDS);
	profile_free(profile);
	reads = stats_of(&fixture).reads - reads;
	assert_true(reads <= SECONDS * (MEMORY_READS_PER_SECOND / 2 + 20));
	EXPECT_EQ(0, stats_of(&fixture).late, "none is late");
	finish(&fixture);
}

/* A thread's id is good for reading its process: so these are as many processes, which grow alike. */
static void *follow_thread(void *context)
{
	struct threads *threads = context;

	pthread_mutex_lock(&threads->mutex);
	follow(threads->fixture, gettid());
	pthread_mutex_unlock(&threads->mutex);
	pthread_barrier_wait(&threads->all);
	pthread_barrier_wait(&threads->end);
	return NULL;
}

static void begin_threads(struct threads *threads)
{
	pthread_attr_t attributes;

	pthread_mutex_init(&threads->mutex, NULL);
	pthread_barrier_init(&threads->all, NULL, threads->count + 1);
	pthread_barrier_init(&threads->end, NULL, threads->count + 1);
	threads->ids = calloc(threads->count, sizeof(*threads->ids));
	assert_non_null(threads->ids);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 1 << 17);
	for (uint32_t i = 0; i < threads->count; i++)
		assert_int_equal(
			0, pthread_create(&threads->ids[i], &attributes, follow_thread, threads));
	pthread_attr_destroy(&attributes);
	pthread_barrier_wait(&threads->all);
}

static void end_threads(struct threads *threads)
{
	pthread_barrier_wait(&threads->end);
	for (uint32_t i = 0; i < threads->count; i++)
		pthread_join(threads->ids[i], NULL);
	pthread_barrier_destroy(&threads->all);
	pthread_barrier_destroy(&threads->end);
	free(threads->ids);
}

TEST(slow_reads_are_fewer)
{
	enum { PROCESSES = 100, SECONDS = 15, SLOW_NS = 100000 };
	struct fixture fixture;
	pid_t children[PROCESSES];

	begin(&fixture);
	thread_cpu_step_ns = SLOW_NS;
	for EACH (child, children) {
		*child = fork_and_wait();
		follow(&fixture, *child);
	}
	let_pass(&fixture, SECONDS);
	for EACH (child, children)
		end(*child);
	// All are due each second; half of them may be read, less what looking at the clock takes.
	assert_in_range(stats_of(&fixture).reads, SECONDS * (MEMORY_NS_PER_SECOND / SLOW_NS / 2),
			SECONDS * (MEMORY_NS_PER_SECOND / SLOW_NS));
	finish(&fixture);
}

TEST(counts_late_reads_of_growing_processes)
{
	struct fixture fixture;
	struct threads threads = { .fixture = &fixture, .count = 700 };

	begin(&fixture);
	begin_threads(&threads);
	let_pass(&fixture, 20);
	end_threads(&threads);
	assert_true(stats_of(&fixture).late > 0);
	finish(&fixture);
}

RUN_TESTS(cmocka_unit_test(parses_statm_lines), cmocka_unit_test(samples_each_second),
	  cmocka_unit_test(reads_growing_processes_each_second),
	  cmocka_unit_test(slow_reads_are_fewer),
	  cmocka_unit_test(counts_late_reads_of_growing_processes),
	  cmocka_unit_test(an_exited_process_has_no_sample))
