// SPDX-License-Identifier: Apache-2.0
#include "bpf/switch/kernel_search.h"

#include "tests/test.h"

enum { WORDS = 128, CAPTURES_MAX = 100 };

#define ADDRESS 0xffffffff81234567ULL

/* As the kernel's stack at a switch: the address at @place, and @copies of it anywhere. */
static void fill(uint64_t words[WORDS], uint64_t place, uint32_t copies)
{
	memset(words, 0, WORDS * sizeof(*words));
	for (uint32_t i = 0; i < copies; i++)
		words[(uint64_t)random() % WORDS] = ADDRESS;
	words[place] = ADDRESS;
}

/* As cache_kernel_return(). Returns the word; WORDS: none. */
static uint64_t capture(const uint64_t words[WORDS], const struct kernel_return *before,
			uint64_t from)
{
	struct kernel_search search = { .words = (const __u64 *)words, .word_count = WORDS };

	kernel_search_begin(&search, ADDRESS, before, from);
	for (uint32_t i = 0; i < WORDS && !kernel_search_step(i, &search); i++)
		;
	return search.next ? search.next - 1 : WORDS;
}

TEST(finds_an_address_among_copies_of_it)
{
	uint64_t words[WORDS];

	srandom(1);
	for (uint32_t round = 0; round < 1000; round++) {
		uint64_t place = 40 + (uint64_t)random() % 40;
		struct kernel_return at = { 0 };
		uint32_t captures = 0;

		for (uint32_t switches = 0; switches < 1000; switches++) {
			fill(words, place, 4);
			if (at.address && words[at.word] == ADDRESS)
				continue; // a hit
			at.word = capture(words, &at, 0);
			at.address = ADDRESS;
			assert_true(at.word <= place);
			captures++;
		}
		assert_int_equal(place, at.word);
		assert_true(captures < CAPTURES_MAX);
	}
}

TEST(begins_anew_with_another_address)
{
	const struct kernel_return other = { .address = ADDRESS + 1, .word = 60 };
	const struct kernel_return same = { .address = ADDRESS, .word = 60 };
	uint64_t words[WORDS];

	fill(words, 50, 0);
	assert_int_equal(50, capture(words, &other, 0));
	assert_int_equal(WORDS, capture(words, &same, 0));
	assert_int_equal(WORDS, capture(words, &other, 51));
	words[70] = ADDRESS;
	assert_int_equal(70, capture(words, &other, 51));
	assert_int_equal(70, capture(words, &same, 0));
}

TEST(looks_at_no_word_behind_the_last)
{
	uint64_t words[WORDS + 1];
	struct kernel_search search = { .words = (const __u64 *)words, .word_count = WORDS };

	fill(words, 0, 0);
	words[0] = 0;
	words[WORDS] = ADDRESS;
	kernel_search_begin(&search, ADDRESS, &(struct kernel_return){ 0 }, 0);
	assert_int_equal(1, kernel_search_step(WORDS, &search));
	assert_int_equal(0, search.next);
}

RUN_TESTS(cmocka_unit_test(finds_an_address_among_copies_of_it),
	  cmocka_unit_test(begins_anew_with_another_address),
	  cmocka_unit_test(looks_at_no_word_behind_the_last))
