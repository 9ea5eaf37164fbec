// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include "base/id128.h"

// The vectors of xxHash's own tests: what is stored under one build must be found under the next.
TEST(hashes_are_xxh3)
{
	struct id128 empty = id128_of("", 0);

	assert_true(empty.high == 0x99aa06d3014798d8ULL && empty.low == 0x6001c324468d497fULL);
}

TEST(encoded_ids_sort_as_numbers_do)
{
	struct id128 small = { .high = 1, .low = UINT64_MAX }, large = { .high = 256, .low = 0 };
	uint8_t first[ID128_BYTES], second[ID128_BYTES];

	id128_encode(small, first);
	id128_encode(large, second);
	assert_true(memcmp(first, second, ID128_BYTES) < 0);
	assert_true(id128_equal(id128_decode(first), small));
	assert_true(id128_equal(id128_decode(second), large));
	assert_false(id128_is_zero(small));
	assert_true(id128_is_zero((struct id128){ 0 }));
}

// 0x2d06... is XXH3-64 of nothing without a seed: what an attacker would compute.
TEST(table_hash_uses_all_parts)
{
	struct id128 id = { .high = 1, .low = 2 }, other_high = { .high = 3, .low = 2 };

	assert_true(hash64_of("", 0) != 0x2d06800538d394c2ULL);
	assert_true(id128_hash(id) == id128_hash(id));
	assert_true(id128_hash(id) != id128_hash(other_high));
}

RUN_TESTS(cmocka_unit_test(table_hash_uses_all_parts), cmocka_unit_test(hashes_are_xxh3),
	  cmocka_unit_test(encoded_ids_sort_as_numbers_do))
