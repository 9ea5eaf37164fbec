/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// A cache of rules by code address. Most samples of a process pass through the same calls: one cache line
// replaces a search through four. Included by unwind.h.
#pragma once

#include "bpf/unwind/map_limits.h"

/*
 * Each publication of a process has a generation of its own, and no table changes in between. All words are
 * xored into the first: if one program interrupts another while it writes, the entry matches no address.
 */
struct cached_rule {
	__u64 address_and_all;
	__u64 generation;
	__u64 rule[2];
};

/* Addresses that share a set would evict each other in each sample: it has room for two, in one cache line. */
struct cached_rules {
	struct cached_rule ways[2]; // the newest first
};

_Static_assert(sizeof(struct cached_rules) == 64, "a cache line");
_Static_assert(sizeof(struct cached_rule) >= sizeof(struct unwind_rule) + 16, "a rule fits");

/* Calls are some bytes apart, functions at multiples of 16: the product's high bits mix both. */
UNWIND_INLINE __u32 rule_cache_index(__u64 address)
{
	return (address * 0x9e3779b97f4a7c15ULL) >> (64 - RULE_CACHE_BITS);
}

/* Sets the words of the rule, whether it is the wanted one or not. */
UNWIND_INLINE bool cached_rule_is_of(const struct cached_rule *known, __u64 generation,
				     __u64 address, __u64 *first, __u64 *second)
{
	*first = known->rule[0];
	*second = known->rule[1];
	return known->generation == generation &&
	       (known->address_and_all ^ generation ^ *first ^ *second) == address;
}

/* True if the rule at @address is cached: its words. */
UNWIND_INLINE bool unwind_find_cached_rule(const struct unwind *unwind, __u64 address, __u64 *first,
					   __u64 *second)
{
	const struct cached_rules *rules = unwind_cached_rules(address);
	__u64 generation = unwind->process.generation;

	if (!rules)
		return false;
	return cached_rule_is_of(&rules->ways[0], generation, address, first, second) ||
	       cached_rule_is_of(&rules->ways[1], generation, address, first, second);
}

UNWIND_INLINE void unwind_cache_rule(const struct unwind *unwind, __u64 address)
{
	struct cached_rules *rules = unwind_cached_rules(address);
	const __u64 *rule = (const __u64 *)&unwind->rule;
	__u64 generation = unwind->process.generation;

	if (!rules)
		return;
	rules->ways[1] = rules->ways[0];
	rules->ways[0].address_and_all = address ^ generation ^ rule[0] ^ rule[1];
	rules->ways[0].generation = generation;
	rules->ways[0].rule[0] = rule[0];
	rules->ways[0].rule[1] = rule[1];
}
