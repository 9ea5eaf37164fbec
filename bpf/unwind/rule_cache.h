/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// A cache of rules by code address. Most samples of a process pass through the same code: one cache line replaces a
// search through four. Most often one rule holds in all of a line of code, as functions set up their frame once: it is cached for
// the line, so that a loop's leaves find it, too, and the calls in it share it. Included by unwind.h.
#pragma once

#include "bpf/unwind/map_limits.h"

/* Where each line of code has a set of its own. A power of two that divides TABLE_BLOCK_BYTES. */
#define CODE_LINE_BITS  6
#define CODE_LINE_BYTES (1ULL << CODE_LINE_BITS)
/* What a line's rule is cached by in place of an address: addresses are below. */
#define CODE_LINE_FLAG (1ULL << 63)

/*
 * Each publication of a process has a generation of its own, and no table changes in between. All words are
 * xored into the first: if one program interrupts another while it writes, the entry matches no address.
 */
struct cached_rule {
	__u64 code_and_all; // an address, or a line
	__u64 generation;
	__u64 rule[2];
};

/* Addresses that share a set would evict each other in each sample: it has room for two, in one cache line. */
struct cached_rules {
	struct cached_rule ways[2]; // the newest first
};

_Static_assert(sizeof(struct cached_rules) == 64, "a cache line");
_Static_assert(sizeof(struct cached_rule) >= sizeof(struct unwind_rule) + 16, "a rule fits");

UNWIND_INLINE __u32 rule_cache_index(__u64 address)
{
	return ((address >> CODE_LINE_BITS) * 0x9e3779b97f4a7c15ULL) >> (64 - RULE_CACHE_BITS);
}

UNWIND_INLINE __u64 code_line(__u64 address)
{
	return address >> CODE_LINE_BITS | CODE_LINE_FLAG;
}

/* Sets the words of the rule, whether it is the wanted one or not. */
UNWIND_INLINE bool cached_rule_is_of(const struct cached_rule *known, __u64 generation,
				     __u64 address, __u64 *first, __u64 *second)
{
	__u64 code;

	*first = known->rule[0];
	*second = known->rule[1];
	code = known->code_and_all ^ generation ^ *first ^ *second;
	return known->generation == generation && (code == address || code == code_line(address));
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

/* For @address alone, or, if all bits of @fills_line are set, for its line. */
UNWIND_INLINE void unwind_cache_rule(const struct unwind *unwind, __u64 address, __u64 fills_line)
{
	struct cached_rules *rules = unwind_cached_rules(address);
	const __u64 *rule = (const __u64 *)&unwind->rule;
	__u64 generation = unwind->process.generation;
	__u64 code = address ^ ((address ^ code_line(address)) & fills_line);

	if (!rules)
		return;
	rules->ways[1] = rules->ways[0];
	rules->ways[0].code_and_all = code ^ generation ^ rule[0] ^ rule[1];
	rules->ways[0].generation = generation;
	rules->ways[0].rule[0] = rule[0];
	rules->ways[0].rule[1] = rule[1];
}
