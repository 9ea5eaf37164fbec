/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Finds where a return address lies on the kernel stack, among copies of it.
//
// Calls that returned have left copies, at other places each time: the start of the stack is randomized on each system
// call. The first word that is equal may be a copy, and others soon overwrite it. The address itself stays where it is,
// and the first equal word is never behind it: a search that goes on from the word that was wrong finds it after a few
// captures, and stays there.
#pragma once

#include <linux/types.h>

/* Where the address was the last time, and where to look for it now. */
struct kernel_return {
	__u64 address; // 0: none
	__u64 word;    // offset from the tracepoint's arguments, in words
};

struct kernel_search {
	const __u64 *words;
	__u64 word_count;
	__u64 address;
	__u64 from;
	__u64 next; // the word after the one found; 0: not found
};

/* Begin to look for @address, behind @from. */
static inline __attribute__((always_inline)) void kernel_search_begin(
	struct kernel_search *search, __u64 address, const struct kernel_return *before, __u64 from)
{
	search->address = address;
	search->next = 0;
	search->from = from;
	if (before->address == address && before->word > from)
		search->from = before->word;
}

/* For bpf_loop(): looks at word @index. Returns whether that was enough. */
static inline __attribute__((always_inline)) long kernel_search_step(__u32 index,
								     struct kernel_search *search)
{
	if (index >= search->word_count)
		return 1;
	if (index < search->from || search->words[index] != search->address)
		return 0;
	search->next = index + 1;
	return 1;
}
