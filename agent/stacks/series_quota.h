// SPDX-License-Identifier: Apache-2.0
// How many thread names and series one process may make, over export intervals: a process names its threads as it
// likes, and each series costs the collector memory for as long as it keeps data. What is past a quota goes to the
// thread "other", so that sums stay right. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/sample.h"

enum {
	PROCESS_THREAD_NAMES_MAX = 32, // per process, numbers folded; JVMs have some 20
	PROCESS_SERIES_MAX =
		512, // per process; one with 30 thread names and many wait classes has 300
};
#define SERIES_QUOTA_BYTES_MAX \
	(32ULL << 20) // for all processes that run; some 100,000 with 10 series each

struct series_quota;

/** NULL when out of memory. */
struct series_quota *series_quota_new(void);
void series_quota_free(struct series_quota *quota);

/** May the process have this thread name? @name is a hash of it. One that it has already it may. */
bool series_quota_admit_name(struct series_quota *quota, const struct process_key *process,
			     uint64_t name);
/** The same for a series. */
bool series_quota_admit_series(struct series_quota *quota, const struct process_key *process,
			       uint64_t series);

/**
 * Free what was not used for an hour, and processes that have ended: those that @is_known has freed. Call it once per
 * export interval; it looks once a minute.
 */
void series_quota_expire(struct series_quota *quota, uint64_t now_ns,
			 bool (*is_known)(void *context, const struct process_key *process),
			 void *context);

uint32_t series_quota_process_count(const struct series_quota *quota);
