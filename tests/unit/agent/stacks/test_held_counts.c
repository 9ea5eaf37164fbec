// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/held_counts.h"

#include <errno.h>

#include "tests/test.h"

struct sum {
	struct held_counts *held;
	uint64_t value;
	uint32_t calls;
	int rc;
	bool again;
};

static int add(void *context, const struct count_key *key, const struct count *count)
{
	struct sum *sum = context;

	sum->value += count->value * key->slot;
	sum->calls++;
	if (sum->again)
		assert_true(held_counts_add(sum->held, key, count));
	return sum->rc;
}

static bool hold(struct held_counts *held, uint64_t slot, uint64_t value)
{
	const struct count_key key = { .slot = slot };
	const struct count count = { .value = value };

	return held_counts_add(held, &key, &count);
}

TEST(gives_back_what_it_kept)
{
	struct held_counts *held = held_counts_new();
	struct sum sum = { .held = held, .again = true };

	assert_true(hold(held, 1, 5));
	assert_true(hold(held, 10, 7));
	assert_int_equal(0, held_counts_release(held, add, &sum));
	assert_int_equal(75, sum.value);
	sum.again = false; // they were kept back again
	assert_int_equal(0, held_counts_release(held, add, &sum));
	assert_int_equal(150, sum.value);
	assert_int_equal(0, held_counts_release(held, add, &sum));
	assert_int_equal(4, sum.calls);
	held_counts_free(held);
}

TEST(is_bounded_and_counts_the_rest)
{
	struct held_counts *held = held_counts_new();
	struct sum sum = { 0 };

	for (uint32_t i = 0; i < HELD_COUNTS_MAX; i++)
		assert_true(hold(held, 1, 1));
	assert_false(hold(held, 1, 1));
	assert_int_equal(1, held_counts_full(held));
	assert_int_equal(0, held_counts_release(held, add, &sum));
	assert_int_equal(HELD_COUNTS_MAX, sum.calls);
	assert_true(hold(held, 1, 1));
	held_counts_free(held);
}

TEST(a_failure_ends_the_release)
{
	struct held_counts *held = held_counts_new();
	struct sum sum = { .rc = -ENOMEM };

	assert_true(hold(held, 1, 1));
	assert_true(hold(held, 1, 1));
	assert_int_equal(-ENOMEM, held_counts_release(held, add, &sum));
	assert_int_equal(1, sum.calls);
	held_counts_free(held);
}

TEST(keeps_nothing_back_at_the_end)
{
	struct held_counts *held = held_counts_new();
	struct sum sum = { 0 };

	assert_true(hold(held, 1, 1));
	held_counts_stop(held);
	assert_false(hold(held, 1, 1));
	assert_int_equal(0, held_counts_full(held));
	assert_int_equal(0, held_counts_release(held, add, &sum));
	assert_int_equal(1, sum.calls);
	held_counts_free(held);
}

RUN_TESTS(cmocka_unit_test(gives_back_what_it_kept),
	  cmocka_unit_test(is_bounded_and_counts_the_rest),
	  cmocka_unit_test(a_failure_ends_the_release),
	  cmocka_unit_test(keeps_nothing_back_at_the_end))
