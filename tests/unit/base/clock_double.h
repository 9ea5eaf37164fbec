// SPDX-License-Identifier: Apache-2.0
// A double of base/clock.c. The calling thread's CPU time grows by thread_cpu_step_ns each time that it is read, however fast
// the machine is. Unix time is realtime_ns, if that is not 0. The other clocks are the real ones.
#pragma once

#include <time.h>

#include "base/clock.h"

static uint64_t thread_cpu_ns, thread_cpu_step_ns, realtime_ns;

static uint64_t read_real_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

uint64_t clock_realtime_ns(void)
{
	return realtime_ns ? realtime_ns : read_real_clock(CLOCK_REALTIME);
}

uint64_t clock_monotonic_ns(void)
{
	return read_real_clock(CLOCK_MONOTONIC);
}

uint64_t clock_coarse_ns(void)
{
	return read_real_clock(CLOCK_MONOTONIC_COARSE);
}

uint64_t clock_process_cpu_ns(void)
{
	return read_real_clock(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t clock_thread_cpu_ns(void)
{
	return thread_cpu_ns += thread_cpu_step_ns;
}
