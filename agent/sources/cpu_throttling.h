// SPDX-License-Identifier: Apache-2.0
// Time that cgroups were throttled by their CPU quota, as the kernel counts it. It is read for the cgroups
// of sampled processes and those above them, where a pod's quota is. One thread.
//
// A cgroup's increase goes to one service, the one with the most processes in it and below, so nothing is
// counted twice. A cgroup newer than the agent counts from 0; an older one from its baseline, its count when
// the agent started.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/process/process_table.h"
#include "agent/stacks/export_interval.h"
#include "base/error.h"

enum {
	CGROUPS_MAX = 4096, // a node has at most some 250 pods, of a few groups each
	CGROUP_MEMBERS_MAX = 16384,
	CGROUP_VALUES_MAX = 4096,    // increases in an export interval
	CGROUP_BASELINES_MAX = 8192, // baselines of cgroups without sampled processes
	// At some 10 us each, 0.5 % of a CPU: all cgroups of a full node within a second.
	CGROUP_READS_PER_SECOND = 500,
	// The same limit in time: cpu.stat takes longer the more CPUs there are.
	CGROUP_NS_PER_SECOND = 5000000,
};

/** Counts, since it was opened. */
struct cpu_throttling_stats {
	uint64_t groups;      // tracked now
	uint64_t dropped;     // cgroups or processes: table full
	uint64_t unreachable; // processes whose cgroup is not below the mount
	uint64_t reads;
	uint64_t passes_cut_short;  // passes that ended early: CPU time used up
	uint64_t values_dropped;    // increases: table full, or no process is known
	uint64_t baselines_dropped; // baselines: table full
	bool is_exposed;            // the host's cgroups can be written to where they are mounted
};

struct cpu_throttling_options {
	struct process_table *processes; // outlives it
	const char *mountinfo;           // for tests; NULL: /proc/self/mountinfo
};

struct cpu_throttling;

/** Read the baselines of all cgroups. Returns 0; -ENOENT without a mount; or another negative errno. */
int cpu_throttling_open(const struct cpu_throttling_options *options,
			struct cpu_throttling **ret_throttling, struct error *err);
/** NULL is allowed. */
void cpu_throttling_close(struct cpu_throttling *throttling);

/** Five times a second: find new and exited processes, read what is due. Cheap otherwise. */
void cpu_throttling_tick(struct cpu_throttling *throttling, uint64_t now_ns);

/** The export interval ends: read the cgroups that count, so that all their increase is in it. */
void cpu_throttling_before_drain(struct cpu_throttling *throttling);
/** Add what was counted since the last call. Returns 0 or a negative errno. */
int cpu_throttling_after_drain(struct cpu_throttling *throttling, struct export_interval *interval);

void cpu_throttling_read_stats(const struct cpu_throttling *throttling,
			       struct cpu_throttling_stats *ret_stats);
