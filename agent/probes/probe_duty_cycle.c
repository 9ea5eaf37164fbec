// SPDX-License-Identifier: Apache-2.0
#include "agent/probes/probe_duty_cycle.h"

#include <stddef.h>

/* A duty-cycled probe is promoted to always attached if all of those together then need less of the budget. */
#define PROMOTE_SHARE 0.5

void probe_duty_cycle_init(struct probe_duty_cycle *cycle, double budget, uint64_t seed)
{
	*cycle = (struct probe_duty_cycle){
		.budget = budget,
		.weight = PROBE_WEIGHT_FIRST,
		.random = seed ? seed : 1,
	};
}

/* xorshift64*, by Vigna. */
static uint64_t next_random(struct probe_duty_cycle *cycle)
{
	cycle->random ^= cycle->random >> 12;
	cycle->random ^= cycle->random << 25;
	cycle->random ^= cycle->random >> 27;
	return cycle->random * 0x2545f4914f6cdd1dULL;
}

/* Evenly from 0 to, not including, @limit. */
static uint64_t random_below(struct probe_duty_cycle *cycle, uint64_t limit)
{
	return (uint64_t)((double)(next_random(cycle) >> 11) / (double)(1ULL << 53) *
			  (double)limit);
}

// ---- kinds ----------------------------------------------------------------------------------

static void set_mode(struct probe_kind *kind, enum probe_mode mode, uint64_t now_ns)
{
	kind->mode = mode;
	kind->since_ns = now_ns;
}

bool probe_duty_cycle_set_kind(struct probe_duty_cycle *cycle, uint32_t number, bool is_launch,
			       double cost_ns, uint64_t now_ns)
{
	struct probe_kind *kind = &cycle->kinds[number];
	enum probe_mode before = kind->mode;

	kind->cost_ns = cost_ns;
	kind->is_launch = is_launch;
	if (cost_ns <= 0) {
		kind->mode = PROBE_ABSENT;
	} else if (before == PROBE_ABSENT) {
		kind->rate = -1;
		kind->cooldown = 1;
		set_mode(kind, is_launch ? PROBE_DUTY_CYCLE : PROBE_ALWAYS, now_ns);
	}
	return kind->mode != before;
}

void probe_duty_cycle_measure(struct probe_duty_cycle *cycle, uint32_t kind, uint64_t calls,
			      uint64_t elapsed_ns)
{
	if (elapsed_ns)
		cycle->kinds[kind].rate = (double)calls * NS_PER_SECOND / (double)elapsed_ns;
}

/* In cores, were its probe always attached. */
static double cost_of(const struct probe_kind *kind)
{
	return kind->rate > 0 ? kind->rate * kind->cost_ns / NS_PER_SECOND : 0;
}

static double cost_in(const struct probe_duty_cycle *cycle, enum probe_mode mode)
{
	double cost = 0;

	for (uint32_t i = 0; i < PROBE_KINDS_MAX; i++) {
		if (cycle->kinds[i].mode == mode)
			cost += cost_of(&cycle->kinds[i]);
	}
	return cost;
}

static struct probe_kind *costliest_in(struct probe_duty_cycle *cycle, enum probe_mode mode)
{
	struct probe_kind *costliest = NULL;

	for (uint32_t i = 0; i < PROBE_KINDS_MAX; i++) {
		struct probe_kind *kind = &cycle->kinds[i];

		if (kind->mode == mode && (!costliest || cost_of(kind) > cost_of(costliest)))
			costliest = kind;
	}
	return costliest;
}

// ---- deciding -------------------------------------------------------------------------------

static bool demote(struct probe_duty_cycle *cycle, uint64_t now_ns)
{
	bool changed = false;

	while (cost_in(cycle, PROBE_ALWAYS) > cycle->budget) {
		struct probe_kind *kind = costliest_in(cycle, PROBE_ALWAYS);

		// Demoted soon after its promotion: a longer cooldown keeps it from flapping.
		if (ns_between(kind->since_ns, now_ns) < 5 * PROBE_COOLDOWN_NS &&
		    kind->cooldown < PROBE_COOLDOWN_MAX)
			kind->cooldown *= 2;
		set_mode(kind, PROBE_DUTY_CYCLE, now_ns);
		changed = true;
	}
	return changed;
}

/* One at a time: its cost was measured in on phases only. */
static bool promote(struct probe_duty_cycle *cycle, uint64_t now_ns)
{
	double always = cost_in(cycle, PROBE_ALWAYS);

	for (uint32_t i = 0; i < PROBE_KINDS_MAX; i++) {
		struct probe_kind *kind = &cycle->kinds[i];

		if (kind->mode != PROBE_DUTY_CYCLE || kind->is_launch ||
		    ns_between(kind->since_ns, now_ns) < kind->cooldown * PROBE_COOLDOWN_NS ||
		    always + cost_of(kind) > cycle->budget * PROMOTE_SHARE)
			continue;
		set_mode(kind, PROBE_ALWAYS, now_ns);
		return true;
	}
	return false;
}

static bool retry(struct probe_duty_cycle *cycle, uint64_t now_ns)
{
	bool changed = false;

	for (uint32_t i = 0; i < PROBE_KINDS_MAX; i++) {
		struct probe_kind *kind = &cycle->kinds[i];

		if (kind->mode != PROBE_OFF || ns_between(kind->since_ns, now_ns) < PROBE_RETRY_NS)
			continue;
		kind->rate = -1;
		set_mode(kind, PROBE_DUTY_CYCLE, now_ns);
		changed = true;
	}
	return changed;
}

static bool is_any_unknown(const struct probe_duty_cycle *cycle)
{
	for (uint32_t i = 0; i < PROBE_KINDS_MAX; i++) {
		if (cycle->kinds[i].mode == PROBE_DUTY_CYCLE && cycle->kinds[i].rate < 0)
			return true;
	}
	return false;
}

/* The weight that the budget asks for; what would need more than PROBE_WEIGHT_MAX goes off. */
static bool set_weight(struct probe_duty_cycle *cycle, uint64_t now_ns)
{
	bool changed = false;
	double share;

	while ((share = cost_in(cycle, PROBE_DUTY_CYCLE) / cycle->budget) > PROBE_WEIGHT_MAX) {
		set_mode(costliest_in(cycle, PROBE_DUTY_CYCLE), PROBE_OFF, now_ns);
		changed = true;
	}
	cycle->weight = (uint32_t)share + (share > (double)(uint32_t)share);
	if (cycle->weight < PROBE_WEIGHT_MIN)
		cycle->weight = PROBE_WEIGHT_MIN;
	if (is_any_unknown(cycle) && cycle->weight < PROBE_WEIGHT_FIRST)
		cycle->weight = PROBE_WEIGHT_FIRST;
	return changed;
}

bool probe_duty_cycle_decide(struct probe_duty_cycle *cycle, uint64_t now_ns)
{
	bool changed = demote(cycle, now_ns);

	if (!changed)
		changed = promote(cycle, now_ns);
	changed |= retry(cycle, now_ns);
	changed |= set_weight(cycle, now_ns);
	cycle->always = cost_in(cycle, PROBE_ALWAYS);
	cycle->duty_cycled = cost_in(cycle, PROBE_DUTY_CYCLE) / cycle->weight;
	return changed;
}

// ---- periods --------------------------------------------------------------------------------

/* A period is exactly weight times its on phase: else sums of weighted calls would be off. */
static void begin_period(struct probe_duty_cycle *cycle, uint64_t begin_ns)
{
	uint64_t weight = cycle->weight, on_ns = PROBE_ON_NS;

	if (is_any_unknown(cycle))
		on_ns = PROBE_ON_NS_MIN; // to measure the rate soon
	else if (on_ns * weight > PROBE_PERIOD_NS)
		on_ns = PROBE_PERIOD_NS / weight;
	if (on_ns < PROBE_ON_NS_MIN)
		on_ns = PROBE_ON_NS_MIN;
	cycle->on_ns = on_ns;
	cycle->period_ns = on_ns * weight;
	cycle->period_weight = cycle->weight;
	cycle->period_begin_ns = begin_ns;
	cycle->on_begin_ns = begin_ns + random_below(cycle, cycle->period_ns - on_ns + 1);
	cycle->was_on = false;
}

/* Of calls that enqueue work; recording an event and waiting for one enqueue none. */
static bool misses_any(const struct probe_duty_cycle *cycle)
{
	for (uint32_t i = 0; i < PROBE_KINDS_MAX; i++) {
		if (cycle->kinds[i].mode == PROBE_OFF && i != GPU_CALL_EVENT_RECORD &&
		    i != GPU_CALL_EVENT_WAIT)
			return true;
	}
	return false;
}

static bool has_kind(const struct probe_duty_cycle *cycle, enum probe_mode mode)
{
	for (uint32_t i = 0; i < PROBE_KINDS_MAX; i++) {
		if (cycle->kinds[i].mode == mode)
			return true;
	}
	return false;
}

enum probe_step probe_duty_cycle_step(struct probe_duty_cycle *cycle, uint64_t now_ns)
{
	bool wanted = has_kind(cycle, PROBE_DUTY_CYCLE);

	if (cycle->is_on) {
		if (wanted && now_ns < cycle->on_begin_ns + cycle->on_ns)
			return PROBE_STEP_NONE;
		cycle->is_on = false;
		return PROBE_STEP_DETACH;
	}
	if (!wanted) {
		cycle->period_ns = 0;
		return PROBE_STEP_NONE;
	}
	uint64_t end_ns = cycle->period_begin_ns + cycle->period_ns;
	if (!cycle->period_ns || now_ns >= end_ns) {
		// Periods follow each other without gaps, unless the agent did not run for a while.
		bool away = !cycle->period_ns || now_ns - end_ns > cycle->period_ns;

		begin_period(cycle, away ? now_ns : end_ns);
	}
	return !cycle->was_on && now_ns >= cycle->on_begin_ns ? PROBE_STEP_ATTACH : PROBE_STEP_NONE;
}

void probe_duty_cycle_begin_phase(struct probe_duty_cycle *cycle, uint64_t now_ns,
				  struct gpu_on_phase *ret_phase)
{
	cycle->is_on = cycle->was_on = true;
	cycle->on_begin_ns = now_ns;
	*ret_phase = (struct gpu_on_phase){
		.begin_ns = now_ns,
		.end_ns = now_ns + cycle->on_ns,
		.weight = cycle->period_weight,
		.sees_all = !misses_any(cycle),
	};
}
