// SPDX-License-Identifier: Apache-2.0
// The clocks that cairn uses, in nanoseconds.
#pragma once

#include <stdint.h>

#include "base/time_span.h"

#define NS_PER_SECOND 1000000000ULL
#define NS_PER_MS     1000000ULL
#define NS_PER_US     1000ULL

/** Unix time: what is stored and shown. */
uint64_t clock_realtime_ns(void);
/** Time since boot without suspend, the kernel's bpf_ktime_get_ns(): what durations are measured with. */
uint64_t clock_monotonic_ns(void);
/** The same as of the kernel's last tick, up to 10 ms ago; a third of the cost. Compare by ns_between(). */
uint64_t clock_coarse_ns(void);
/** CPU time that the calling process has used, user and system. */
uint64_t clock_process_cpu_ns(void);
/** The same of the calling thread. */
uint64_t clock_thread_cpu_ns(void);
