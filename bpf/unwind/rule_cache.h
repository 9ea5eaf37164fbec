/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// A cache of rules by code address. Most samples of a process pass through the same calls: one cache line
// replaces a search through four. Included by unwind.h.
#pragma once

/*
 * Each publication of a process has a generation of its own, and no table changes in between. All words are
 * xored into the first: if one program interrupts another while it writes, the entry matches no address.
 */
struct cached_rule {
	__u64 address_and_all;
	__u64 generation;
	__u64 rule[2];
};

/* 64 KiB per CPU hold PyTorch's calls. */
#define RULE_CACHE_PAGES     4
#define RULE_CACHE_PAGE_BITS 9

struct rule_cache_page {
	struct cached_rule rules[1 << RULE_CACHE_PAGE_BITS];
};

_Static_assert(sizeof(struct cached_rule) == 32, "two in a cache line");
_Static_assert(sizeof(struct cached_rule) >= sizeof(struct unwind_rule) + 16, "a rule fits");
_Static_assert(sizeof(struct rule_cache_page) <= 32768, "the largest value of a per-CPU map");

/* Calls are some bytes apart, functions at multiples of 16: the product's high bits mix both. */
UNWIND_INLINE __u32 rule_cache_index(__u64 address)
{
	return (address * 0x9e3779b97f4a7c15ULL) >> 48;
}

/* On a hit unwind->rule is the rule of @address. */
UNWIND_INLINE bool unwind_find_cached_rule(struct unwind *unwind, __u64 address)
{
	const struct cached_rule *known = unwind_cached_rule(address);
	__u64 *to = (__u64 *)&unwind->rule;
	__u64 first, second;

	if (!known || known->generation != unwind->process.generation)
		return false;
	first = known->rule[0];
	second = known->rule[1];
	if ((known->address_and_all ^ known->generation ^ first ^ second) != address)
		return false;
	to[0] = first;
	to[1] = second;
	return true;
}

UNWIND_INLINE void unwind_cache_rule(const struct unwind *unwind, __u64 address)
{
	struct cached_rule *known = unwind_cached_rule(address);
	const __u64 *rule = (const __u64 *)&unwind->rule;
	__u64 generation = unwind->process.generation;

	if (!known)
		return;
	known->address_and_all = address ^ generation ^ rule[0] ^ rule[1];
	known->generation = generation;
	known->rule[0] = rule[0];
	known->rule[1] = rule[1];
}
