/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Maps and variables that BPF programs share with the agent.
#pragma once

#include "bpf/bpf_counters.h"
#include "bpf/kernel.h"
#include "bpf/sample.h"
#include "bpf/shared_variables.h"
#include "bpf/unwind/map_limits.h"
#include "bpf/unwind/process_layout.h"

/* Set before load. */
const volatile __u64 slot_ns = 20000000;  // length of a time slot
const volatile bool only_cycles = false;  // ticks count cycles: none on an idle CPU
const volatile bool only_targets = false; // --pid: only processes in target_pids
const volatile bool only_gil = false;     // record --gil: only threads that hold the GIL
/* Parts of the unwinder that older verifiers refuse. */
const volatile bool unwind_by_tables = true; // else frame pointers only
const volatile bool unwind_python = true;    // needs tables

/* Its own section: the agent makes all objects share one map for it. */
struct shared_variables shared SEC(".data.shared") = {};

/* By CPU. The agent updates it with each change of frequency. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // the agent sets the number of possible CPUs
	__type(key, __u32);
	__type(value, struct tick_period);
} tick_periods SEC(".maps");

/* Stack traces, snapshots and process events. The agent sets the size by the number of CPUs. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} records SEC(".maps");

/* The agent creates both maps and swaps them; it knows how many counts an export interval needs. */
struct counts_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(struct count_key)); // clang 14 drops an inner map's types
	__uint(value_size, sizeof(struct count));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct counts_map);
} counts_maps SEC(".maps");

/*
 * Programs inside each counts map. The kernel would wait for them when a counts_maps element changes, but
 * with an RCU grace period: in a storm of context switches the RCU thread may get no CPU for a minute.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts_users);
} counts_users SEC(".maps");

/*
 * Stack traces that the agent has. 65536 is some ten times what a busy node has between two sweeps of the
 * agent's stack table, and 6 MB of kernel memory.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SENT_STACKS_MAX);
	__type(key, struct stack_hash);
	__type(value, __u32);
} sent_stacks SEC(".maps");

/* The process of --pid and its later children, by tgid. One entry without --pid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} target_pids SEC(".maps");

/*
 * Unwind tables by number, each an array with the pages it needs. The agent creates them mmapable, to fill
 * them without a system call per page.
 */
struct unwind_table_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_INNER_MAP | BPF_F_MMAPABLE);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct table_page));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, UNWIND_TABLES_MAX);
	__type(key, __u32);
	__array(values, struct unwind_table_map);
} unwind_tables SEC(".maps");

/* The rules that table rows refer to. Number 0: no unwind information. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, UNWIND_RULES_MAX);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct unwind_rule);
} unwind_rules SEC(".maps");

/* Published by the agent, by tgid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, UNWIND_PROCESSES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct process_unwind);
} unwind_processes SEC(".maps");

/*
 * A forked child uses its parent's entry, by tgid, until the agent publishes its own. Old entries are left to
 * LRU eviction: the key inside shows whether an entry is stale.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, INHERITED_PROCESSES_MAX);
	__type(key, __u32);
	__type(value, struct process_unwind);
} inherited_processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, UNWIND_MAPPING_PAGES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct mapping_page_key);
	__type(value, struct mapping_page);
} mapping_pages SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counter_values);
} counters SEC(".maps");

static __always_inline int count_many(enum bpf_counter counter, __u64 amount)
{
	__u32 zero = 0;
	struct counter_values *values = bpf_map_lookup_elem(&counters, &zero);

	// Not atomic: a tick may interrupt a process event here, and one increment is lost. That is cheaper
	// than an atomic for every sample.
	if (values && counter < COUNTER_COUNT)
		values->of[counter] += amount;
	return 0;
}

static __always_inline int count(enum bpf_counter counter)
{
	return count_many(counter, 1);
}
