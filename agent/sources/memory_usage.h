// SPDX-License-Identifier: Apache-2.0
// Resident memory and major faults of sampled processes, once a second. One thread.
//
// Resident memory (RSS) is that of /proc/PID/stat: shared pages count in each process. PSS would be right, but
// the kernel walks all pages for it: milliseconds for each process.
#pragma once

#include <stdint.h>

#include "agent/process/process_table.h"
#include "agent/stacks/export_interval.h"
#include "base/error.h"

enum {
	MEMORY_PROCESSES_MAX = 16384,
	// With more processes, those whose size changes are read each second, the others every few seconds in
	// turn; in between they keep their last value.
	MEMORY_READS_PER_SECOND = 256,
	// 0.5 % of a CPU. A read takes 5 us, and over 1 ms for a process with 10,000 threads.
	MEMORY_NS_PER_SECOND = 5000000,
	MEMORY_SECONDS_MAX =
		64, // of an export interval; of a longer one only the last are exported
};

/** Counts, since it was opened. */
struct memory_usage_stats {
	uint64_t processes; // tracked now
	uint64_t dropped;   // processes: table full
	uint64_t reads;
	uint64_t late; // reads of processes whose size changes, because of those two limits
};

struct memory_usage;

/** @processes outlives it. Returns 0 or -ENOMEM. */
int memory_usage_open(struct process_table *processes, struct memory_usage **ret_usage,
		      struct error *err);
/** NULL is allowed. */
void memory_usage_close(struct memory_usage *usage);

/** Read what is due; cheap when nothing is. @realtime_ns: Unix time at @now_ns. */
void memory_usage_tick(struct memory_usage *usage, uint64_t now_ns, uint64_t realtime_ns);

/** Add what was read since the last call. @realtime_ns: Unix time now. Returns 0 or a negative errno. */
int memory_usage_add(struct memory_usage *usage, struct export_interval *interval,
		     uint64_t realtime_ns);

void memory_usage_read_stats(const struct memory_usage *usage,
			     struct memory_usage_stats *ret_stats);

/** What /proc/PID/stat says about memory. */
struct memory_stat {
	uint64_t major_faults;
	uint64_t rss_pages;
	uint64_t start_ticks;
};

/** Read its one line. Returns 0 or -EBADMSG. */
int memory_stat_parse(const char *text, size_t size, struct memory_stat *ret_stat);
