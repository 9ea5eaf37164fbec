// SPDX-License-Identifier: Apache-2.0
#include "base/symbols/source_line_message.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/symbols/demangle.h"

_Static_assert(SOURCE_LINES_MAX == DWARF_INLINED_MAX + 1, "all that DWARF gives has room");

/* ---- writing ------------------------------------------------------------------------------- */

void source_line_message_begin(struct buffer *message, uint32_t index, uint64_t start_offset,
			       uint32_t count)
{
	const struct source_line_message_head head = { .start_offset = start_offset,
						       .index = index,
						       .count = count };

	buffer_append(message, &head, sizeof(head));
}

static size_t cut(size_t size)
{
	return size < SOURCE_NAME_BYTES ? size : SOURCE_NAME_BYTES - 1;
}

void source_line_message_add(struct buffer *message, const char *name, const char *file,
			     uint32_t number)
{
	const struct source_line_message_line line = { .number = number,
						       .name_size = (uint16_t)cut(strlen(name)),
						       .file_size = (uint16_t)cut(strlen(file)) };

	buffer_append(message, &line, sizeof(line));
	buffer_append(message, name, line.name_size);
	buffer_append(message, file, line.file_size);
}

void source_line_message_add_dwarf(struct buffer *message, const struct dwarf_position *place)
{
	char name[DEMANGLED_BYTES_MAX];

	for (uint32_t i = 0; i < place->count; i++) {
		const struct dwarf_line *line = &place->lines[i];

		name[0] = '\0';
		if (line->name)
			demangle(line->name, name);
		source_line_message_add(message, name, line->file ? line->file : "", line->number);
	}
}

/* ---- reading ------------------------------------------------------------------------------- */

/* The text at @at, copied and ended. False: it does not lie in the message. */
static bool take_text(struct reader *reader, size_t size, char ret_text[SOURCE_NAME_BYTES])
{
	const void *text = reader_bytes(reader, size);

	if (!text)
		return false;
	memcpy(ret_text, text, size);
	ret_text[size] = '\0';
	return true;
}

/* Returns 1; 0: not all of it is there; -EBADMSG. */
static int read_line(struct reader *reader, char texts[2][SOURCE_NAME_BYTES],
		     struct source_line *ret_line)
{
	const void *bytes = reader_bytes(reader, sizeof(struct source_line_message_line));
	struct source_line_message_line line;

	if (!bytes)
		return 0;
	memcpy(&line, bytes, sizeof(line));
	if (line.name_size >= SOURCE_NAME_BYTES || line.file_size >= SOURCE_NAME_BYTES)
		return -EBADMSG;
	if (!take_text(reader, line.name_size, texts[0]) ||
	    !take_text(reader, line.file_size, texts[1]))
		return 0;
	*ret_line =
		(struct source_line){ .name = texts[0], .file = texts[1], .number = line.number };
	return 1;
}

ssize_t source_line_message_read(const uint8_t *bytes, size_t size,
				 struct source_line_message *ret_message)
{
	struct reader reader = { .at = bytes, .end = bytes + size };
	const void *begin = reader_bytes(&reader, sizeof(struct source_line_message_head));
	struct source_lines *place = &ret_message->place;
	struct source_line_message_head head;

	if (!begin)
		return 0;
	memcpy(&head, begin, sizeof(head));
	if (head.count > SOURCE_LINES_MAX)
		return -EBADMSG;
	ret_message->index = head.index;
	place->start_offset = head.start_offset;
	place->count = head.count;
	for (uint32_t i = 0; i < head.count; i++) {
		int rc = read_line(&reader, ret_message->texts[i], &place->lines[i]);

		if (rc <= 0)
			return rc;
	}
	return reader.at - bytes;
}
