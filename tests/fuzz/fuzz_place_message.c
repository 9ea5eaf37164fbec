// SPDX-License-Identifier: Apache-2.0
// Any bytes as what a process says that reads hostile debug files: they are refused, cut, or a place
// that is written as the same bytes again.

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/place_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Texts with a NUL in them end there. */
static bool has_all_texts(const struct place_message *message, size_t size)
{
	size_t texts = 0;

	for (uint32_t i = 0; i < message->place.count; i++)
		texts +=
			strlen(message->place.lines[i].name) + strlen(message->place.lines[i].file);
	return texts == size - sizeof(struct place_message_head) -
				message->place.count * sizeof(struct place_message_line);
}

static void write_again(const struct place_message *message, struct buffer *again)
{
	const struct source_place *place = &message->place;

	place_message_begin(again, message->index, place->start_offset, place->count);
	for (uint32_t i = 0; i < place->count; i++)
		place_message_add(again, place->lines[i].name, place->lines[i].file,
				  place->lines[i].number);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static struct place_message message;
	struct buffer again = { 0 };
	ssize_t used = place_message_read(bytes, size, &message);

	if (used > (ssize_t)size || used > PLACE_MESSAGE_BYTES_MAX)
		abort();
	if (used <= 0 || !has_all_texts(&message, (size_t)used))
		return 0;
	write_again(&message, &again);
	if (again.size != (size_t)used || memcmp(again.bytes, bytes, again.size) != 0)
		abort();
	buffer_deinit(&again);
	return 0;
}
