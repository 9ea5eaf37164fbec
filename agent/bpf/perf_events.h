// SPDX-License-Identifier: Apache-2.0
// The ticks: a perf event on each online CPU, whose period changes every half second or so, so that
// no periodic work stays in step with the sampler.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { PERF_PERIODS = 16 }; // to choose from

struct perf_events;

/**
 * Are there hardware cycles to sample by? Returns the nanoseconds that 1024 of them take, 0 if the
 * CPU clock must do (most virtual machines).
 */
uint64_t perf_events_cycle_ns(void);

/** Told of each new period, just after the timer of @cpu was started with it at @since_ns. */
struct period_listener {
	void (*fn)(void *context, uint32_t cpu, uint64_t period_ns, uint64_t since_ns);
	void *context;
};

/**
 * Start ticks on all online CPUs, each running the BPF program @program_fd (which stays the
 * caller's). @ns_per_1024_cycles as perf_events_cycle_ns() said.
 */
int perf_events_open(uint32_t frequency_hz, uint64_t ns_per_1024_cycles, int program_fd,
		     const struct period_listener *listener, struct perf_events **ret_events,
		     struct error *err);
void perf_events_close(struct perf_events *events);

/**
 * Give the CPUs whose time has come another period; every few seconds, follow CPUs that went
 * online or offline.
 */
void perf_events_vary(struct perf_events *events, uint64_t now_ns);
/** From their next change on, within a second, the CPUs' periods are of this frequency. */
void perf_events_set_frequency(struct perf_events *events, uint32_t frequency_hz);
/** When perf_events_vary() has something to do next, by clock_monotonic_ns(). */
uint64_t perf_events_due_ns(const struct perf_events *events);

/**
 * The periods for @frequency_hz, in microseconds: primes, hence without common factors, spread
 * evenly over 35 % on both sides of 1 / @frequency_hz, whose mean is that within 1 %.
 */
void perf_periods_of(uint32_t frequency_hz, uint32_t ret_periods_us[PERF_PERIODS]);
