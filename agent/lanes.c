// SPDX-License-Identifier: Apache-2.0
#include "agent/lanes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/switches.h"
#include "base/cleanup.h"

// ---- the wall clock -------------------------------------------------------------------------

static int open_switches(const struct lane_setup *setup, void **ret_lane, struct error *err)
{
	const struct switches_options options = {
		.slot_ns = setup->slot_ns,
		.only_followed = setup->only_followed,
	};
	struct switches *switches;
	int rc = switches_open(setup->loader, &options, &switches, err);

	if (!rc)
		*ret_lane = switches;
	return rc;
}

static void close_switches(void *lane)
{
	switches_close(lane);
}

static int sweep_switches(void *lane)
{
	return switches_sweep(lane);
}

static const char *notice_of_switches(void *lane)
{
	return switches_next_notice(lane);
}

static void cost_of_switches(const void *lane, struct lane_cost *ret_cost)
{
	switches_read_run_time(lane, &ret_cost->bpf_ns, &ret_cost->bpf_count);
}

// ---- all of them ----------------------------------------------------------------------------

static const struct lane_kind kinds[] = {
	{
		.name = "wall",
		.bit = LANE_WALL,
		.open = open_switches,
		.close = close_switches,
		.before_drain = sweep_switches,
		.next_notice = notice_of_switches,
		.read_cost = cost_of_switches,
	},
};

struct lane {
	void *lane; // NULL: it does not run
	char failure[ERROR_TEXT_BYTES];
	bool failure_told;
};

struct lanes {
	struct lane lanes[ARRAY_SIZE(kinds)];
};

static void open_lane(const struct lane_kind *kind, struct lane *lane,
		      const struct lane_setup *setup)
{
	struct error err = { 0 };

	if (!kind->open(setup, &lane->lane, &err))
		return;
	lane->lane = NULL;
	snprintf(lane->failure, sizeof(lane->failure), "the %s lane does not run: %.260s",
		 kind->name, err.text);
}

int lanes_open(uint32_t bits, const struct lane_setup *setup, struct lanes **ret_lanes,
	       struct error *err)
{
	struct lanes *lanes = calloc(1, sizeof(*lanes));
	struct lane_setup own = *setup;

	if (!lanes)
		return error_set(err, -ENOMEM, "out of memory");
	own.lanes = lanes;
	for (uint32_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (bits & kinds[i].bit)
			open_lane(&kinds[i], &lanes->lanes[i], &own);
	}
	*ret_lanes = lanes;
	return 0;
}

void lanes_close(struct lanes *lanes)
{
	if (!lanes)
		return;
	// The last one first: the governor looks at the others.
	for (uint32_t i = ARRAY_SIZE(kinds); i-- > 0;) {
		if (lanes->lanes[i].lane)
			kinds[i].close(take(lanes->lanes[i].lane));
	}
	free(lanes);
}

uint32_t lanes_running(const struct lanes *lanes)
{
	uint32_t bits = 0;

	for (uint32_t i = 0; lanes && i < ARRAY_SIZE(kinds); i++) {
		if (lanes->lanes[i].lane)
			bits |= kinds[i].bit;
	}
	return bits;
}

int lanes_before_drain(struct lanes *lanes)
{
	int rc = 0;

	for (uint32_t i = 0; lanes && i < ARRAY_SIZE(kinds); i++) {
		int failed = 0;

		if (lanes->lanes[i].lane && kinds[i].before_drain)
			failed = kinds[i].before_drain(lanes->lanes[i].lane);
		if (!rc)
			rc = failed;
	}
	return rc;
}

int lanes_after_drain(struct lanes *lanes, struct window *window)
{
	int rc = 0;

	for (uint32_t i = 0; lanes && i < ARRAY_SIZE(kinds); i++) {
		int failed = 0;

		if (lanes->lanes[i].lane && kinds[i].after_drain)
			failed = kinds[i].after_drain(lanes->lanes[i].lane, window);
		if (!rc)
			rc = failed;
	}
	return rc;
}

void lanes_tick(struct lanes *lanes, uint64_t now_ns)
{
	for (uint32_t i = 0; lanes && i < ARRAY_SIZE(kinds); i++) {
		if (lanes->lanes[i].lane && kinds[i].tick)
			kinds[i].tick(lanes->lanes[i].lane, now_ns);
	}
}

static const char *next_notice(const struct lane_kind *kind, struct lane *lane)
{
	if (lane->failure[0] && !lane->failure_told) {
		lane->failure_told = true;
		return lane->failure;
	}
	return lane->lane && kind->next_notice ? kind->next_notice(lane->lane) : NULL;
}

const char *lanes_next_notice(struct lanes *lanes)
{
	const char *notice = NULL;

	for (uint32_t i = 0; lanes && i < ARRAY_SIZE(kinds) && !notice; i++)
		notice = next_notice(&kinds[i], &lanes->lanes[i]);
	return notice;
}

void lanes_read_cost(const struct lanes *lanes, enum lane_bit bit, struct lane_cost *ret_cost)
{
	*ret_cost = (struct lane_cost){ 0 };
	for (uint32_t i = 0; lanes && i < ARRAY_SIZE(kinds); i++) {
		if (kinds[i].bit == bit && lanes->lanes[i].lane && kinds[i].read_cost)
			kinds[i].read_cost(lanes->lanes[i].lane, ret_cost);
	}
}
