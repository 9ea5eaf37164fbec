// SPDX-License-Identifier: Apache-2.0
// Sources on the running kernel: which run when others are stopped and started. Needs root and BTF.

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/test.h"

#include "agent/source_table.h"
#include "agent/sources/sources.h"
#include "agent/bpf/machine.h"
#include "tests/unit/agent/process/process_tables.h"

struct fixture {
	struct tables tables;
	struct loader *loader;
	struct sources *sources;
};

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	const struct loader_options options = {
		.slot_ns = 20 * NS_PER_MS,
		.counts_max = 4096,
		.pid = getpid(),
		.level = LOADER_LEVEL_FRAME_POINTER,
	};
	struct error err = { 0 };

	*state = fixture;
	if (machine_check(&err))
		return 0;
	fixture->tables = tables_new(NULL);
	if (loader_open(&options, &fixture->loader, &err))
		fail_msg("%s", err.text);
	const struct source_setup setup = {
		.loader = fixture->loader,
		.processes = fixture->tables.processes,
		.slot_ns = options.slot_ns,
		.only_targets = true,
	};
	if (sources_open(source_table, SOURCE_WALL | SOURCE_WAKERS | SOURCE_MEMORY, &setup,
			 &fixture->sources, &err))
		fail_msg("%s", err.text);
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	sources_close(fixture->sources);
	loader_close(fixture->loader);
	if (fixture->tables.processes)
		tables_free(&fixture->tables);
	free(fixture);
	return 0;
}

enum { ALL = SOURCE_WALL | SOURCE_WAKERS | SOURCE_MEMORY | SOURCE_SERIES };

static const struct {
	const char *what;
	enum source_bit bit;
	bool on;
	uint32_t running;
} turns[] = {
	{ "memory stops alone", SOURCE_MEMORY, false, ALL & ~SOURCE_MEMORY },
	{ "and stays so", SOURCE_MEMORY, false, ALL & ~SOURCE_MEMORY },
	{ "memory starts", SOURCE_MEMORY, true, ALL },
	{ "starting it twice is harmless", SOURCE_MEMORY, true, ALL },
	{ "wakers stop alone", SOURCE_WAKERS, false, ALL & ~SOURCE_WAKERS },
	{ "the wall stops", SOURCE_WALL, false, ALL & ~(SOURCE_WAKERS | SOURCE_WALL) },
	{ "wakers need the wall", SOURCE_WAKERS, true, ALL & ~(SOURCE_WAKERS | SOURCE_WALL) },
	{ "the wall starts, and they with it", SOURCE_WALL, true, ALL },
	{ "the wall stops, and they with it", SOURCE_WALL, false,
	  ALL & ~(SOURCE_WAKERS | SOURCE_WALL) },
	{ "wakers stop while stopped", SOURCE_WAKERS, false, ALL & ~(SOURCE_WAKERS | SOURCE_WALL) },
	{ "they stay stopped", SOURCE_WALL, true, ALL & ~SOURCE_WAKERS },
	{ "until they start", SOURCE_WAKERS, true, ALL },
};

TEST(sources_stop_with_what_they_need)
{
	struct fixture *fixture = *state;

	if (!fixture->sources)
		SKIP("needs root, BTF and Linux 6.1");
	EXPECT_EQ(ALL, sources_running(fixture->sources), "at first");
	for EACH (turn, turns) {
		EXPECT_EQ(0, sources_set_running(fixture->sources, turn->bit, turn->on),
			  turn->what);
		EXPECT_EQ(turn->running, sources_running(fixture->sources), turn->what);
		EXPECT_EQ(0, sources_before_drain(fixture->sources), turn->what);
	}
}

TEST(a_stopped_source_keeps_new_settings)
{
	struct fixture *fixture = *state;
	uint32_t self = getpid();

	if (!fixture->sources)
		SKIP("needs root, BTF and Linux 6.1");
	EXPECT_EQ(0, sources_set_running(fixture->sources, SOURCE_WALL, false), "pause");
	EXPECT_EQ(0, sources_set_step(fixture->sources, SOURCE_WALL, 1), "step");
	EXPECT_EQ(0, sources_set_process(fixture->sources, SOURCE_WALL, self, false),
		  "process off");
	EXPECT_EQ(0, sources_set_running(fixture->sources, SOURCE_WALL, true), "go on");
	EXPECT_EQ(-EEXIST, sources_set_process(fixture->sources, SOURCE_WALL, self, false),
		  "still off");
	EXPECT_EQ(0, sources_set_process(fixture->sources, SOURCE_WALL, self, true), "process on");
	EXPECT_EQ(-EOPNOTSUPP, sources_set_process(fixture->sources, SOURCE_MEMORY, self, false),
		  "memory has no such setting");
}

TEST(stops_all_and_goes_on)
{
	struct fixture *fixture = *state;
	struct sources *sources = fixture->sources;

	if (!sources)
		SKIP("needs root, BTF and Linux 6.1");
	sources_set_stopped(sources, true);
	EXPECT_EQ(0, sources_running(sources), "stopped");
	EXPECT_EQ(ALL, sources_open_bits(sources), "open");
	EXPECT_EQ(0, sources_set_running(sources, SOURCE_MEMORY, false), "by somebody else");
	EXPECT_EQ(0, sources_set_running(sources, SOURCE_WALL, true), "by somebody else");
	EXPECT_EQ(0, sources_running(sources), "still stopped");
	sources_set_stopped(sources, false);
	EXPECT_EQ(ALL & ~SOURCE_MEMORY, sources_running(sources), "but what somebody else stopped");
	EXPECT_EQ(0, sources_before_drain(sources), "drain");
	EXPECT_EQ(0, sources_set_running(sources, SOURCE_MEMORY, true), "and that");
	EXPECT_EQ(ALL, sources_running(sources), "all");
}

// The governor is opened before any source has begun, and has to know what it can shed.
TEST(a_source_that_has_not_begun_is_open)
{
	struct fixture *fixture = *state;
	struct source_setup setup;
	struct sources *sources;
	struct error err = { 0 };

	if (!fixture->sources)
		SKIP("needs root, BTF and Linux 6.1");
	setup = *sources_setup(fixture->sources);
	setup.labels = NULL;
	setup.begins_later = true;
	assert_int_equal(0, sources_open(source_table, SOURCE_MEMORY, &setup, &sources, &err));
	EXPECT_EQ(SOURCE_SERIES, sources_running(sources), "not begun");
	EXPECT_EQ(SOURCE_MEMORY | SOURCE_SERIES, sources_open_bits(sources), "open");
	sources_begin(sources);
	EXPECT_EQ(SOURCE_MEMORY | SOURCE_SERIES, sources_running(sources), "begun");
	sources_close(sources);
}

TEST(adds_and_removes_sources)
{
	const uint32_t more = SOURCE_WALL | SOURCE_MEMORY | SOURCE_WAKERS;
	struct fixture *fixture = *state;
	const struct source_setup *setup;
	struct sources *sources;
	struct error err = { 0 };

	if (!fixture->sources)
		SKIP("needs root, BTF and Linux 6.1");
	setup = sources_setup(fixture->sources);
	EXPECT_EQ(0, sources_add(fixture->sources, more), "they run already");
	assert_int_equal(0, sources_open(source_table, 0, setup, &sources, &err));
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(0, sources_running(sources), "none at first");
		EXPECT_EQ(more, sources_add(sources, more), "added");
		EXPECT_EQ(more, sources_running(sources), "run");
		EXPECT_EQ(0, sources_add(sources, more), "only once");
		EXPECT_EQ(0, sources_before_drain(sources), "drain");
		sources_remove(sources, SOURCE_MEMORY);
		EXPECT_EQ(more & ~SOURCE_MEMORY, sources_running(sources), "one is removed");
		sources_set_stopped(sources, true);
		sources_remove(sources, more);
		sources_set_stopped(sources, false);
		EXPECT_EQ(0, sources_open_bits(sources), "removed while stopped");
	}
	EXPECT_EQ(0, sources_add(sources, SOURCE_WAKERS), "wakers need the wall");
	EXPECT_EQ(0, sources_open_bits(sources), "none");
	sources_close(sources);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

RUN_TESTS(WITH_FIXTURE(sources_stop_with_what_they_need),
	  WITH_FIXTURE(a_stopped_source_keeps_new_settings), WITH_FIXTURE(stops_all_and_goes_on),
	  WITH_FIXTURE(a_source_that_has_not_begun_is_open), WITH_FIXTURE(adds_and_removes_sources))
