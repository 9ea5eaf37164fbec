// SPDX-License-Identifier: Apache-2.0
// Against nettle's SHA-256, one lane after the other.

#include <stdlib.h>
#include <string.h>

#include <nettle/sha2.h>

#include "tests/test.h"

#include "agent/elf/content_hash.c" // its variants for other CPUs, too
#include "base/cleanup.h"

enum { SIZE_MAX_TRIED = 5 * CONTENT_HASH_STRIPE_BYTES + 77 };

static void fill(uint8_t *bytes, size_t size, unsigned int seed)
{
	srandom(seed);
	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)random();
}

/* The state of SHA-256 after a lane's blocks, as nettle keeps it, big-endian. */
static void lane_state(const uint8_t *bytes, size_t stripes, size_t lane, uint8_t ret_state[32])
{
	struct sha256_ctx context;

	sha256_init(&context);
	for (size_t i = 0; i < stripes; i++)
		sha256_update(&context, CONTENT_HASH_BLOCK_BYTES,
			      bytes + i * CONTENT_HASH_STRIPE_BYTES +
				      lane * CONTENT_HASH_BLOCK_BYTES);
	for (size_t i = 0; i < 8; i++)
		for (size_t byte = 0; byte < 4; byte++)
			ret_state[4 * i + byte] = (uint8_t)(context.state[i] >> (24 - 8 * byte));
}

static void expected_digest(const uint8_t *bytes, size_t size, uint8_t ret_digest[32])
{
	size_t stripes = size / CONTENT_HASH_STRIPE_BYTES;
	uint8_t length[8], state[32];
	struct sha256_ctx context;

	for (size_t i = 0; i < sizeof(length); i++)
		length[i] = (uint8_t)((uint64_t)size >> (8 * i));
	sha256_init(&context);
	sha256_update(&context, sizeof(length), length);
	for (size_t lane = 0; lane < CONTENT_HASH_LANES; lane++) {
		lane_state(bytes, stripes, lane, state);
		sha256_update(&context, sizeof(state), state);
	}
	sha256_update(&context, size % CONTENT_HASH_STRIPE_BYTES,
		      bytes + stripes * CONTENT_HASH_STRIPE_BYTES);
	sha256_digest(&context, 32, ret_digest);
}

static void digest_of(const uint8_t *bytes, size_t size, size_t piece, uint8_t ret_digest[32])
{
	struct content_hash hash;

	content_hash_init(&hash);
	for (size_t at = 0; at < size; at += piece)
		content_hash_add(&hash, bytes + at, size - at < piece ? size - at : piece);
	content_hash_finish(&hash, ret_digest);
}

TEST(lanes_are_sha256)
{
	static const size_t sizes[] = { 0,    1,    63,   64,   65,   511,  512,           513,
					1023, 1024, 1025, 2048, 2100, 2560, SIZE_MAX_TRIED };
	static const size_t pieces[] = { 1, 7, 64, 511, 512, 513, SIZE_MAX_TRIED };
	static uint8_t bytes[SIZE_MAX_TRIED];
	uint8_t expected[32], found[32];

	fill(bytes, sizeof(bytes), 1);
	for EACH (size, sizes) {
		expected_digest(bytes, *size, expected);
		for EACH (piece, pieces) {
			digest_of(bytes, *size, *piece, found);
			if (memcmp(expected, found, sizeof(found)) != 0)
				fail_msg("%zu bytes in pieces of %zu", *size, *piece);
		}
	}
}

TEST(all_instruction_sets_agree)
{
	static uint8_t bytes[5 * CONTENT_HASH_STRIPE_BYTES];
	struct content_hash plain, other;

	fill(bytes, sizeof(bytes), 4);
	content_hash_init(&plain);
	add_stripes(plain.states, bytes, 5);
	content_hash_init(&other);
	add_whole(&other, bytes, 5);
	assert_memory_equal(plain.states, other.states, sizeof(other.states));
#ifdef __x86_64__
	if (!__builtin_cpu_supports("avx2"))
		SKIP("the CPU has no AVX2");
	content_hash_init(&other);
	add_stripes_avx2(other.states, bytes, 5);
	assert_memory_equal(plain.states, other.states, sizeof(other.states));
#endif
}

TEST(every_byte_counts)
{
	static uint8_t bytes[SIZE_MAX_TRIED];
	uint8_t before[32], after[32];

	fill(bytes, sizeof(bytes), 2);
	digest_of(bytes, sizeof(bytes), sizeof(bytes), before);
	for (size_t i = 0; i < sizeof(bytes); i++) {
		bytes[i] ^= 1;
		digest_of(bytes, sizeof(bytes), sizeof(bytes), after);
		bytes[i] ^= 1;
		if (memcmp(before, after, sizeof(after)) == 0)
			fail_msg("byte %zu", i);
	}
}

TEST(trailing_zeros_count)
{
	static const uint8_t zeros[2 * CONTENT_HASH_STRIPE_BYTES];
	uint8_t before[32], after[32];

	digest_of(zeros, 0, 1, before);
	for (size_t size = 1; size <= sizeof(zeros); size++) {
		digest_of(zeros, size, size, after);
		if (memcmp(before, after, sizeof(after)) == 0)
			fail_msg("%zu zeros are as many as one less", size);
		memcpy(before, after, sizeof(before));
	}
}

TEST(exchanged_lanes_count)
{
	static uint8_t bytes[2 * CONTENT_HASH_STRIPE_BYTES], other[sizeof(bytes)];
	uint8_t before[32], after[32];

	fill(bytes, sizeof(bytes), 3);
	memcpy(other, bytes, sizeof(bytes));
	memcpy(other, bytes + CONTENT_HASH_BLOCK_BYTES, CONTENT_HASH_BLOCK_BYTES);
	memcpy(other + CONTENT_HASH_BLOCK_BYTES, bytes, CONTENT_HASH_BLOCK_BYTES);
	digest_of(bytes, sizeof(bytes), sizeof(bytes), before);
	digest_of(other, sizeof(other), sizeof(other), after);
	assert_memory_not_equal(before, after, sizeof(after));
}

RUN_TESTS(cmocka_unit_test(lanes_are_sha256), cmocka_unit_test(all_instruction_sets_agree),
	  cmocka_unit_test(every_byte_counts), cmocka_unit_test(trailing_zeros_count),
	  cmocka_unit_test(exchanged_lanes_count))
