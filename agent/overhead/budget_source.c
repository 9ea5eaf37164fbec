// SPDX-License-Identifier: Apache-2.0
#include "agent/overhead/budget_source.h"

#include <errno.h>

#include "agent/overhead/budget.h"
#include "agent/sources/sources.h"

static enum source_bit bit_of(enum knob knob)
{
	switch (knob) {
	case KNOB_WAKERS:
		return SOURCE_WAKERS;
	case KNOB_PAGE_FAULTS_UNWIND:
	case KNOB_PAGE_FAULTS:
		return SOURCE_MEMORY;
	default:
		return SOURCE_WALL;
	}
}

static int set_step(void *sources, enum knob knob, uint32_t step)
{
	// Stacks of GPU driver calls have no knob of their own: they go with those of off-CPU time.
	if (knob == KNOB_OFF_CPU_UNWIND)
		sources_set_step(sources, SOURCE_GPU_CALLS, step);
	return sources_set_step(sources, bit_of(knob), step);
}

static int set_process(void *sources, uint32_t pid, bool on)
{
	return sources_set_process(sources, SOURCE_WALL, pid, on);
}

static int set_running(void *sources, enum knob knob, bool on)
{
	return sources_set_running(sources, bit_of(knob), on);
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

/* KNOB_BIT() of those that can be turned. */
static uint32_t knobs_of(const struct sources *sources)
{
	// Those, too, that have not begun yet or are stopped.
	uint32_t open = sources_open_bits(sources), knobs = 0;

	if (open & SOURCE_WAKERS)
		knobs |= KNOB_BIT(KNOB_WAKERS);
	if (open & SOURCE_WALL)
		knobs |= KNOB_BIT(KNOB_OFF_CPU);
	if (sources_can_step(sources, SOURCE_WALL))
		knobs |= KNOB_BIT(KNOB_OFF_CPU_UNWIND);
	if (sources_can_set_process(sources, SOURCE_WALL))
		knobs |= KNOB_BIT(KNOB_PROCESS_OFF_CPU);
	if (sources_can_step(sources, SOURCE_MEMORY))
		knobs |= KNOB_BIT(KNOB_PAGE_FAULTS_UNWIND) | KNOB_BIT(KNOB_PAGE_FAULTS);
	return knobs;
}

static int open_source(const struct source_setup *setup, void **ret_state, struct error *err)
{
	const struct budget_options options = {
		.events = setup->events,
		.percent = setup->overhead_budget_percent,
		.frequency_hz = setup->frequency_hz,
		.knobs = knobs_of(setup->sources),
		.interval_ns = setup->overhead_interval_ns,
		.labels = setup->labels,
		.controls = { .set_step = set_step,
			      .set_process = set_process,
			      .set_running = set_running,
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

void budget_source_boost(struct sources *sources, uint32_t frequency_hz, double percent)
{
	struct budget *budget = sources_find(sources, SOURCE_GOVERNOR);

	if (!budget) {
		set_frequency(sources, frequency_hz);
		return;
	}
	const struct budget_boost boost = {
		.frequency_hz = frequency_hz,
		.percent = percent < 0 ? budget_boost_percent(budget) : percent,
		.knobs = knobs_of(sources),
	};
	budget_set_boost(budget, &boost);
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
