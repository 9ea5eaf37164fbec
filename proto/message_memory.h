// SPDX-License-Identifier: Apache-2.0
// Memory for messages that protobuf-c unpacks, bounded by the message's size: a byte on the wire
// can ask for far more than a byte of memory.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

#include "base/error.h"

/** Good for one message; `allocator.allocator_data` points back here, so it must not move. */
struct message_memory {
	ProtobufCAllocator allocator;
	size_t size_max;  // what the message was granted
	size_t size_left; // what is left of it
	bool refused;     // it asked for more
};

void message_memory_init(struct message_memory *memory, size_t message_size);

/**
 * Why could the message not be unpacked? Returns -E2BIG if it is larger than
 * @message_size_max or asked for too much memory, otherwise -EBADMSG; @err says so.
 */
int message_memory_refusal(const struct message_memory *memory, const char *name,
			   size_t message_size, size_t message_size_max, struct error *err);
