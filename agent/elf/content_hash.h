// SPDX-License-Identifier: Apache-2.0
// A collision-resistant hash of many bytes: SHA-256 in eight lanes side by side, as vector instructions compute them,
// and SHA-256 of the lanes. Some five times as fast as SHA-256 where the CPU has no instructions for it. Equal on
// every machine.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
	CONTENT_HASH_LANES = 8,
	CONTENT_HASH_BLOCK_BYTES = 64, // of SHA-256
	// Lane i takes the block i of each stripe.
	CONTENT_HASH_STRIPE_BYTES = CONTENT_HASH_LANES * CONTENT_HASH_BLOCK_BYTES,
	CONTENT_HASH_BYTES = 32,
};

struct content_hash {
	uint32_t states[8][CONTENT_HASH_LANES]; // of SHA-256's eight words, by lane
	uint64_t size;
	uint8_t rest
		[CONTENT_HASH_STRIPE_BYTES]; // of a stripe: the last size % CONTENT_HASH_STRIPE_BYTES bytes
};

void content_hash_init(struct content_hash *hash);
void content_hash_add(struct content_hash *hash, const void *bytes, size_t size);
/** SHA-256 of the size, the lanes' states and the rest. @hash may not be used any more. */
void content_hash_finish(const struct content_hash *hash, uint8_t ret_digest[CONTENT_HASH_BYTES]);
