// SPDX-License-Identifier: Apache-2.0
// Bounds the memory of unpacking a message by a multiple of its size: a byte on the wire can ask
// for far more than a byte of memory.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

#include "base/error.h"

/** For one message. Must not move: `allocator.allocator_data` points to it. */
struct message_memory {
	ProtobufCAllocator allocator;
	size_t size_max;  // the message's limit
	size_t size_left; // of the limit
	bool refused;     // the limit was exceeded
};

void message_memory_init(struct message_memory *memory, size_t message_size);

/**
 * Why could the message not be unpacked? Returns -E2BIG if it is larger than
 * @message_size_max or asked for too much memory, otherwise -EBADMSG; @err says so.
 */
int message_memory_refusal(const struct message_memory *memory, const char *name,
			   size_t message_size, size_t message_size_max, struct error *err);
