// SPDX-License-Identifier: Apache-2.0
// The source lines of an address as bytes, from the process that reads a file to the one that asks.
// The file is hostile, and so are the bytes.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/symbols/dwarf_lines.h"
#include "base/symbols/source_lines.h"

/* A message is this, and for each line its head and two texts. */
struct source_line_message_head {
	uint64_t start_offset;
	uint32_t index;
	uint32_t count; // of lines
};

struct source_line_message_line {
	uint32_t number;
	uint16_t name_size, file_size;
};

enum {
	SOURCE_LINE_MESSAGE_BYTES_MAX =
		(int)(sizeof(struct source_line_message_head) +
		      SOURCE_LINES_MAX *
			      (sizeof(struct source_line_message_line) + 2 * SOURCE_NAME_BYTES)),
};

/** One that was read. */
struct source_line_message {
	uint32_t index;
	struct source_lines place; // its strings are below
	char texts[SOURCE_LINES_MAX][2][SOURCE_NAME_BYTES];
};

/** Begin a message of @count lines, which follow. */
void source_line_message_begin(struct buffer *message, uint32_t index, uint64_t start_offset,
			       uint32_t count);
void source_line_message_add(struct buffer *message, const char *name, const char *file,
			     uint32_t number);
/** All lines of what DWARF says, names demangled. */
void source_line_message_add_dwarf(struct buffer *message, const struct dwarf_position *place);

/**
 * Read the first message of the bytes. Returns how many it has; 0: not all of it is there; -EBADMSG.
 */
ssize_t source_line_message_read(const uint8_t *bytes, size_t size,
				 struct source_line_message *ret_message);
