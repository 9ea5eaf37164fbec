// SPDX-License-Identifier: Apache-2.0
#include "base/shared_array.h"

#include "tests/test.h"

TEST(readers_keep_the_block_that_they_hold)
{
	uint32_t *numbers = NULL, capacity = 0, count = 0;
	const uint32_t *held = NULL;

	for (; count < 1000; count++) {
		assert_int_equal(0, shared_array_reserve(&numbers, sizeof(*numbers), &capacity,
							 count, 1, 2000));
		numbers[count] = count;
		if (count == 9)
			held = shared_array_ref(numbers);
	}
	assert_ptr_not_equal(held, numbers);
	for (uint32_t i = 0; i < 10; i++)
		EXPECT_EQ(i, held[i], "held");
	for (uint32_t i = 0; i < 1000; i++)
		EXPECT_EQ(i, numbers[i], "now");
	shared_array_unref(numbers);
	EXPECT_EQ(9, held[9], "the writer has gone");
	shared_array_unref(held);
	shared_array_unref(NULL);
}

TEST(refuses_more_than_its_maximum)
{
	uint32_t *numbers = NULL, capacity = 0;

	assert_int_equal(0, shared_array_reserve(&numbers, 4, &capacity, 0, 20, 20));
	EXPECT_EQ(20, capacity, "no more than the maximum");
	assert_int_equal(-E2BIG, shared_array_reserve(&numbers, 4, &capacity, 20, 1, 20));
	shared_array_unref(numbers);
}

RUN_TESTS(cmocka_unit_test(readers_keep_the_block_that_they_hold),
	  cmocka_unit_test(refuses_more_than_its_maximum))
