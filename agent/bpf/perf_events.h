// SPDX-License-Identifier: Apache-2.0
// Sampling ticks: a perf event on each online CPU. Its period changes about once a second, so that no periodic
// work stays in step with it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { PERF_PERIODS = 16 }; // to choose from

struct perf_events;

/** Nanoseconds of 1024 hardware cycles; 0 if there is no cycle counter, as on most virtual machines. */
uint64_t perf_events_cycle_ns(void);

/** Called with each new period, just after the timer of @cpu got it, at @since_ns. */
struct period_listener {
	void (*fn)(void *context, uint32_t cpu, uint64_t period_ns, uint64_t since_ns);
	void *context;
};

/**
 * Start ticks on all online CPUs, each running the BPF program @program_fd (owned by the caller).
 * @ns_per_1024_cycles: of perf_events_cycle_ns().
 */
int perf_events_open(uint32_t frequency_hz, uint64_t ns_per_1024_cycles, int program_fd,
		     const struct period_listener *listener, struct perf_events **ret_events,
		     struct error *err);
void perf_events_close(struct perf_events *events);

/** Change the periods that are due; every few seconds, adapt to CPUs that came or went. */
void perf_events_vary(struct perf_events *events, uint64_t now_ns);
/** Takes effect with each CPU's next change of period, within CHANGE_MAX_NS. */
void perf_events_set_frequency(struct perf_events *events, uint32_t frequency_hz);
/** Stop all ticks, or let them go on. The first weight after a stop is a period's. */
void perf_events_set_running(struct perf_events *events, bool running);
/** When perf_events_vary() is due next, by clock_monotonic_ns(). */
uint64_t perf_events_due_ns(const struct perf_events *events);

/**
 * Periods for @frequency_hz in microseconds: primes, spread evenly by PERIOD_SPREAD around 1 / @frequency_hz,
 * whose mean differs by less than 1 %.
 */
void perf_periods_of(uint32_t frequency_hz, uint32_t ret_periods_us[PERF_PERIODS]);
