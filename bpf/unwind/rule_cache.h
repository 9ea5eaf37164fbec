/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// The rules that were found last. Most samples of a process pass through the calls that others did
// before: one cache line then says what would take a search through four. Included by unwind.h.
#pragma once

/*
 * An address of a process as it was published last: every publication has a generation of its own,
 * and between two of them no table changes. All words are xored into the first: where two programs
 * were writing at the same time, one within the other, it belongs to no address.
 */
struct cached_rule {
	__u64 address_and_all;
	__u64 generation;
	__u64 rule[2];
};

/* A page of them. 64 KiB a CPU hold what PyTorch calls. */
#define RULE_CACHE_PAGES     4
#define RULE_CACHE_PAGE_BITS 9

struct rule_cache_page {
	struct cached_rule rules[1 << RULE_CACHE_PAGE_BITS];
};

_Static_assert(sizeof(struct cached_rule) == 32, "two in a cache line");
_Static_assert(sizeof(struct cached_rule) >= sizeof(struct unwind_rule) + 16, "a rule fits");
_Static_assert(sizeof(struct rule_cache_page) <= 32768, "the largest value of a per-CPU map");

/* Calls lie some bytes apart, functions at multiples of 16: the product's high bits mix all. */
UNWIND_INLINE __u32 rule_cache_index(__u64 address)
{
	return (address * 0x9e3779b97f4a7c15ULL) >> 48;
}

/* Has the address been looked up before? Then unwind->rule is its rule. */
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

/* Keep unwind->rule for its address. */
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
