// SPDX-License-Identifier: Apache-2.0
// When each probe is attached, so that all of them stay within a budget. Probes of rare calls are always
// attached. Probes of launches, and of calls that turn out to be frequent, get a duty cycle: attached for
// one on phase per period, at a random moment of it, and each call seen then has a weight. Pure: the caller
// passes times and the seed, and attaches. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "bpf/gpu/gpu_call.h"

enum {
	PROBE_KINDS_MAX = 128,   // kinds of calls; GPU_CALL_COUNT is the number used
	PROBE_WEIGHT_MIN = 5,    // the on phase is at most a fifth of the period
	PROBE_WEIGHT_MAX = 1200, // the shortest on phase in the longest period
	PROBE_WEIGHT_FIRST = 20, // until the rates are measured
	PROBE_COOLDOWN_MAX = 32, // the cooldown doubles up to this many PROBE_COOLDOWN_NS
};

#define PROBE_ON_NS       NS_PER_SECOND         // an on phase, if the budget allows
#define PROBE_ON_NS_MIN   (50 * NS_PER_MS)      // attaching itself takes some ms
#define PROBE_PERIOD_NS   (10 * NS_PER_SECOND)  // on phases shrink before periods grow beyond this
#define PROBE_COOLDOWN_NS (60 * NS_PER_SECOND)  // from a duty cycle back to always attached
#define PROBE_RETRY_NS    (300 * NS_PER_SECOND) // from off back to a duty cycle

enum probe_mode {
	PROBE_ABSENT, // no file exports such a function
	PROBE_ALWAYS,
	PROBE_DUTY_CYCLE,
	PROBE_OFF, // too frequent even for PROBE_WEIGHT_MAX
};

/** A kind of call, in all files. */
struct probe_kind {
	enum probe_mode mode;
	bool is_launch;    // always duty-cycled
	double cost_ns;    // per call
	double rate;       // calls per second as last measured; < 0: unknown
	uint64_t since_ns; // last change of mode
	uint32_t cooldown; // in PROBE_COOLDOWN_NS
};

/** Others may read it; only the functions below write. */
struct probe_duty_cycle {
	struct probe_kind kinds[PROBE_KINDS_MAX];
	double budget; // cores for probes that are always attached, and the same again for duty-cycled ones
	double always;      // cores that probes cost which are always attached
	double duty_cycled; // cores that the others cost on average
	uint32_t weight;    // of coming on phases
	uint64_t random;    // state
	// The current period.
	uint64_t period_begin_ns, period_ns, on_begin_ns, on_ns;
	uint32_t period_weight;
	bool is_on, was_on;
};

void probe_duty_cycle_init(struct probe_duty_cycle *cycle, double budget, uint64_t seed);

/** @cost_ns: of one call, in the costliest file; 0: no file has the function. Returns whether its mode changed. */
bool probe_duty_cycle_set_kind(struct probe_duty_cycle *cycle, uint32_t kind, bool is_launch,
			       double cost_ns, uint64_t now_ns);

/** Its probe was attached for @elapsed_ns and saw @calls. */
void probe_duty_cycle_measure(struct probe_duty_cycle *cycle, uint32_t kind, uint64_t calls,
			      uint64_t elapsed_ns);

/** Adapt modes and weight to the measured rates. Returns whether any mode changed. */
bool probe_duty_cycle_decide(struct probe_duty_cycle *cycle, uint64_t now_ns);

enum probe_step {
	PROBE_STEP_NONE,
	PROBE_STEP_ATTACH, // then call probe_duty_cycle_begin_phase()
	PROBE_STEP_DETACH,
};

/** What to do now. */
enum probe_step probe_duty_cycle_step(struct probe_duty_cycle *cycle, uint64_t now_ns);

/** The probes are attached: the on phase begins. */
void probe_duty_cycle_begin_phase(struct probe_duty_cycle *cycle, uint64_t now_ns,
				  struct gpu_on_phase *ret_phase);
