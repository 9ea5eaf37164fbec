/* SPDX-License-Identifier: GPL-2.0-only */
// The last switch on each CPU, and what its captures have cost.
#pragma once

#include "bpf/kernel.h"
#include "bpf/switch/unwind_budget.h"

struct switch_cpu {
	__u64 since_ns;         // the last switch on this CPU
	__u64 running_since_ns; // the one before
	__u64 check_due_ns;     // when a cache hit may be checked again
	struct unwind_budget budget;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct switch_cpu);
} switch_cpus SEC(".maps");
