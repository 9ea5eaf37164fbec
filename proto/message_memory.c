// SPDX-License-Identifier: Apache-2.0
#include "proto/message_memory.h"

#include <errno.h>
#include <stdlib.h>

enum {
	// Per byte of message, above a base. Real batches take 2 to 4, a dictionary of short names takes 6; a hostile message
	// could take 80.
	MEMORY_PER_BYTE = 10,
	MEMORY_BYTES_MIN = 1 << 20,
	// The first block is as large as a small message needs, the last ones leave little unused.
	BLOCK_BYTES_MIN = 16 << 10,
	BLOCK_BYTES_MAX = 1 << 20,
};

struct message_block {
	struct message_block *older;
	size_t used, size;
	max_align_t bytes[];
};

static size_t next_block_size(const struct message_memory *memory, size_t wanted)
{
	size_t size = memory->block ? memory->block->size * 2 : BLOCK_BYTES_MIN;

	size = size < BLOCK_BYTES_MAX ? size : BLOCK_BYTES_MAX;
	return wanted > size ? wanted : size;
}

/* Of the last block only what the limit leaves: a message within it is not refused for a block's unused end. */
static bool add_block(struct message_memory *memory, size_t wanted)
{
	size_t size = next_block_size(memory, wanted);
	size_t left = memory->size_left / sizeof(max_align_t) * sizeof(max_align_t);

	size = size < left ? size : left;
	if (size < wanted)
		return false;
	struct message_block *block = malloc(sizeof(*block) + size);
	if (!block)
		return false;
	block->older = memory->block;
	block->used = 0;
	block->size = size;
	memory->block = block;
	memory->size_left -= size;
	return true;
}

static void *allocate(void *context, size_t size)
{
	struct message_memory *memory = context;
	size_t unit = sizeof(max_align_t);
	size_t aligned = (size + unit - 1) / unit * unit;
	struct message_block *block = memory->block;

	if (aligned < size ||
	    ((!block || block->size - block->used < aligned) && !add_block(memory, aligned))) {
		memory->refused = true;
		return NULL;
	}
	block = memory->block;
	void *bytes = (uint8_t *)block->bytes + block->used;
	block->used += aligned;
	return bytes;
}

static void release(void *context, void *bytes)
{
	(void)context, (void)bytes; // with all others
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

void message_memory_deinit(struct message_memory *memory)
{
	for (struct message_block *block = memory->block, *older; block; block = older) {
		older = block->older;
		free(block);
	}
	memory->block = NULL;
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
