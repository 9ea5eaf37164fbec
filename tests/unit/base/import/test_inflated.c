// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>

#include <zlib.h>

#include "base/cleanup.h"
#include "base/import/inflated.h"

static size_t pack(const void *bytes, size_t size, uint8_t *ret_packed, size_t room)
{
	z_stream stream = { 0 };

	assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
			 Z_OK);
	stream.next_in = (void *)(uintptr_t)bytes;
	stream.avail_in = (uInt)size;
	stream.next_out = ret_packed;
	stream.avail_out = (uInt)room;
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	size_t packed = stream.total_out;
	deflateEnd(&stream);
	return packed;
}

TEST(inflates_all_members)
{
	_cleanup_(buffer_deinit) struct buffer buffer = { 0 };
	uint8_t packed[256];
	size_t size = pack("one ", 4, packed, sizeof(packed));

	size += pack("two", 3, packed + size, sizeof(packed) - size);
	assert_true(is_gzip(packed, size));
	assert_int_equal(inflate_bytes(packed, size, &buffer, NULL), 0);
	assert_string_equal("one two", buffer_string(&buffer));
}

TEST(judges_inflated_size)
{
	static const uint8_t zeros[1 << 20];
	_cleanup_(buffer_deinit) struct buffer buffer = { .size_max = 512 << 10 };
	struct byte_budget budget = { .bytes_max = 256 << 10 };
	_cleanup_(buffer_deinit) struct buffer budgeted = { .budget = &budget };
	uint8_t packed[4096];
	size_t size = pack(zeros, sizeof(zeros), packed, sizeof(packed));

	assert_int_equal(inflate_bytes(packed, size, &buffer, NULL), -EFBIG);
	assert_int_equal(inflate_bytes(packed, size, &budgeted, NULL), -EDQUOT);
}

TEST(refuses_damaged_and_cut)
{
	uint8_t packed[256];
	size_t size = pack("some text", 9, packed, sizeof(packed));

	for (size_t cut = 3; cut < size; cut++) {
		_cleanup_(buffer_deinit) struct buffer buffer = { 0 };

		assert_int_equal(inflate_bytes(packed, cut, &buffer, NULL), -EBADMSG);
	}
	packed[12] ^= 0xff;
	_cleanup_(buffer_deinit) struct buffer buffer = { 0 };
	assert_int_equal(inflate_bytes(packed, size, &buffer, NULL), -EBADMSG);
}

RUN_TESTS(cmocka_unit_test(inflates_all_members), cmocka_unit_test(judges_inflated_size),
	  cmocka_unit_test(refuses_damaged_and_cut))
