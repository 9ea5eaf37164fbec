// SPDX-License-Identifier: Apache-2.0
// Any bytes as an answer of the worker that reads hostile debug files: refused, incomplete, or lines
// that are written as the same bytes again.

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/symbols/source_line_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* A text ends at its first NUL. */
static bool has_all_texts(const struct source_line_message *message, size_t size)
{
	size_t texts = 0;

	for (uint32_t i = 0; i < message->place.count; i++)
		texts +=
			strlen(message->place.lines[i].name) + strlen(message->place.lines[i].file);
	return texts == size - sizeof(struct source_line_message_head) -
				message->place.count * sizeof(struct source_line_message_line);
}

static void write_again(const struct source_line_message *message, struct buffer *again)
{
	const struct source_lines *place = &message->place;

	source_line_message_begin(again, message->index, place->start_offset, place->count);
	for (uint32_t i = 0; i < place->count; i++)
		source_line_message_add(again, place->lines[i].name, place->lines[i].file,
					place->lines[i].number);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static struct source_line_message message;
	struct buffer again = { 0 };
	ssize_t used = source_line_message_read(bytes, size, &message);

	if (used > (ssize_t)size || used > SOURCE_LINE_MESSAGE_BYTES_MAX)
		abort();
	if (used <= 0 || !has_all_texts(&message, (size_t)used))
		return 0;
	write_again(&message, &again);
	if (again.size != (size_t)used || memcmp(again.bytes, bytes, again.size) != 0)
		abort();
	buffer_deinit(&again);
	return 0;
}
