// SPDX-License-Identifier: Apache-2.0
#include "agent/probes/probe_duty_cycle.h"

#include <stddef.h>

/* Below this part of the budget, with itself, a probe that was too hot may be there always again. */
#define CALM_SHARE 0.5

void probe_duty_cycle_init(struct probe_duty_cycle *windows, double budget, uint64_t seed)
{
	*windows = (struct probe_duty_cycle){
		.budget = budget,
		.weight = PROBE_WEIGHT_FIRST,
		.random = seed ? seed : 1,
	};
}

/* xorshift64*, by Vigna. */
static uint64_t next_random(struct probe_duty_cycle *windows)
{
	windows->random ^= windows->random >> 12;
	windows->random ^= windows->random << 25;
	windows->random ^= windows->random >> 27;
	return windows->random * 0x2545f4914f6cdd1dULL;
}

/* Evenly from 0 to, not including, @limit. */
static uint64_t random_below(struct probe_duty_cycle *windows, uint64_t limit)
{
	return (uint64_t)((double)(next_random(windows) >> 11) / (double)(1ULL << 53) *
			  (double)limit);
}

// ---- kinds ----------------------------------------------------------------------------------

static void set_mode(struct probe_kind *kind, enum probe_mode mode, uint64_t now_ns)
{
	kind->mode = mode;
	kind->since_ns = now_ns;
}

bool probe_duty_cycle_set_kind(struct probe_duty_cycle *windows, uint32_t number, bool is_launch,
			       double cost_ns, uint64_t now_ns)
{
	struct probe_kind *kind = &windows->kinds[number];
	enum probe_mode before = kind->mode;

	kind->cost_ns = cost_ns;
	kind->is_launch = is_launch;
	if (cost_ns <= 0) {
		kind->mode = PROBE_ABSENT;
	} else if (before == PROBE_ABSENT) {
		kind->rate = -1;
		kind->calm = 1;
		set_mode(kind, is_launch ? PROBE_DUTY_CYCLE : PROBE_ALWAYS, now_ns);
	}
	return kind->mode != before;
}

void probe_duty_cycle_measure(struct probe_duty_cycle *windows, uint32_t kind, uint64_t calls,
			      uint64_t elapsed_ns)
{
	if (elapsed_ns)
		windows->kinds[kind].rate = (double)calls * NS_PER_SECOND / (double)elapsed_ns;
}

/* Of a core, if its probe were always there. */
static double cost_of(const struct probe_kind *kind)
{
	return kind->rate > 0 ? kind->rate * kind->cost_ns / NS_PER_SECOND : 0;
}

static double cost_in(const struct probe_duty_cycle *windows, enum probe_mode mode)
{
	double cost = 0;

	for (uint32_t i = 0; i < PROBE_KINDS_MAX; i++) {
		if (windows->kinds[i].mode == mode)
			cost += cost_of(&windows->kinds[i]);
	}
	return cost;
}

static struct probe_kind *hottest_in(struct probe_duty_cycle *windows, enum probe_mode mode)
{
	struct probe_kind *hottest = NULL;

	for (uint32_t i = 0; i < PROBE_KINDS_MAX; i++) {
		struct probe_kind *kind = &windows->kinds[i];

		if (kind->mode == mode && (!hottest || cost_of(kind) > cost_of(hottest)))
			hottest = kind;
	}
	return hottest;
}

// ---- deciding -------------------------------------------------------------------------------

static bool demote(struct probe_duty_cycle *windows, uint64_t now_ns)
{
	bool changed = false;

	while (cost_in(windows, PROBE_ALWAYS) > windows->budget) {
		struct probe_kind *kind = hottest_in(windows, PROBE_ALWAYS);

		// Soon after it was let back: let it wait longer the next time.
		if (ns_between(kind->since_ns, now_ns) < 5 * PROBE_CALM_NS &&
		    kind->calm < PROBE_CALM_MAX)
			kind->calm *= 2;
		set_mode(kind, PROBE_DUTY_CYCLE, now_ns);
		changed = true;
	}
	return changed;
}

/* One at a time: what it costs is known of windows only. */
static bool promote(struct probe_duty_cycle *windows, uint64_t now_ns)
{
	double always = cost_in(windows, PROBE_ALWAYS);

	for (uint32_t i = 0; i < PROBE_KINDS_MAX; i++) {
		struct probe_kind *kind = &windows->kinds[i];

		if (kind->mode != PROBE_DUTY_CYCLE || kind->is_launch ||
		    ns_between(kind->since_ns, now_ns) < kind->calm * PROBE_CALM_NS ||
		    always + cost_of(kind) > windows->budget * CALM_SHARE)
			continue;
		set_mode(kind, PROBE_ALWAYS, now_ns);
		return true;
	}
	return false;
}

static bool retry(struct probe_duty_cycle *windows, uint64_t now_ns)
{
	bool changed = false;

	for (uint32_t i = 0; i < PROBE_KINDS_MAX; i++) {
		struct probe_kind *kind = &windows->kinds[i];

		if (kind->mode != PROBE_OFF || ns_between(kind->since_ns, now_ns) < PROBE_RETRY_NS)
			continue;
		kind->rate = -1;
		set_mode(kind, PROBE_DUTY_CYCLE, now_ns);
		changed = true;
	}
	return changed;
}

static bool is_any_unknown(const struct probe_duty_cycle *windows)
{
	for (uint32_t i = 0; i < PROBE_KINDS_MAX; i++) {
		if (windows->kinds[i].mode == PROBE_DUTY_CYCLE && windows->kinds[i].rate < 0)
			return true;
	}
	return false;
}

/* How rare windows must be; what is too hot for the rarest is given up. */
static bool set_weight(struct probe_duty_cycle *windows, uint64_t now_ns)
{
	bool changed = false;
	double share;

	while ((share = cost_in(windows, PROBE_DUTY_CYCLE) / windows->budget) > PROBE_WEIGHT_MAX) {
		set_mode(hottest_in(windows, PROBE_DUTY_CYCLE), PROBE_OFF, now_ns);
		changed = true;
	}
	windows->weight = (uint32_t)share + (share > (double)(uint32_t)share);
	if (windows->weight < PROBE_WEIGHT_MIN)
		windows->weight = PROBE_WEIGHT_MIN;
	if (is_any_unknown(windows) && windows->weight < PROBE_WEIGHT_FIRST)
		windows->weight = PROBE_WEIGHT_FIRST;
	return changed;
}

bool probe_duty_cycle_decide(struct probe_duty_cycle *windows, uint64_t now_ns)
{
	bool changed = demote(windows, now_ns);

	if (!changed)
		changed = promote(windows, now_ns);
	changed |= retry(windows, now_ns);
	changed |= set_weight(windows, now_ns);
	windows->always = cost_in(windows, PROBE_ALWAYS);
	windows->windows = cost_in(windows, PROBE_DUTY_CYCLE) / windows->weight;
	return changed;
}

// ---- windows --------------------------------------------------------------------------------

/* A window and its period are in the proportion of the weight, exactly. */
static void begin_period(struct probe_duty_cycle *windows, uint64_t begin_ns)
{
	uint64_t weight = windows->weight, length_ns = PROBE_WINDOW_NS;

	if (is_any_unknown(windows))
		length_ns = PROBE_WINDOW_NS_MIN; // to learn of it soon
	else if (length_ns * weight > PROBE_PERIOD_NS)
		length_ns = PROBE_PERIOD_NS / weight;
	if (length_ns < PROBE_WINDOW_NS_MIN)
		length_ns = PROBE_WINDOW_NS_MIN;
	windows->length_ns = length_ns;
	windows->period_ns = length_ns * weight;
	windows->period_weight = windows->weight;
	windows->period_begin_ns = begin_ns;
	windows->window_begin_ns =
		begin_ns + random_below(windows, windows->period_ns - length_ns + 1);
	windows->was_open = false;
}

/* Of what puts something on streams: events do not. */
static bool misses_any(const struct probe_duty_cycle *windows)
{
	for (uint32_t i = 0; i < PROBE_KINDS_MAX; i++) {
		if (windows->kinds[i].mode == PROBE_OFF && i != GPU_CALL_EVENT_RECORD &&
		    i != GPU_CALL_EVENT_WAIT)
			return true;
	}
	return false;
}

static bool has_kind(const struct probe_duty_cycle *windows, enum probe_mode mode)
{
	for (uint32_t i = 0; i < PROBE_KINDS_MAX; i++) {
		if (windows->kinds[i].mode == mode)
			return true;
	}
	return false;
}

enum probe_step probe_duty_cycle_step(struct probe_duty_cycle *windows, uint64_t now_ns)
{
	bool wanted = has_kind(windows, PROBE_DUTY_CYCLE);

	if (windows->is_open) {
		if (wanted && now_ns < windows->window_begin_ns + windows->length_ns)
			return PROBE_STEP_NONE;
		windows->is_open = false;
		return PROBE_STEP_CLOSE;
	}
	if (!wanted) {
		windows->period_ns = 0;
		return PROBE_STEP_NONE;
	}
	uint64_t end_ns = windows->period_begin_ns + windows->period_ns;
	if (!windows->period_ns || now_ns >= end_ns) {
		// Periods follow each other without gaps, unless we were away.
		bool away = !windows->period_ns || now_ns - end_ns > windows->period_ns;

		begin_period(windows, away ? now_ns : end_ns);
	}
	return !windows->was_open && now_ns >= windows->window_begin_ns ? PROBE_STEP_OPEN
									: PROBE_STEP_NONE;
}

void probe_duty_cycle_open(struct probe_duty_cycle *windows, uint64_t now_ns,
			   struct gpu_window *ret_window)
{
	windows->is_open = windows->was_open = true;
	windows->window_begin_ns = now_ns;
	*ret_window = (struct gpu_window){
		.begin_ns = now_ns,
		.end_ns = now_ns + windows->length_ns,
		.weight = windows->period_weight,
		.sees_all = !misses_any(windows),
	};
}
