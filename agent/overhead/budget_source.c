// SPDX-License-Identifier: Apache-2.0
#include "agent/overhead/budget_source.h"

#include <errno.h>

#include "agent/overhead/budget.h"
#include "agent/sources/sources.h"

static enum source_bit bit_of(enum budget_lane lane)
{
	return lane == BUDGET_WAITS    ? SOURCE_WALL
	       : lane == BUDGET_WAKERS ? SOURCE_WAKERS
				       : SOURCE_MEMORY;
}

static int set_step(void *sources, enum budget_lane lane, uint32_t step)
{
	// Stacks of GPU driver calls have no knob of their own: they go with those of off-CPU time.
	if (lane == BUDGET_WAITS)
		sources_set_step(sources, SOURCE_GPU_CALLS, step);
	return sources_set_step(sources, bit_of(lane), step);
}

static int set_process(void *sources, uint32_t pid, bool on)
{
	return sources_set_process(sources, SOURCE_WALL, pid, on);
}

static int set_lane(void *sources, enum budget_lane lane, bool on)
{
	return sources_set_running(sources, bit_of(lane), on);
}

static int set_frequency(void *sources, uint32_t frequency_hz)
{
	const struct source_setup *setup = sources_setup(sources);

	return setup->set_frequency ? setup->set_frequency(setup->context, frequency_hz)
				    : -EOPNOTSUPP;
}

static void read_counters(void *sources, uint64_t ret_counters[COUNTER_COUNT])
{
	loader_read_counters(sources_setup(sources)->loader, ret_counters);
}

static int open_source(const struct source_setup *setup, void **ret_state, struct error *err)
{
	const struct sources *sources = setup->sources;
	const struct budget_options options = {
		.events = setup->events,
		.percent = setup->overhead_budget_percent,
		.frequency_hz = setup->frequency_hz,
		.wakers = sources_running(sources) & SOURCE_WAKERS,
		.stacks = sources_can_step(sources, SOURCE_WALL),
		.faults = sources_can_step(sources, SOURCE_MEMORY),
		.processes = sources_can_set_process(sources, SOURCE_WALL),
		.waits = sources_running(sources) & SOURCE_WALL,
		.interval_ns = setup->overhead_interval_ns,
		.labels = setup->labels,
		.controls = { .set_step = set_step,
			      .set_process = set_process,
			      .set_lane = set_lane,
			      .set_frequency = set_frequency,
			      .read_counters = read_counters,
			      .context = setup->sources },
	};
	struct budget *budget;
	int rc = budget_open(&options, &budget, err);

	if (!rc)
		*ret_state = budget;
	return rc;
}

const struct source budget_source = {
	.name = "governor",
	.bit = SOURCE_GOVERNOR,
	.open = open_source,
	.close = budget_close,
	.before_drain = budget_before_drain,
	.after_drain = budget_after_drain,
	.take_count = budget_take_count,
	.tick = budget_tick,
};
