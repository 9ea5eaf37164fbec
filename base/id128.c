// SPDX-License-Identifier: Apache-2.0
#include "base/id128.h"

#include <sys/random.h>
#include <xxhash.h>

// Set before main() and never again. Without randomness (a kernel that has just booted) it is the
// address of the stack, which a client does not know either.
static uint64_t table_seed;

__attribute__((constructor)) static void seed_tables(void)
{
	if (getrandom(&table_seed, sizeof(table_seed), GRND_NONBLOCK) != sizeof(table_seed))
		table_seed = (uint64_t)(uintptr_t)__builtin_frame_address(0);
}

struct id128 id128_of(const void *bytes, size_t size)
{
	XXH128_hash_t hash = XXH3_128bits(bytes, size);

	return (struct id128){ .high = hash.high64, .low = hash.low64 };
}

uint64_t hash64_of(const void *bytes, size_t size)
{
	return XXH3_64bits_withSeed(bytes, size, table_seed);
}

uint64_t id128_hash(struct id128 id)
{
	return hash64_of(&id, sizeof(id));
}

void id128_encode(struct id128 id, uint8_t ret_bytes[ID128_BYTES])
{
	for (int i = 0; i < 8; i++) {
		ret_bytes[i] = (uint8_t)(id.high >> (56 - 8 * i));
		ret_bytes[8 + i] = (uint8_t)(id.low >> (56 - 8 * i));
	}
}

struct id128 id128_decode(const uint8_t bytes[ID128_BYTES])
{
	struct id128 id = { 0 };

	for (int i = 0; i < 8; i++) {
		id.high = id.high << 8 | bytes[i];
		id.low = id.low << 8 | bytes[8 + i];
	}
	return id;
}
