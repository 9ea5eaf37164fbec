// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/test.h"

#include "agent/memory_usage.h"
#include "base/clock.h"
#include "process_tables.h"

#define SLOT_NS (20 * NS_PER_MS)

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

TEST(the_line_of_a_process_is_read_or_refused)
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
};

static void begin(struct fixture *fixture)
{
	struct error err = { 0 };

	*fixture = (struct fixture){ .tables = tables_new(NULL) };
	fixture->locations = location_table_new(fixture->tables.executables, NULL);
	assert_int_equal(0, memory_usage_open(fixture->tables.processes, &fixture->usage, &err));
}

static void finish(struct fixture *fixture)
{
	memory_usage_close(fixture->usage);
	location_table_free(fixture->locations);
	tables_free(&fixture->tables);
}

static struct profile *drain(struct fixture *fixture)
{
	struct window_sources sources = {
		.frames = { .processes = fixture->tables.processes,
			    .locations = fixture->locations },
	};
	struct window window;

	assert_int_equal(0, window_init(&window, &sources, SLOT_NS, clock_realtime_ns()));
	assert_int_equal(0, memory_usage_add(fixture->usage, &window));
	struct profile *profile = window_finish(&window, clock_realtime_ns());
	window_deinit(&window);
	return profile;
}

static void tick(struct fixture *fixture)
{
	memory_usage_tick(fixture->usage, clock_monotonic_ns(), clock_realtime_ns());
}

enum { GROWN_BYTES = 256 << 20 };

TEST(a_process_has_its_size_in_every_second)
{
	struct fixture fixture;
	struct process_key key = key_of(getpid(), 0);
	uint64_t begin_ns, small = 0, large = 0, slot = 0;

	begin(&fixture);
	assert_non_null(process_table_get(fixture.tables.processes, &key, "test"));
	// Just after the beginning of a second.
	usleep((NS_PER_SECOND - clock_realtime_ns() % NS_PER_SECOND) / NS_PER_US + 1000);
	begin_ns = clock_realtime_ns();
	tick(&fixture);
	char *memory = malloc(GROWN_BYTES);
	assert_non_null(memory);
	memset(memory, 1, GROWN_BYTES);
	while (clock_realtime_ns() / NS_PER_SECOND < begin_ns / NS_PER_SECOND + 3) {
		usleep(100000);
		tick(&fixture);
	}
	struct profile *profile = drain(&fixture);
	EXPECT_EQ(1, profile->series_count, "one gauge");
	EXPECT_STR(PROFILE_TYPE_RSS, profile_string(profile, profile->series[0].type), "its type");
	if (profile->sample_count < 3 || profile->sample_count > 5)
		fail_msg("%u values of about 3 seconds", profile->sample_count);
	small = profile->samples[0].value;
	large = profile->samples[profile->sample_count - 1].value;
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		assert_true(!i || profile->samples[i].slot == slot + NS_PER_SECOND / SLOT_NS);
		slot = profile->samples[i].slot;
	}
	profile_free(profile);
	free(memory);
	// On a loaded machine the first second may have the large one already.
	assert_true(large > GROWN_BYTES);
	assert_true(small == large || large - small > GROWN_BYTES / 10 * 9);
	profile = drain(&fixture);
	EXPECT_EQ(0, profile->sample_count, "each second is told once");
	profile_free(profile);
	finish(&fixture);
}

TEST(a_process_that_has_gone_has_no_size)
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
	usleep(1200000);
	tick(&fixture);
	struct profile *profile = drain(&fixture);
	assert_true(profile->sample_count <= 1); // the second in which it was there
	profile_free(profile);
	memory_usage_read_stats(fixture.usage, &usage);
	EXPECT_EQ(0, usage.processes, "let go");
	finish(&fixture);
}

RUN_TESTS(cmocka_unit_test(the_line_of_a_process_is_read_or_refused),
	  cmocka_unit_test(a_process_has_its_size_in_every_second),
	  cmocka_unit_test(a_process_that_has_gone_has_no_size))
