// SPDX-License-Identifier: Apache-2.0
// Memory of sampled processes, once a second: how much of it is resident, and how often they waited for
// it to be read from a disk. One thread.
//
// Resident memory is /proc/PID/stat's: what processes share is in each of them. The proportional set
// size would be right, but it takes the kernel a walk over all pages: milliseconds for each process.
#pragma once

#include <stdint.h>

#include "agent/process/process_table.h"
#include "agent/stacks/export_interval.h"
#include "base/error.h"

enum {
	MEMORY_PROCESSES_MAX = 16384,
	// Where there are more, those whose size changes are read each second, and the others every few
	// seconds, in turn; each has its last value in between.
	MEMORY_READS_PER_SECOND = 256,
	// 0.5 % of a CPU. A reading takes 5 us, and more than 1 ms of a process with 10,000 threads.
	MEMORY_NS_PER_SECOND = 5000000,
	MEMORY_SECONDS_MAX = 64, // between two windows; of a longer one only the last are told
};

/** Counts, since it was opened. */
struct memory_usage_stats {
	uint64_t processes; // followed now
	uint64_t refused;   // that there was no room for
	uint64_t reads;
	uint64_t late; // readings of processes whose size changes, for want of those two
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

/** What /proc/PID/stat tells about memory. */
struct memory_stat {
	uint64_t major_faults;
	uint64_t rss_pages;
	uint64_t start_ticks;
};

/** Read its one line. Returns 0 or -EBADMSG. */
int memory_stat_parse(const char *text, size_t size, struct memory_stat *ret_stat);
