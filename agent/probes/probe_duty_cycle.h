// SPDX-License-Identifier: Apache-2.0
// When which probes are there, so that they cost no more than they may. Probes of calls that are rare
// are always there; those of launches, and of whatever is called too often, only in windows that come
// at random moments of equal periods, and what is seen there stands for so many times as much. Pure:
// it knows no kernel, and clocks and chance are handed in. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "bpf/gpu/gpu_call.h"

enum {
	PROBE_KINDS_MAX = 128,   // kinds of calls; GPU_CALL_COUNT is the number used
	PROBE_WEIGHT_MIN = 5,    // a window is a fifth of the time at most
	PROBE_WEIGHT_MAX = 1200, // the shortest window in the longest period
	PROBE_WEIGHT_FIRST = 20, // before anything is known of rates
	PROBE_CALM_MAX = 32,     // waits before a probe is always there again grow up to so much
};

#define PROBE_WINDOW_NS     NS_PER_SECOND         // of a window, unless that is too much
#define PROBE_WINDOW_NS_MIN (50 * NS_PER_MS)      // attaching takes some ms itself
#define PROBE_PERIOD_NS     (10 * NS_PER_SECOND)  // windows are shorter before periods are longer
#define PROBE_CALM_NS       (60 * NS_PER_SECOND)  // before a probe that was too hot is there always
#define PROBE_RETRY_NS      (300 * NS_PER_SECOND) // before one that was far too hot is tried again

enum probe_mode {
	PROBE_ABSENT, // no file has such a function
	PROBE_ALWAYS,
	PROBE_DUTY_CYCLE,
	PROBE_OFF, // too hot for the shortest windows
};

/** A kind of call, in all files. */
struct probe_kind {
	enum probe_mode mode;
	bool is_launch;    // in windows whatever it costs
	double cost_ns;    // of a call
	double rate;       // calls a second, when it was last looked at; < 0: not known yet
	uint64_t since_ns; // when its mode changed last
	uint32_t calm;     // so many PROBE_CALM_NS before it is always there again
};

/** To be read by others; written by the functions below. */
struct probe_duty_cycle {
	struct probe_kind kinds[PROBE_KINDS_MAX];
	double budget;   // of a core: for probes that are always there, and as much for windows
	double always;   // of a core: what the probes cost that are always there
	double windows;  // what those in windows cost, on average
	uint32_t weight; // of the windows to come
	uint64_t random; // state
	// The period and window that run.
	uint64_t period_begin_ns, period_ns, window_begin_ns, length_ns;
	uint32_t period_weight;
	bool is_open, was_open;
};

/** @seed: anything, for chance. */
void probe_duty_cycle_init(struct probe_duty_cycle *windows, double budget, uint64_t seed);

/**
 * Files have such a function: a call costs @cost_ns at the most. 0: none has any more. Returns
 * whether its mode has changed.
 */
bool probe_duty_cycle_set_kind(struct probe_duty_cycle *windows, uint32_t kind, bool is_launch,
			       double cost_ns, uint64_t now_ns);

/** So many calls were seen in @elapsed_ns in which its probe was there. */
void probe_duty_cycle_measure(struct probe_duty_cycle *windows, uint32_t kind, uint64_t calls,
			      uint64_t elapsed_ns);

/** What follows from the measurements. Returns whether the mode of any kind has changed. */
bool probe_duty_cycle_decide(struct probe_duty_cycle *windows, uint64_t now_ns);

enum probe_step {
	PROBE_STEP_NONE,
	PROBE_STEP_OPEN, // attach, then call probe_duty_cycle_open()
	PROBE_STEP_CLOSE,
};

/** What is due now. */
enum probe_step probe_duty_cycle_step(struct probe_duty_cycle *windows, uint64_t now_ns);

/** The probes are attached: the window is from now on. */
void probe_duty_cycle_open(struct probe_duty_cycle *windows, uint64_t now_ns,
			   struct gpu_window *ret_window);
