// SPDX-License-Identifier: Apache-2.0
// 128-bit content hashes: identities of locations and stacks, equal on every host that computes them.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct id128 {
	uint64_t high;
	uint64_t low;
};

enum { ID128_BYTES = 16, ID128_HEX_BYTES = 33 };

/** XXH3-128 of the bytes. */
struct id128 id128_of(const void *bytes, size_t size);
/**
 * A 64-bit hash of the bytes for hash tables of this process. Keys come from the wire and from
 * profiled processes: the hash is seeded anew by each process, so that nobody can choose keys that
 * collide. Never stored, never sent.
 */
uint64_t hash64_of(const void *bytes, size_t size);

/** Big-endian: high first, so that bytes sort as numbers do. */
void id128_encode(struct id128 id, uint8_t ret_bytes[ID128_BYTES]);
struct id128 id128_decode(const uint8_t bytes[ID128_BYTES]);

static inline bool id128_equal(struct id128 a, struct id128 b)
{
	return a.high == b.high && a.low == b.low;
}

/** hash64_of() an id. */
uint64_t id128_hash(struct id128 id);

static inline bool id128_is_zero(struct id128 id)
{
	return !id.high && !id.low;
}
