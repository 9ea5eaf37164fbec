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

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

RUN_TESTS(WITH_FIXTURE(sources_stop_with_what_they_need),
	  WITH_FIXTURE(a_stopped_source_keeps_new_settings))
