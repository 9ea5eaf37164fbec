// SPDX-License-Identifier: Apache-2.0
// Places as bytes between two processes, one of which is not trusted.
#include "base/symbols/source_line_message.h"

#include <errno.h>

#include "tests/test.h"

static const struct dwarf_position written = {
	.count = 3,
	.lines = { { .name = "_ZN4core3fmt5WriteE", .file = "fmt.rs", .number = 7 },
		   { .name = "plain", .file = NULL, .number = 0 },
		   { .name = NULL, .file = "a.c", .number = UINT32_MAX } },
};

static void write_message(struct buffer *message)
{
	buffer_clear(message);
	source_line_message_begin(message, 5, 0x1234, written.count);
	source_line_message_add_dwarf(message, &written);
	assert_int_equal(0, message->rc);
}

TEST(what_is_written_is_read)
{
	static struct source_line_message read;
	struct buffer message = { 0 };

	write_message(&message);
	assert_int_equal(message.size,
			 source_line_message_read(message.bytes, message.size, &read));
	assert_int_equal(5, read.index);
	assert_int_equal(0x1234, read.place.start_offset);
	assert_int_equal(3, read.place.count);
	assert_string_equal("core::fmt::Write", read.place.lines[0].name);
	assert_string_equal("fmt.rs", read.place.lines[0].file);
	assert_int_equal(7, read.place.lines[0].number);
	assert_string_equal("plain", read.place.lines[1].name);
	assert_string_equal("", read.place.lines[1].file);
	assert_string_equal("", read.place.lines[2].name);
	assert_int_equal(UINT32_MAX, read.place.lines[2].number);
	buffer_deinit(&message);
}

TEST(names_are_cut)
{
	static struct source_line_message read;
	static char name[2 * SOURCE_NAME_BYTES];
	struct buffer message = { 0 };

	memset(name, 'x', sizeof(name) - 1);
	source_line_message_begin(&message, 0, 0, 1);
	source_line_message_add(&message, name, name, 1);
	assert_int_equal(message.size,
			 source_line_message_read(message.bytes, message.size, &read));
	assert_int_equal(SOURCE_NAME_BYTES - 1, strlen(read.place.lines[0].name));
	assert_int_equal(SOURCE_NAME_BYTES - 1, strlen(read.place.lines[0].file));
	buffer_deinit(&message);
}

TEST(waits_for_rest_of_message)
{
	static struct source_line_message read;
	struct buffer message = { 0 };

	write_message(&message);
	for (size_t size = 0; size < message.size; size++)
		assert_int_equal(0, source_line_message_read(message.bytes, size, &read));
	buffer_deinit(&message);
}

TEST(what_is_no_message_is_refused)
{
	static const struct {
		const char *what;
		uint32_t count;
		uint16_t name_size, file_size;
	} rows[] = {
		{ "more lines than there are", SOURCE_LINES_MAX + 1, 1, 1 },
		{ "as many lines as a number holds", UINT32_MAX, 1, 1 },
		{ "a name too long", 1, SOURCE_NAME_BYTES, 1 },
		{ "a path too long", 1, 1, UINT16_MAX },
	};
	static uint8_t bytes[SOURCE_LINE_MESSAGE_BYTES_MAX];

	for EACH (row, rows) {
		static struct source_line_message read;
		const struct source_line_message_head head = { .count = row->count };
		const struct source_line_message_line line = { .name_size = row->name_size,
							       .file_size = row->file_size };

		memcpy(bytes, &head, sizeof(head));
		memcpy(bytes + sizeof(head), &line, sizeof(line));
		EXPECT_EQ(-EBADMSG, source_line_message_read(bytes, sizeof(bytes), &read),
			  row->what);
	}
}

RUN_TESTS(cmocka_unit_test(what_is_written_is_read), cmocka_unit_test(names_are_cut),
	  cmocka_unit_test(waits_for_rest_of_message),
	  cmocka_unit_test(what_is_no_message_is_refused))
