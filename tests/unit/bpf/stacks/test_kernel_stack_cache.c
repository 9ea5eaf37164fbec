// SPDX-License-Identifier: Apache-2.0
// The cache of kernel stacks: it knows a stack by the places of its return addresses, and by nothing that an earlier
// call has left there.

#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

// Pragmas for clang, which compiles BPF.
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#include "bpf/stacks/kernel_stack_cache.h"

/* Addresses in the kernel. */
#define AT(number) (0xffffffff81000000ULL + (number))

enum { HASH = 77 };

static struct kernel_stack_top stack_of(uint64_t pc, const uint64_t *words, uint32_t count)
{
	struct kernel_stack_top at = { .pc = pc, .top = words[count - 1], .word_count = count };

	memcpy(at.words, words, count * sizeof(*words));
	return at;
}

// As bpf/stacks/kernel_stack_cache.bpf.h does it; false: the stack cannot be cached.
static bool cache(const struct kernel_stack_top *at, const uint64_t *callers, uint32_t count,
		  uint64_t hash, struct kernel_stack_entry *entry)
{
	static uint64_t readable[KERNEL_DEPTH_MAX + 1];
	struct kernel_cache_search search = { .at = at, .callers = (const __u64 *)readable };
	struct stack_hash of = { hash, hash };

	memcpy(readable, callers, count * sizeof(*callers));
	search.count = callers[count - 1] == at->top ? count - 1 : count;
	for (uint32_t i = 0; i < KERNEL_CACHE_WORDS && !kernel_cache_look_at(&search, i); i++)
		;
	if (search.found != search.count)
		return false;
	kernel_cache_fill(entry, at, search.word_count, &of);
	return true;
}

static bool matches(const struct kernel_stack_entry *entry, const struct kernel_stack_top *at)
{
	struct stack_hash hash = { 0, 0 };

	return kernel_cache_matches(entry, at, &hash) && hash.high == HASH && hash.low == HASH;
}

TEST(knows_a_stack_by_its_return_addresses)
{
	const uint64_t words[] = { 5, AT(0xa1), 6, 7, AT(0xb1), 8, AT(0xc1), 9, AT(0xd1) };
	const uint64_t callers[] = { AT(0xa1), AT(0xb1), AT(0xc1), AT(0xd1) };
	struct kernel_stack_top at = stack_of(AT(0), words, 9), other;
	struct kernel_stack_entry entry = { 0 };

	EXPECT_EQ(false, matches(&entry, &at), "a free entry");
	EXPECT_EQ(true, cache(&at, callers, 4, HASH, &entry), "cached");
	EXPECT_EQ(true, matches(&entry, &at), "the same");
	other = at;
	other.words[2] = other.words[5] = 99;
	EXPECT_EQ(true, matches(&entry, &other), "other variables");
	other.words[3] = AT(0xe1);
	EXPECT_EQ(false, matches(&entry, &other), "what may be a return address, too");
	for (int i = 1; i < 9; i += i == 1 ? 3 : 2) {
		other = at;
		other.words[i] ^= 0x10;
		other.top = other.words[8];
		EXPECT_EQ(false, matches(&entry, &other), "another caller");
	}
	other = at;
	other.words[0] = AT(0xa1);
	other.words[1] = 5;
	EXPECT_EQ(false, matches(&entry, &other), "the same callers, other frames");
	other = at;
	other.pc++;
	EXPECT_EQ(false, matches(&entry, &other), "another instruction");
	other = at;
	other.word_count = 4;
	EXPECT_EQ(false, matches(&entry, &other), "words of an earlier sample, beyond the end");
}

TEST(system_calls_begin_at_random_places)
{
	const uint64_t words[] = { AT(0xa1), 5, AT(0xb1), AT(0xc1) };
	const uint64_t moved[] = { AT(0xa1), 5, AT(0xb1), AT(0xa1), 2, 3, AT(0xc1) };
	const uint64_t callers[] = { AT(0xa1), AT(0xb1), AT(0xc1) };
	struct kernel_stack_top at = stack_of(AT(0), words, 4), later = stack_of(AT(0), moved, 7);
	struct kernel_stack_entry entry = { 0 };

	EXPECT_EQ(true, cache(&at, callers, 3, HASH, &entry), "cached");
	EXPECT_EQ(true, matches(&entry, &later), "three words farther from the user registers");
}

TEST(what_earlier_calls_left_is_compared)
{
	const uint64_t words[] = { AT(0xa1), AT(0xb1), 5, AT(0xb1), AT(0xc1) };
	const uint64_t callers[] = { AT(0xa1), AT(0xb1), AT(0xc1) };
	struct kernel_stack_top at = stack_of(AT(0), words, 5), other = at;
	struct kernel_stack_entry entry = { 0 };

	EXPECT_EQ(true, cache(&at, callers, 3, HASH, &entry), "cached");
	other.words[1] = 5;
	EXPECT_EQ(false, matches(&entry, &other), "one of the two that may be meant");
	other = at;
	other.words[3] = 5;
	EXPECT_EQ(false, matches(&entry, &other), "the other one");
}

TEST(stacks_with_replaced_addresses_are_not_cached)
{
	const uint64_t words[] = { AT(0xa1), 5, AT(0xb1), AT(0xc1) };
	struct kernel_stack_top at = stack_of(AT(0), words, 4);
	struct kernel_stack_entry entry = { 0 };

	EXPECT_EQ(false,
		  cache(&at, (const uint64_t[]){ AT(0xa1), AT(0xd1), AT(0xc1) }, 3, HASH, &entry),
		  "a tracer has replaced the second");
	EXPECT_EQ(false,
		  cache(&at, (const uint64_t[]){ AT(0xb1), AT(0xa1), AT(0xc1) }, 3, HASH, &entry),
		  "another order");
}

TEST(a_mix_of_two_entries_matches_nothing)
{
	const uint64_t words[] = { AT(0xa1), 5, AT(0xb1), AT(0xc1) };
	struct kernel_stack_top at = stack_of(AT(0), words, 4);
	struct kernel_stack_entry whole = { 0 }, other = { 0 };

	EXPECT_EQ(true,
		  cache(&at, (const uint64_t[]){ AT(0xa1), AT(0xb1), AT(0xc1) }, 3, HASH, &whole),
		  "cached");
	EXPECT_EQ(true, cache(&at, (const uint64_t[]){ AT(0xa1), AT(0xc1) }, 2, HASH + 1, &other),
		  "cached");
	for (size_t i = 8; i < sizeof(whole); i += 8) {
		struct kernel_stack_entry mix = whole;
		struct stack_hash hash;

		memcpy((char *)&mix + i, (char *)&other + i, sizeof(mix) - i);
		EXPECT_EQ(false, kernel_cache_matches(&mix, &at, &hash), "half written");
	}
}

/* ---- a simulated kernel ------------------------------------------------------------------------ */

enum {
	SITES = 60,   // calls in the kernel, each in a frame of its own size
	LEAVES = 12,  // instructions that are interrupted
	DEPTH = 8,    // frames of the deepest stack
	GAP_MAX = 32, // words below the user registers in a system call
	BITS = 10,
	SAMPLES = 400000,
};

// From the return address of the function that has this instruction down to what it calls.
static uint32_t frame_words(uint64_t pc)
{
	return 1 + (pc * 2654435761U >> 8) % 11;
}

// The frame of an instruction, below @at: variables, and one word in eight that the function never writes.
static uint32_t enter_frame(uint64_t *stack, uint32_t at, uint32_t words, uint64_t pc)
{
	for (uint32_t i = 1; i <= words; i++) {
		if (((pc + i * 40503U) >> 4) % 8)
			stack[at - i] = (uint64_t)random();
	}
	return at - words;
}

/*
 * A random system call on a stack that keeps what earlier calls have left. do_syscall_64() has a frame of a random
 * size. Returns the number of callers, leaf's first.
 */
static uint32_t call_at_random(uint64_t *stack, uint32_t words, struct kernel_stack_top *ret_at,
			       uint64_t *ret_callers)
{
	uint32_t count = 3 + (uint32_t)random() % (DEPTH - 2), at = words;
	uint64_t site = (uint64_t)random() % 4, pc;

	stack[--at] = ret_callers[count - 1] = AT(0x300000);
	at -= (uint32_t)random() % GAP_MAX;
	stack[--at] = ret_callers[count - 2] = AT(0x400000);
	for (uint32_t i = count - 2; i-- > 0;) {
		uint64_t caller = AT(0x100000) + site * 16;

		at = enter_frame(stack, at, frame_words(caller), caller);
		stack[--at] = ret_callers[i] = caller;
		site = (site * 7 + (uint64_t)random() % 2) % SITES;
	}
	pc = AT(0x200000) + site % LEAVES;
	at = enter_frame(stack, at, frame_words(pc), pc);
	*ret_at = stack_of(pc, stack + at, words - at);
	return count;
}

static uint64_t hash_of(const uint64_t *callers, uint32_t count)
{
	uint64_t hash = count;

	for (uint32_t i = 0; i < count; i++)
		hash = kernel_cache_mix(hash, callers[i]);
	return hash;
}

TEST(cached_stacks_are_those_that_were_called)
{
	static struct kernel_stack_set sets[1 << BITS];
	static uint64_t stack[KERNEL_CACHE_WORDS];
	uint32_t hits = 0, wrong = 0;

	srandom(3);
	for (uint32_t i = 0; i < SAMPLES; i++) {
		uint64_t callers[DEPTH + 1];
		struct kernel_stack_top at;
		struct stack_hash found;
		uint32_t count = call_at_random(stack, KERNEL_CACHE_WORDS, &at, callers);
		struct kernel_stack_set *set = &sets[kernel_cache_index(&at, 1, BITS)];
		struct kernel_stack_entry entry = { 0 };

		if (kernel_cache_matches(&set->ways[0], &at, &found) ||
		    kernel_cache_matches(&set->ways[1], &at, &found)) {
			hits++;
			wrong += found.high != hash_of(callers, count);
		} else if (cache(&at, callers, count, hash_of(callers, count), &entry)) {
			set->ways[1] = set->ways[0];
			set->ways[0] = entry;
		}
	}
	printf("# %u hits in %u samples, %u wrong\n", hits, SAMPLES, wrong);
	EXPECT_EQ(true, hits > SAMPLES / 100, "it is of use");
	EXPECT_EQ(true, wrong * 10000.0 <= hits, "wrong ones are at most one in 10,000");
}

RUN_TESTS(cmocka_unit_test(knows_a_stack_by_its_return_addresses),
	  cmocka_unit_test(system_calls_begin_at_random_places),
	  cmocka_unit_test(what_earlier_calls_left_is_compared),
	  cmocka_unit_test(stacks_with_replaced_addresses_are_not_cached),
	  cmocka_unit_test(a_mix_of_two_entries_matches_nothing),
	  cmocka_unit_test(cached_stacks_are_those_that_were_called))
