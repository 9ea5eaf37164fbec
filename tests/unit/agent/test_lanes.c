// SPDX-License-Identifier: Apache-2.0
// Lanes on the running kernel: which of them run when others are stopped and go on. Needs root and BTF.

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/test.h"

#include "agent/lanes.h"
#include "agent/bpf/machine.h"
#include "tests/unit/agent/process/process_tables.h"

struct fixture {
	struct tables tables;
	struct loader *loader;
	struct lanes *lanes;
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
	const struct lane_setup setup = {
		.loader = fixture->loader,
		.processes = fixture->tables.processes,
		.slot_ns = options.slot_ns,
		.only_followed = true,
	};
	if (lanes_open(LANE_WALL | LANE_WAKERS | LANE_MEMORY, &setup, &fixture->lanes, &err))
		fail_msg("%s", err.text);
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	lanes_close(fixture->lanes);
	loader_close(fixture->loader);
	if (fixture->tables.processes)
		tables_free(&fixture->tables);
	free(fixture);
	return 0;
}

enum { ALL = LANE_WALL | LANE_WAKERS | LANE_MEMORY | LANE_SERIES };

static const struct {
	const char *what;
	enum lane_bit bit;
	bool on;
	uint32_t running;
} turns[] = {
	{ "memory stops alone", LANE_MEMORY, false, ALL & ~LANE_MEMORY },
	{ "and stays so", LANE_MEMORY, false, ALL & ~LANE_MEMORY },
	{ "memory goes on", LANE_MEMORY, true, ALL },
	{ "and needs not be asked twice", LANE_MEMORY, true, ALL },
	{ "wakers stop alone", LANE_WAKERS, false, ALL & ~LANE_WAKERS },
	{ "the wall stops", LANE_WALL, false, ALL & ~(LANE_WAKERS | LANE_WALL) },
	{ "wakers may go on, but need the wall", LANE_WAKERS, true,
	  ALL & ~(LANE_WAKERS | LANE_WALL) },
	{ "the wall goes on, and they with it", LANE_WALL, true, ALL },
	{ "the wall stops, and they with it", LANE_WALL, false, ALL & ~(LANE_WAKERS | LANE_WALL) },
	{ "wakers are not to go on", LANE_WAKERS, false, ALL & ~(LANE_WAKERS | LANE_WALL) },
	{ "with the wall, either", LANE_WALL, true, ALL & ~LANE_WAKERS },
	{ "until they may", LANE_WAKERS, true, ALL },
};

TEST(lanes_stop_with_what_they_need_and_go_on_when_nobody_stops_them)
{
	struct fixture *fixture = *state;

	if (!fixture->lanes)
		SKIP("needs root, BTF and Linux 6.1");
	EXPECT_EQ(ALL, lanes_running(fixture->lanes), "at first");
	for EACH (turn, turns) {
		EXPECT_EQ(0, lanes_set_running(fixture->lanes, turn->bit, turn->on), turn->what);
		EXPECT_EQ(turn->running, lanes_running(fixture->lanes), turn->what);
		EXPECT_EQ(0, lanes_before_drain(fixture->lanes), turn->what);
	}
}

TEST(a_lane_that_stands_still_can_be_turned)
{
	struct fixture *fixture = *state;
	uint32_t self = getpid();

	if (!fixture->lanes)
		SKIP("needs root, BTF and Linux 6.1");
	EXPECT_EQ(0, lanes_set_running(fixture->lanes, LANE_WALL, false), "pause");
	EXPECT_EQ(0, lanes_set_step(fixture->lanes, LANE_WALL, 1), "step");
	EXPECT_EQ(0, lanes_set_process(fixture->lanes, LANE_WALL, self, false), "process off");
	EXPECT_EQ(0, lanes_set_running(fixture->lanes, LANE_WALL, true), "go on");
	EXPECT_EQ(-EEXIST, lanes_set_process(fixture->lanes, LANE_WALL, self, false), "still off");
	EXPECT_EQ(0, lanes_set_process(fixture->lanes, LANE_WALL, self, true), "process on");
	EXPECT_EQ(-EOPNOTSUPP, lanes_set_process(fixture->lanes, LANE_MEMORY, self, false),
		  "no such knob");
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

RUN_TESTS(WITH_FIXTURE(lanes_stop_with_what_they_need_and_go_on_when_nobody_stops_them),
	  WITH_FIXTURE(a_lane_that_stands_still_can_be_turned))
