// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/content_hash.h"

#include <endian.h>
#include <string.h>

#include <nettle/sha2.h>

/* One word of each lane. */
typedef uint32_t words __attribute__((vector_size(4 * CONTENT_HASH_LANES)));

#define ROTATE(x, bits) ((x) >> (bits) | (x) << (32 - (bits)))

enum { ROUNDS = 64, SCHEDULED = 16 };

/* FIPS 180-4, 4.2.2 and 5.3.3. */
static const uint32_t round_constants[ROUNDS] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};
static const uint32_t initial_state[8] = {
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
	0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

#define EACH_TIME static inline __attribute__((always_inline))

/* Of words that were loaded from a big-endian message. */
#if __BYTE_ORDER == __BIG_ENDIAN
#define FROM_MESSAGE(x) (x)
#else
#define FROM_MESSAGE(x) ((ROTATE(x, 8) & 0xff00ff00) | (ROTATE(x, 24) & 0x00ff00ff))
#endif

/* Pairs and quads of words, and halves: three of these steps exchange rows and columns. */
#define LOW_WORDS(x, y)  __builtin_shufflevector(x, y, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH_WORDS(x, y) __builtin_shufflevector(x, y, 2, 10, 3, 11, 6, 14, 7, 15)
#define LOW_PAIRS(x, y)  __builtin_shufflevector(x, y, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH_PAIRS(x, y) __builtin_shufflevector(x, y, 2, 3, 10, 11, 6, 7, 14, 15)
#define LOW_HALF(x, y)   __builtin_shufflevector(x, y, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH_HALF(x, y)  __builtin_shufflevector(x, y, 4, 5, 6, 7, 12, 13, 14, 15)

/* Eight words of each lane's block: ret[i] has the word i of all lanes. */
EACH_TIME void load_words(const uint8_t *block, words ret[8])
{
	words rows[CONTENT_HASH_LANES], mixed[CONTENT_HASH_LANES];

#pragma GCC unroll 8
	for (uint32_t lane = 0; lane < CONTENT_HASH_LANES; lane++)
		memcpy(&rows[lane], block + lane * CONTENT_HASH_BLOCK_BYTES, sizeof(rows[lane]));
#pragma GCC unroll 2
	for (uint32_t half = 0; half < 8; half += 4) {
		words first = LOW_WORDS(rows[half], rows[half + 1]);
		words second = HIGH_WORDS(rows[half], rows[half + 1]);
		words third = LOW_WORDS(rows[half + 2], rows[half + 3]);
		words fourth = HIGH_WORDS(rows[half + 2], rows[half + 3]);

		mixed[half] = LOW_PAIRS(first, third);
		mixed[half + 1] = HIGH_PAIRS(first, third);
		mixed[half + 2] = LOW_PAIRS(second, fourth);
		mixed[half + 3] = HIGH_PAIRS(second, fourth);
	}
#pragma GCC unroll 4
	for (uint32_t i = 0; i < 4; i++) {
		words low = LOW_HALF(mixed[i], mixed[i + 4]);
		words high = HIGH_HALF(mixed[i], mixed[i + 4]);

		ret[i] = FROM_MESSAGE(low);
		ret[i + 4] = FROM_MESSAGE(high);
	}
}

/* The word of the message schedule that round @round + 16 needs, in place of that of @round. */
EACH_TIME void schedule_word(words schedule[SCHEDULED], uint32_t round)
{
	words near = schedule[(round + 1) % SCHEDULED], late = schedule[(round + 14) % SCHEDULED];

	schedule[round % SCHEDULED] += (ROTATE(near, 7) ^ ROTATE(near, 18) ^ near >> 3) +
				       schedule[(round + 9) % SCHEDULED] +
				       (ROTATE(late, 17) ^ ROTATE(late, 19) ^ late >> 10);
}

/* s[0] to s[7] are SHA-256's a to h; instead of moving them along, each round begins one further back. */
EACH_TIME void do_round(words s[8], uint32_t round, const words *message)
{
	uint32_t at = (8 - round % 8) % 8;
	words a = s[at], b = s[(at + 1) % 8], c = s[(at + 2) % 8], e = s[(at + 4) % 8];
	words f = s[(at + 5) % 8], g = s[(at + 6) % 8];
	words first = s[(at + 7) % 8] + (ROTATE(e, 6) ^ ROTATE(e, 11) ^ ROTATE(e, 25)) +
		      (g ^ (e & (f ^ g))) + round_constants[round] + *message;

	s[(at + 3) % 8] += first;
	s[(at + 7) % 8] =
		first + (ROTATE(a, 2) ^ ROTATE(a, 13) ^ ROTATE(a, 22)) + ((a & b) | (c & (a | b)));
}

/* The compression function, of all lanes at once. */
EACH_TIME void add_stripe(words states[8], const uint8_t *stripe)
{
	words schedule[SCHEDULED], s[8];

	memcpy(s, states, sizeof(s));
	load_words(stripe, schedule);
	load_words(stripe + CONTENT_HASH_BLOCK_BYTES / 2, schedule + SCHEDULED / 2);
#pragma GCC unroll 64
	for (uint32_t round = 0; round < ROUNDS; round++) {
		do_round(s, round, &schedule[round % SCHEDULED]);
		if (round < ROUNDS - SCHEDULED)
			schedule_word(schedule, round);
	}
#pragma GCC unroll 8
	for (uint32_t i = 0; i < 8; i++)
		states[i] += s[i];
}

EACH_TIME void add_stripes(uint32_t states[8][CONTENT_HASH_LANES], const uint8_t *bytes,
			   size_t count)
{
	words wide[8];

	memcpy(wide, states, sizeof(wide));
	for (; count; count--, bytes += CONTENT_HASH_STRIPE_BYTES)
		add_stripe(wide, bytes);
	memcpy(states, wide, sizeof(wide));
}

/* The same code for what the CPU has; without these, the compiler makes several narrower operations of each. */
#ifdef __x86_64__
__attribute__((target("avx512f,avx512vl"))) static void add_stripes_avx512(
	uint32_t states[8][CONTENT_HASH_LANES], const uint8_t *bytes, size_t count)
{
	add_stripes(states, bytes, count);
}

__attribute__((target("avx2"))) static void add_stripes_avx2(uint32_t states[8][CONTENT_HASH_LANES],
							     const uint8_t *bytes, size_t count)
{
	add_stripes(states, bytes, count);
}
#endif

static void add_whole(struct content_hash *hash, const uint8_t *bytes, size_t count)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx512vl"))
		add_stripes_avx512(hash->states, bytes, count);
	else if (__builtin_cpu_supports("avx2"))
		add_stripes_avx2(hash->states, bytes, count);
	else
#endif
		add_stripes(hash->states, bytes, count);
}

void content_hash_init(struct content_hash *hash)
{
	*hash = (struct content_hash){ 0 };
	for (uint32_t i = 0; i < 8; i++)
		for (uint32_t lane = 0; lane < CONTENT_HASH_LANES; lane++)
			hash->states[i][lane] = initial_state[i];
}

void content_hash_add(struct content_hash *hash, const void *bytes, size_t size)
{
	const uint8_t *at = bytes;
	size_t used = hash->size % CONTENT_HASH_STRIPE_BYTES;

	hash->size += size;
	if (used) {
		size_t room = CONTENT_HASH_STRIPE_BYTES - used;
		size_t taken = size < room ? size : room;

		memcpy(hash->rest + used, at, taken);
		if (taken < room)
			return;
		add_whole(hash, hash->rest, 1);
		at += taken;
		size -= taken;
	}
	add_whole(hash, at, size / CONTENT_HASH_STRIPE_BYTES);
	memcpy(hash->rest, at + size - size % CONTENT_HASH_STRIPE_BYTES,
	       size % CONTENT_HASH_STRIPE_BYTES);
}

/* Whoever finds two contents of one hash finds two messages of one SHA-256, or two blocks that collide in it. */
void content_hash_finish(const struct content_hash *hash, uint8_t ret_digest[CONTENT_HASH_BYTES])
{
	uint64_t size = htole64(hash->size);
	struct sha256_ctx all;

	sha256_init(&all);
	sha256_update(&all, sizeof(size), (const uint8_t *)&size);
	for (uint32_t lane = 0; lane < CONTENT_HASH_LANES; lane++) {
		for (uint32_t i = 0; i < 8; i++) {
			uint32_t word = htobe32(hash->states[i][lane]);

			sha256_update(&all, sizeof(word), (const uint8_t *)&word);
		}
	}
	sha256_update(&all, hash->size % CONTENT_HASH_STRIPE_BYTES, hash->rest);
	sha256_digest(&all, CONTENT_HASH_BYTES, ret_digest);
}
