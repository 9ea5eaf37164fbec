/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// What the unwinder reads, from BPF maps that the agent fills. The program defines read_user().
#pragma once

#include "bpf/process/published_process.bpf.h"
#include "bpf/maps.bpf.h"

/* Field offsets of interpreter builds, by number; 0: none. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PYTHON_RUNTIMES_MAX);
	__type(key, __u32);
	__type(value, struct python_offsets);
} python_runtimes SEC(".maps");

#include "bpf/unwind/unwind.h"

/*
 * RULE_CACHE_SETS for each CPU. Not a per-CPU array, whose values begin anywhere: a set is to be one cache line, and
 * the values of a map that can be mapped begin with a page.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RULE_CACHE_SETS); // the agent sets it by the number of possible CPUs
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct cached_rules);
} rule_cache SEC(".maps");

static __always_inline const struct mapping_page *unwind_mapping_page(const struct unwind *unwind,
								      __u32 page)
{
	struct mapping_page_key key = {
		.pid = unwind->process.pages_pid,
		.generation = unwind->process.generation,
		.page = page,
	};

	return bpf_map_lookup_elem(&mapping_pages, &key);
}

static __always_inline void *unwind_table(__u32 table)
{
	return bpf_map_lookup_elem(&unwind_tables, &table);
}

static __always_inline const struct table_page *unwind_table_page(void *table, __u32 page)
{
	return bpf_map_lookup_elem(table, &page);
}

static __always_inline const struct unwind_rule *unwind_rule_at(__u32 rule)
{
	return bpf_map_lookup_elem(&unwind_rules, &rule);
}

static __always_inline struct cached_rules *unwind_cached_rules(__u64 address)
{
	__u32 at = bpf_get_smp_processor_id() * RULE_CACHE_SETS + rule_cache_index(address);

	return bpf_map_lookup_elem(&rule_cache, &at);
}

static __always_inline const struct python_offsets *python_offsets_at(__u32 runtime)
{
	return bpf_map_lookup_elem(&python_runtimes, &runtime);
}

static __always_inline void find_unwind_process(struct unwind *unwind,
						const struct process_key *key)
{
	const struct process_unwind *process = find_published_process(key);

	unwind->process.key = *key;
	unwind->process.mapping_page_count = 0;
	unwind->process.generation = 0;
	unwind->process.python.runtime = 0;
	if (process)
		unwind->process = *process;
}
