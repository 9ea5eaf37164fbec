/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// The maps that the kernel programs share with the agent, what the agent sets before and while they
// run, and the counters.
#pragma once

#include "bpf/counters.h"
#include "bpf/kernel.h"
#include "bpf/sample.h"
#include "bpf/shared_variables.h"
#include "bpf/unwind/map_limits.h"
#include "bpf/unwind/process_layout.h"

/* Set before load. */
const volatile __u64 slot_ns = 20000000;  // length of a time slot
const volatile bool only_cycles = false;  // ticks are of cycles: none on an idle CPU
const volatile bool only_targets = false; // only processes in `target_pids`
/* Parts of the unwinder, left out where a verifier refuses them. */
const volatile bool unwind_by_tables = true; // else by frame pointers alone
const volatile bool unwind_python = true;    // needs tables

/* In a section of its own, which the agent makes one for all objects. */
struct shared_variables shared SEC(".data.shared") = {};

/* The period of each CPU's ticks, and since when: the agent writes it after each change. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // as many as there are possible CPUs
	__type(key, __u32);
	__type(value, struct tick_period);
} tick_periods SEC(".maps");

/* Stack bodies and process events. The agent sets the size by the number of CPUs. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} records SEC(".maps");

/* The two maps that take turns are made by the agent, which knows how many samples fit a window. */
struct counts_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(struct count_key)); // clang 14 leaves out an inner map's types
	__uint(value_size, sizeof(struct count));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct counts_map);
} counts_maps SEC(".maps");

/*
 * How many programs are in each just now. The kernel would wait for them, too, when an element of
 * counts_maps is changed, but for an RCU grace period: in a storm of context switches the thread that
 * ends these may get no CPU for a minute, and neither does who waits for it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts_users);
} counts_users SEC(".maps");

/*
 * Stacks whose body the agent has. 65536 is some ten times what a busy node shows between two
 * sweeps of the agent's stack table, and 6 MB of kernel memory.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SENT_STACKS_MAX);
	__type(key, struct stack_hash);
	__type(value, __u32);
} sent_stacks SEC(".maps");

/* The process that was asked for and its later children, by tgid. Of no use, and small, otherwise. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} target_pids SEC(".maps");

/*
 * Unwind tables by number, each in an array of its own that has just the pages it needs. The agent
 * makes them: an array that can be mapped is filled without a system call per page.
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

/* The rules that all tables' words refer to. Number 0 is for code without unwind information. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, UNWIND_RULES_MAX);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct unwind_rule);
} unwind_rules SEC(".maps");

/* What the agent has published of processes, by tgid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, UNWIND_PROCESSES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct process_unwind);
} unwind_processes SEC(".maps");

/*
 * What a forked process has of who forked it, by tgid, until the agent publishes its own. The least
 * recently used go first; the rest is left to that, for the key tells what is nobody's any more.
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
	__uint(max_entries, COUNTER_COUNT);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

static __always_inline int count_many(enum bpf_counter counter, __u64 amount)
{
	__u32 key = counter;
	__u64 *value = bpf_map_lookup_elem(&counters, &key);

	// A tick may interrupt a process event between load and store: one of the two is lost then,
	// which a counter can bear and an atomic instruction for every sample need not prevent.
	if (value)
		*value += amount;
	return 0;
}

static __always_inline int count(enum bpf_counter counter)
{
	return count_many(counter, 1);
}
