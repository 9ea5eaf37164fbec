// SPDX-License-Identifier: Apache-2.0
// A number that the kernel keeps for each control group and that only grows, followed for the groups
// of sampled processes and the groups above them, where a pod's quota is: for how long a group was
// throttled, how often a process of it was killed for want of memory. One thread.
//
// What a group's number grew by goes to one service: the one with the most processes in the group and
// below. So nothing is counted twice when several share a group. Of a group that came after the agent
// all counts; of an older one what it has done since.
#pragma once

#include <stdint.h>

#include "agent/process/process_table.h"
#include "agent/stacks/export_interval.h"
#include "base/error.h"

/** Time that threads of a group were ready to run, but held back by its quota, on all CPUs together. */

enum {
	CGROUPS_MAX = 4096, // a node has at most some 250 pods, of a few groups each
	CGROUP_MEMBERS_MAX = 16384,
	CGROUP_VALUES_MAX = 4096,  // what grew between two windows
	CGROUP_FORMERS_MAX = 8192, // groups that nobody sampled is in, whose count is remembered
	// Each takes some 10 us: 0.5 % of a CPU at most, for a second of all groups of a full node.
	CGROUP_READS_PER_SECOND = 500,
	// And no more than that: cpu.stat takes longer the more CPUs there are.
	CGROUP_NS_PER_SECOND = 5000000,
};

enum cgroup_counter_kind {
	CGROUP_COUNTER_THROTTLED,
	CGROUP_COUNTER_OOM_KILLS,
};

/** Counts, since it was opened. */
struct cgroup_counter_stats {
	uint64_t groups;      // followed now
	uint64_t refused;     // groups or processes there was no room for
	uint64_t unreachable; // processes whose group cannot be seen from here
	uint64_t reads;
	uint64_t put_off;      // passes that ended early because the readings took too long
	uint64_t values_lost;  // amounts that no window took in time, or that are nobody's
	uint64_t unremembered; // groups whose count could not be remembered
};

struct cgroup_counter_options {
	enum cgroup_counter_kind kind;
	struct process_table *processes; // outlives the counter
	const char *mountinfo;           // for tests; NULL: /proc/self/mountinfo
};

struct cgroup_counter;

/** Note what all groups have counted until now. Returns 0; -ENOENT without such groups; -errno. */
int cgroup_counter_open(const struct cgroup_counter_options *options,
			struct cgroup_counter **ret_counter, struct error *err);
/** NULL is allowed. */
void cgroup_counter_close(struct cgroup_counter *counter);

/** Look for new and exited processes five times a second, read what is due. Cheap otherwise. */
void cgroup_counter_tick(struct cgroup_counter *counter, uint64_t now_ns);

/** The window ends: read the groups that count, so that what they counted in it is told in it. */
void cgroup_counter_before_drain(struct cgroup_counter *counter);
/** Add what was counted since the last call. Returns 0 or a negative errno. */
int cgroup_counter_after_drain(struct cgroup_counter *counter, struct export_interval *interval);

void cgroup_counter_read_stats(const struct cgroup_counter *counter,
			       struct cgroup_counter_stats *ret_stats);
