// SPDX-License-Identifier: Apache-2.0
#include "agent/lanes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/lane_kinds.h"
#include "base/cleanup.h"

struct lane {
	void *lane;      // NULL: it does not run
	uint32_t paused; // it ran, and was stopped to cost nothing: for lanes of these bits
	char failure[ERROR_TEXT_BYTES];
	bool failure_told;
};

struct lanes {
	struct lane_setup setup; // of those that are opened later
	struct labels labels;    // its own copy
	struct lane lanes[LANE_KINDS];
};

static bool runs(const struct lane *lane)
{
	return lane->lane && !lane->paused;
}

void *lanes_find(const struct lanes *lanes, enum lane_bit bit)
{
	void *lane = NULL;

	for (uint32_t i = 0; i < LANE_KINDS && !lane; i++)
		lane = lane_kinds[i].bit == bit ? lanes->lanes[i].lane : NULL;
	return lane;
}

const struct lane_setup *lanes_setup(const struct lanes *lanes)
{
	return &lanes->setup;
}

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

	if (!lanes)
		return error_set(err, -ENOMEM, "out of memory");
	lanes->setup = *setup;
	lanes->setup.lanes = lanes;
	lanes->setup.labels = &lanes->labels;
	if (bits & (LANE_WALL | LANE_MEMORY))
		bits |= LANE_SERIES;
	lanes->setup.bits = bits;
	if (setup->labels && labels_copy(setup->labels, &lanes->labels)) {
		free(lanes);
		return error_set(err, -ENOMEM, "out of memory");
	}
	for (uint32_t i = 0; i < LANE_KINDS; i++) {
		if (bits & lane_kinds[i].bit)
			open_lane(&lane_kinds[i], &lanes->lanes[i], &lanes->setup);
	}
	*ret_lanes = lanes;
	return 0;
}

void lanes_close(struct lanes *lanes)
{
	if (!lanes)
		return;
	// The last one first: the governor looks at the others.
	for (uint32_t i = LANE_KINDS; i-- > 0;) {
		if (lanes->lanes[i].lane)
			lane_kinds[i].close(take(lanes->lanes[i].lane));
	}
	labels_deinit(&lanes->labels);
	free(lanes);
}

uint32_t lanes_running(const struct lanes *lanes)
{
	uint32_t bits = 0;

	for (uint32_t i = 0; lanes && i < LANE_KINDS; i++) {
		if (runs(&lanes->lanes[i]))
			bits |= lane_kinds[i].bit;
	}
	return bits;
}

int lanes_before_drain(struct lanes *lanes)
{
	int rc = 0;

	for (uint32_t i = 0; lanes && i < LANE_KINDS; i++) {
		int failed = 0;

		if (runs(&lanes->lanes[i]) && lane_kinds[i].before_drain)
			failed = lane_kinds[i].before_drain(lanes->lanes[i].lane);
		if (!rc)
			rc = failed;
	}
	return rc;
}

int lanes_after_drain(struct lanes *lanes, struct window *window)
{
	int rc = 0;

	for (uint32_t i = 0; lanes && i < LANE_KINDS; i++) {
		int failed = 0;

		if (runs(&lanes->lanes[i]) && lane_kinds[i].after_drain)
			failed = lane_kinds[i].after_drain(lanes->lanes[i].lane, window);
		if (!rc)
			rc = failed;
	}
	return rc;
}

void lanes_tick(struct lanes *lanes, uint64_t now_ns)
{
	for (uint32_t i = 0; lanes && i < LANE_KINDS; i++) {
		if (runs(&lanes->lanes[i]) && lane_kinds[i].tick)
			lane_kinds[i].tick(lanes->lanes[i].lane, now_ns);
	}
}

void lanes_take_count(struct lanes *lanes, const struct count_key *key, const struct count *count)
{
	for (uint32_t i = 0; lanes && i < LANE_KINDS; i++) {
		if (runs(&lanes->lanes[i]) && lane_kinds[i].take_count)
			lane_kinds[i].take_count(lanes->lanes[i].lane, key, count);
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

	for (uint32_t i = 0; lanes && i < LANE_KINDS && !notice; i++)
		notice = next_notice(&lane_kinds[i], &lanes->lanes[i]);
	return notice;
}

void lanes_read_cost(const struct lanes *lanes, enum lane_bit bit, struct lane_cost *ret_cost)
{
	*ret_cost = (struct lane_cost){ 0 };
	for (uint32_t i = 0; lanes && i < LANE_KINDS; i++) {
		if (lane_kinds[i].bit == bit && lanes->lanes[i].lane && lane_kinds[i].read_cost)
			lane_kinds[i].read_cost(lanes->lanes[i].lane, ret_cost);
	}
}

// ---- knobs ----------------------------------------------------------------------------------

bool lanes_can_step(const struct lanes *lanes, enum lane_bit bit)
{
	bool can = false;

	for (uint32_t i = 0; i < LANE_KINDS; i++)
		can |= lane_kinds[i].bit == bit && lanes->lanes[i].lane && lane_kinds[i].set_step;
	return can;
}

bool lanes_can_set_process(const struct lanes *lanes, enum lane_bit bit)
{
	bool can = false;

	for (uint32_t i = 0; i < LANE_KINDS; i++)
		can |= lane_kinds[i].bit == bit && lanes->lanes[i].lane &&
		       lane_kinds[i].set_process;
	return can;
}

int lanes_set_step(struct lanes *lanes, enum lane_bit bit, uint32_t step)
{
	int rc = -EOPNOTSUPP;

	for (uint32_t i = 0; i < LANE_KINDS; i++) {
		if (lane_kinds[i].bit == bit && lanes->lanes[i].lane && lane_kinds[i].set_step)
			rc = lane_kinds[i].set_step(lanes->lanes[i].lane, step);
	}
	return rc;
}

int lanes_set_process(struct lanes *lanes, enum lane_bit bit, uint32_t pid, bool on)
{
	int rc = -EOPNOTSUPP;

	for (uint32_t i = 0; i < LANE_KINDS; i++) {
		if (lane_kinds[i].bit == bit && lanes->lanes[i].lane && lane_kinds[i].set_process)
			rc = lane_kinds[i].set_process(lanes->lanes[i].lane, pid, on);
	}
	return rc;
}

static int pause_lane(const struct lane_kind *kind, struct lane *lane, enum lane_bit bit)
{
	bool was_running = runs(lane);

	if (!lane->lane && !lane->paused)
		return 0; // it never ran
	lane->paused |= bit;
	if (was_running && kind->set_running)
		return kind->set_running(lane->lane, false);
	if (was_running)
		kind->close(take(lane->lane));
	return 0;
}

static int resume_lane(const struct lane_kind *kind, struct lane *lane, enum lane_bit bit,
		       const struct lane_setup *setup)
{
	if (!(lane->paused & bit))
		return 0;
	lane->paused &= ~bit;
	if (lane->paused)
		return 0;
	if (lane->lane)
		return kind->set_running(lane->lane, true);
	lane->failure_told = false;
	open_lane(kind, lane, setup);
	return lane->lane ? 0 : -EIO; // why is a notice
}

int lanes_set_running(struct lanes *lanes, enum lane_bit bit, bool on)
{
	int rc = 0;

	for (uint32_t i = 0; i < LANE_KINDS; i++) {
		int failed = 0;

		if (!((lane_kinds[i].bit | lane_kinds[i].needs) & bit))
			continue;
		if (on)
			failed = resume_lane(&lane_kinds[i], &lanes->lanes[i], bit, &lanes->setup);
		else
			failed = pause_lane(&lane_kinds[i], &lanes->lanes[i], bit);
		if (!rc)
			rc = failed;
	}
	return rc;
}

bool lanes_read_budget(const struct lanes *lanes, struct budget_stats *ret_stats)
{
	for (uint32_t i = 0; lanes && i < LANE_KINDS; i++) {
		if (lane_kinds[i].bit != LANE_GOVERNOR || !lanes->lanes[i].lane)
			continue;
		budget_read_stats(lanes->lanes[i].lane, ret_stats);
		return true;
	}
	return false;
}
