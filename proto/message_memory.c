// SPDX-License-Identifier: Apache-2.0
#include "proto/message_memory.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

enum {
	// Per byte of message, above a base. Real batches take 2 to 4 with malloc()'s overhead, a
	// dictionary of short names takes 6; a hostile message could take 80.
	MEMORY_PER_BYTE = 10,
	MEMORY_BYTES_MIN = 1 << 20,
};

static void *allocate(void *context, size_t size)
{
	struct message_memory *memory = context;
	void *bytes = size <= memory->size_left ? malloc(size) : NULL;

	if (!bytes) {
		memory->refused = true;
		return NULL;
	}
	size_t used = malloc_usable_size(bytes) + sizeof(size_t);
	memory->size_left -= used < memory->size_left ? used : memory->size_left;
	return bytes;
}

static void release(void *context, void *bytes)
{
	struct message_memory *memory = context;

	if (bytes)
		memory->size_left += malloc_usable_size(bytes) + sizeof(size_t);
	free(bytes);
}

void message_memory_init(struct message_memory *memory, size_t message_size)
{
	size_t size = message_size * MEMORY_PER_BYTE + MEMORY_BYTES_MIN;

	*memory = (struct message_memory){
		.allocator = { .alloc = allocate, .free = release, .allocator_data = memory },
		.size_max = size,
		.size_left = size,
	};
}

int message_memory_refusal(const struct message_memory *memory, const char *name,
			   size_t message_size, size_t message_size_max, struct error *err)
{
	if (message_size > message_size_max)
		return error_set(err, -E2BIG, "%s: %zu bytes, expected at most %zu", name,
				 message_size, message_size_max);
	if (memory->refused)
		return error_set(err, -E2BIG, "%s: %zu bytes ask for more than %zu bytes of memory",
				 name, message_size, memory->size_max);
	return error_set(err, -EBADMSG, "%s: the %zu bytes are not such a message", name,
			 message_size);
}
