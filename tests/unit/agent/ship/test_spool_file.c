// SPDX-License-Identifier: Apache-2.0
#include "agent/ship/spool_file.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/id128.h"
#include "tests/unit/agent/ship/batches.h"

enum { SAMPLES = 300, ROOM = 64 << 10 };

static uint8_t file[ROOM];

/* A sound file. Returns its size. */
static size_t write_file(void)
{
	struct batch *batch = packed_batch_of(9, SAMPLES);
	size_t size = SPOOL_FILE_HEADER_BYTES + batch->packed.size;

	assert_true(size <= sizeof(file));
	spool_file_encode_header(&batch->packed, batch->sample_count, file);
	memcpy(file + SPOOL_FILE_HEADER_BYTES, batch->packed.bytes, batch->packed.size);
	batch_free(batch);
	return size;
}

TEST(a_file_is_read_as_it_was_written)
{
	size_t size = write_file();
	struct batch *batch = calloc(1, sizeof(*batch));
	struct spool_file_header header;
	struct error err = { 0 };

	assert_non_null(batch);
	batch->is_found = true;
	EXPECT_EQ(0, spool_file_decode_header(file, SPOOL_FILE_HEADER_BYTES, size, &header, &err),
		  err.text);
	EXPECT_EQ(SAMPLES, header.sample_count, "samples in the header");
	EXPECT_EQ(0, spool_file_decode(file, size, batch, &err), err.text);
	EXPECT_EQ(SAMPLES, batch->sample_count, "samples");
	EXPECT_EQ(0, batch_unpack(batch, &err), err.text);
	EXPECT_EQ(9, batch->id.sequence, "sequence of the start that wrote it");
	EXPECT_EQ(2, batch->id.boot.low, "its id");
	EXPECT_EQ(7, batch->profile->samples[SAMPLES - 1].value, "value");
	batch_free(batch);
}

/* An operator meets it after a power failure, or a disk with bad blocks. */
TEST(a_file_with_any_byte_damaged_is_refused)
{
	size_t size = write_file();

	for (size_t i = 0; i < size; i++) {
		struct batch batch = { 0 };

		file[i] ^= 0x10;
		if (spool_file_decode(file, size, &batch, NULL) == 0)
			fail_msg("byte %zu of %zu", i, size);
		assert_null(batch.packed.bytes);
		file[i] ^= 0x10;
	}
}

TEST(a_file_cut_short_or_longer_is_refused)
{
	size_t size = write_file();

	for (size_t i = 0; i < size + 10; i++) {
		struct batch batch = { 0 };

		if (i != size && spool_file_decode(file, i, &batch, NULL) != -EBADMSG)
			fail_msg("%zu of %zu bytes", i, size);
	}
}

static const struct {
	const char *what;
	size_t at; // in the header
	uint64_t value;
	int rc;
} claims[] = {
	{ "a later version", 8, SPOOL_FILE_VERSION + 1, -EPROTONOSUPPORT },
	{ "version 0", 8, 0, -EPROTONOSUPPORT },
	{ "a huge content", 16, UINT64_MAX, -EBADMSG },
	{ "a content whose size wraps", 16, UINT64_MAX - SPOOL_FILE_HEADER_BYTES + 1, -EBADMSG },
	{ "no content", 16, 0, -EBADMSG },
	{ "a huge message", 24, UINT64_MAX, -EBADMSG },
	{ "a message above the limit", 24, EXPORT_MESSAGE_BYTES_MAX + 1, -EBADMSG },
};

/* By somebody who knows the format: the checksum is right. */
TEST(a_header_that_claims_too_much_is_refused)
{
	for EACH (row, claims) {
		size_t size = write_file();
		struct batch batch = { 0 };
		uint64_t check;

		memcpy(file + row->at, &row->value, row->at == 8 ? 4 : 8);
		check = id128_of(file, SPOOL_FILE_HEADER_BYTES - 8).low;
		memcpy(file + SPOOL_FILE_HEADER_BYTES - 8, &check, sizeof(check));
		EXPECT_EQ(row->rc, spool_file_decode(file, size, &batch, NULL), row->what);
	}
}

RUN_TESTS(cmocka_unit_test(a_file_is_read_as_it_was_written),
	  cmocka_unit_test(a_file_with_any_byte_damaged_is_refused),
	  cmocka_unit_test(a_file_cut_short_or_longer_is_refused),
	  cmocka_unit_test(a_header_that_claims_too_much_is_refused))
