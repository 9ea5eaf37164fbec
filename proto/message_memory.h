// SPDX-License-Identifier: Apache-2.0
// Memory of one unpacked message: taken piece by piece from a few blocks, and freed with them. It is bounded by a multiple of
// the message's size: a byte on the wire can ask for far more than a byte of memory.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

#include "base/error.h"

struct message_block;

/** For one message. Must not move: `allocator.allocator_data` points to it. */
struct message_memory {
	ProtobufCAllocator allocator; // frees nothing before message_memory_deinit()
	struct message_block *block;  // the newest
	size_t size_max;              // the message's limit
	size_t size_left;             // of the limit
	bool refused;                 // the limit was exceeded
};

void message_memory_init(struct message_memory *memory, size_t message_size);
/** Frees the message: it needs no free_unpacked(). */
void message_memory_deinit(struct message_memory *memory);

/**
 * Why could the message not be unpacked? Returns -E2BIG if it is larger than
 * @message_size_max or asked for too much memory, otherwise -EBADMSG; @err says so.
 */
int message_memory_refusal(const struct message_memory *memory, const char *name,
			   size_t message_size, size_t message_size_max, struct error *err);
