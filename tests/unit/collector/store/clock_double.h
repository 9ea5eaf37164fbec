// SPDX-License-Identifier: Apache-2.0
// A test double of the store's clocks: the system's, ahead by what the test says.
#pragma once

#include "base/clock.h"
#include "collector/store/store.h"

#define HOURS_NS(hours) ((hours)*3600LL * (int64_t)NS_PER_SECOND)

static int64_t realtime_ahead_ns, monotonic_ahead_ns;

static inline uint64_t double_realtime_ns(void)
{
	return clock_realtime_ns() + (uint64_t)realtime_ahead_ns;
}

static inline uint64_t double_monotonic_ns(void)
{
	return clock_monotonic_ns() + (uint64_t)monotonic_ahead_ns;
}

static const struct store_clock clock_double = { double_realtime_ns, double_monotonic_ns };

static inline void clock_reset(void)
{
	realtime_ahead_ns = monotonic_ahead_ns = 0;
}

/** Time passes: both clocks show it. */
static inline void clock_pass(uint64_t ns)
{
	realtime_ahead_ns += (int64_t)ns;
	monotonic_ahead_ns += (int64_t)ns;
}
