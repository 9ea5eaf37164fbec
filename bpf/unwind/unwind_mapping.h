/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Looks up the code at an address of the unwound process. Included by unwind.h.
#pragma once

/*
 * Keeps the compiler from turning arithmetic into branches: the verifier would follow both sides of each, a
 * thousand paths for the ten steps of a search.
 */
#define HIDE_FROM_COMPILER(variable) asm volatile("" : "+r"(variable))

/* ~0 if @first <= @second, else 0. Both are below 2^63. */
UNWIND_INLINE __u64 mask_if_not_above(__u64 first, __u64 second)
{
	__u64 difference = second - first, mask;

	// Else the compiler sees a comparison and branches on it.
	HIDE_FROM_COMPILER(difference);
	mask = (difference >> 63) - 1;
	HIDE_FROM_COMPILER(mask);
	return mask;
}

/* The last entry of @page that starts at or below @address, else entry 0. */
UNWIND_INLINE __u32 mapping_page_search(const struct mapping_page *page, __u64 address)
{
	__u64 at = 0;

#pragma clang loop unroll(disable)
	for (__u32 step = MAPPING_PAGE_ENTRIES / 2; step; step /= 2) {
		__u64 next = at + step;

		HIDE_FROM_COMPILER(next); // keep the bound
		next &= MAPPING_PAGE_ENTRIES - 1;
		at += step & mask_if_not_above(page->starts[next], address);
	}
	HIDE_FROM_COMPILER(at);
	return at & (MAPPING_PAGE_ENTRIES - 1);
}

/* Returns enum mapping_code or a table; sets unwind->mapping. */
UNWIND_INLINE __u32 unwind_find_mapping(struct unwind *unwind, __u64 address)
{
	struct unwind_mapping *mapping = &unwind->mapping;
	const struct mapping_page *page;
	__u32 at, code;

	if (address - mapping->start < mapping->size)
		return mapping->code;
	if (address >= USER_ADDRESS_LIMIT)
		return MAPPING_CODE_UNKNOWN;
	page = unwind_mapping_page(unwind, 0);
	if (!page)
		return MAPPING_CODE_UNKNOWN;
	at = mapping_page_search(page, address);
	if (unwind->process.mapping_page_count > 1) {
		page = unwind_mapping_page(unwind, at + 1);
		if (!page)
			return MAPPING_CODE_UNKNOWN;
		at = mapping_page_search(page, address);
	}
	mapping->start = page->starts[at];
	mapping->size = (__u64)page->ranges[at].units << MAPPING_UNIT_BITS;
	mapping->bias = page->ranges[at].bias;
	mapping->code = page->ranges[at].code;
	code = address - mapping->start < mapping->size ? mapping->code : MAPPING_CODE_UNKNOWN;
	// Not cached: an unknown mapping's end is unknown, a rule's range has a rounded size.
	if (code == MAPPING_CODE_UNKNOWN || code == MAPPING_CODE_RULE)
		mapping->size = 0;
	return code;
}

/* The rule encoded in @bias, which is not 0. */
UNWIND_INLINE void unwind_load_range_rule(struct unwind_rule *rule, __u64 bias)
{
	__s32 fp_offset = (__s32)(bias >> 32);

	rule->cfa = CFA_REGISTER;
	rule->cfa_register = bias & MAPPING_RULE_BY_FP ? REGISTER_FP : REGISTER_SP;
	rule->saved = SAVED_AT_CFA << 4 | (fp_offset ? SAVED_AT_CFA : SAVED_SAME);
	rule->flags = RULE_JIT;
	rule->cfa_offset = (__s32)(bias & MAPPING_RULE_CFA_OFFSET);
	rule->fp_offset = fp_offset;
	rule->return_offset = -8;
	rule->deref_offset = 0;
}
