// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/cleanup.h"

static const uint64_t numbers[] = {
	0, 1, 127, 128, 16383, 16384, UINT32_MAX, (uint64_t)1 << 62, INT64_MAX, UINT64_MAX,
};

TEST(varints_round_trip)
{
	_cleanup_(buffer_deinit) struct buffer buffer = { 0 };

	for EACH (number, numbers) {
		buffer_append_varint(&buffer, *number);
		buffer_append_svarint(&buffer, (int64_t)*number);
	}
	assert_int_equal(buffer.rc, 0);

	struct reader reader = { .at = buffer.bytes, .end = buffer.bytes + buffer.size };
	for EACH (number, numbers) {
		EXPECT_EQ(*number, reader_varint(&reader), "unsigned");
		EXPECT_EQ((int64_t)*number, reader_svarint(&reader), "signed");
	}
	EXPECT_EQ(0, reader_left(&reader), "all is read");
	EXPECT_EQ(false, reader.failed, "no failure");
}

TEST(small_varints_take_one_byte)
{
	static const int64_t small[] = { 0, 1, -1, 63, -64 };

	for EACH (number, small) {
		_cleanup_(buffer_deinit) struct buffer buffer = { 0 };

		buffer_append_svarint(&buffer, *number);
		EXPECT_EQ(1, buffer.size, "zig-zag");
	}
}

static const struct {
	const char *what;
	uint8_t bytes[12];
	size_t size;
	bool failed;
	uint64_t value;
} varints[] = {
	{ "one byte", { 0x05 }, 1, false, 5 },
	{ "two bytes", { 0x80, 0x01 }, 2, false, 128 },
	{ "needlessly long, yet 64 bits", { 0x80, 0x80, 0x00 }, 3, false, 0 },
	{ "the largest",
	  { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 },
	  10,
	  false,
	  UINT64_MAX },
	{ "nothing", { 0 }, 0, true, 0 },
	{ "cut off", { 0x80 }, 1, true, 0 },
	{ "65 bits", { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02 }, 10, true, 0 },
	{ "eleven bytes",
	  { 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00 },
	  11,
	  true,
	  0 },
};

TEST(varints_are_read_or_refused)
{
	for EACH (row, varints) {
		struct reader reader = { .at = row->bytes, .end = row->bytes + row->size };

		EXPECT_EQ(row->value, reader_varint(&reader), row->what);
		EXPECT_EQ(row->failed, reader.failed, row->what);
		EXPECT_EQ(row->failed ? 0 : row->size - (size_t)(reader.at - row->bytes),
			  reader_left(&reader), row->what);
	}
}

TEST(a_failed_read_sticks)
{
	static const uint8_t bytes[] = { 1, 2, 3 };
	struct reader reader = { .at = bytes, .end = bytes + sizeof(bytes) };

	assert_null(reader_bytes(&reader, 4));
	assert_null(reader_bytes(&reader, 1));
	EXPECT_EQ(0, reader_varint(&reader), "after the failure");
	EXPECT_EQ(0, reader_left(&reader), "after the failure");
	EXPECT_EQ(true, reader.failed, "after the failure");
}

TEST(a_read_of_absurd_size_fails)
{
	static const uint8_t bytes[] = { 1 };
	struct reader reader = { .at = bytes, .end = bytes + sizeof(bytes) };

	assert_null(reader_bytes(&reader, SIZE_MAX));
	EXPECT_EQ(true, reader.failed, "SIZE_MAX");
}

TEST(reader_survives_random_bytes)
{
	srandom(1);
	for (int round = 0; round < 20000; round++) {
		uint8_t bytes[32];
		size_t size = (size_t)random() % (sizeof(bytes) + 1);

		for (size_t i = 0; i < size; i++)
			bytes[i] = (uint8_t)random();
		struct reader reader = { .at = bytes, .end = bytes + size };
		while (!reader.failed && reader_left(&reader) > 0) {
			const uint8_t *before = reader.at;

			if (random() % 4 == 0)
				reader_bytes(&reader, (size_t)random() % 8);
			else
				reader_varint(&reader);
			assert_true(reader.at >= before && reader.at <= reader.end);
		}
	}
}

TEST(limit_is_final)
{
	_cleanup_(buffer_deinit) struct buffer buffer = { .size_max = 10 };

	buffer_append(&buffer, "0123456789", 10);
	EXPECT_EQ(0, buffer.rc, "exactly full");
	EXPECT_STR("0123456789", buffer_string(&buffer), "exactly full");
	buffer_append_byte(&buffer, 'x');
	EXPECT_EQ(-EFBIG, buffer.rc, "one more");
	buffer.size = 0;
	buffer_append_byte(&buffer, 'x');
	EXPECT_EQ(0, buffer.size, "after the failure nothing is written");
	EXPECT_STR("", buffer_string(&buffer), "after the failure");
	buffer_clear(&buffer);
	buffer_printf(&buffer, "%d-%s", 42, "ok");
	EXPECT_STR("42-ok", buffer_string(&buffer), "cleared");
}

TEST(an_absurd_size_does_not_wrap)
{
	_cleanup_(buffer_deinit) struct buffer buffer = { 0 };

	buffer_append_byte(&buffer, 1);
	assert_null(buffer_extend(&buffer, SIZE_MAX));
	EXPECT_EQ(-EFBIG, buffer.rc, "SIZE_MAX");
	EXPECT_EQ(1, buffer.size, "what was there stays");
}

TEST(printing_grows_the_buffer)
{
	_cleanup_(buffer_deinit) struct buffer buffer = { 0 };
	size_t expected = 0;

	for (int i = 0; i < 1000; i++) {
		buffer_printf(&buffer, "%s:%d;", "some words that make it long", i);
		expected += strlen("some words that make it long:;") + (i < 10    ? 1
									: i < 100 ? 2
										  : 3);
	}
	EXPECT_EQ(expected, buffer.size, "all lines");
	EXPECT_EQ(expected, strlen(buffer_string(&buffer)), "no NUL within");
}

TEST(an_empty_buffer_is_an_empty_string)
{
	_cleanup_(buffer_deinit) struct buffer buffer = { 0 };

	buffer_append(&buffer, NULL, 0);
	EXPECT_STR("", buffer_string(&buffer), "nothing written");
}

RUN_TESTS(cmocka_unit_test(varints_round_trip), cmocka_unit_test(small_varints_take_one_byte),
	  cmocka_unit_test(varints_are_read_or_refused), cmocka_unit_test(a_failed_read_sticks),
	  cmocka_unit_test(a_read_of_absurd_size_fails),
	  cmocka_unit_test(reader_survives_random_bytes), cmocka_unit_test(limit_is_final),
	  cmocka_unit_test(an_absurd_size_does_not_wrap),
	  cmocka_unit_test(printing_grows_the_buffer),
	  cmocka_unit_test(an_empty_buffer_is_an_empty_string))
