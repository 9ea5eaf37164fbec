// SPDX-License-Identifier: Apache-2.0
#include "agent/ship/batch.h"

#include <errno.h>

#include "tests/unit/agent/ship/batches.h"

TEST(packing_is_lossless_and_small)
{
	struct batch *batch = batch_of(9, 2000);
	size_t before_bytes = batch->memory_bytes;
	struct error err = { 0 };

	EXPECT_EQ(0, batch_pack(batch, &err), err.text);
	assert_null(batch->profile);
	assert_true(batch->memory_bytes < before_bytes / 10);
	EXPECT_EQ(2000, batch->sample_count, "still known");
	EXPECT_EQ(0, batch_pack(batch, &err), "packing twice");

	EXPECT_EQ(0, batch_unpack(batch, &err), err.text);
	EXPECT_EQ(2000, batch->profile->sample_count, "samples");
	EXPECT_EQ(7, batch->profile->samples[1999].value, "value");
	EXPECT_EQ(true, batch->profile->stacks[0].defined, "definitions are kept");
	EXPECT_STR("main", profile_string(batch->profile, batch->profile->lines[0].name), "name");
	EXPECT_EQ(9, batch->id.sequence, "id");
	EXPECT_EQ(0, batch_unpack(batch, &err), "unpacking twice");
	assert_non_null(batch->packed.bytes);
	batch_unload(batch);
	assert_null(batch->profile);
	assert_null(batch->packed.bytes);
	batch_free(batch);
}

TEST(a_damaged_batch_is_an_error)
{
	struct batch *batch = batch_of(1, 2000);
	struct error err = { 0 };

	EXPECT_EQ(0, batch_pack(batch, &err), err.text);
	batch->packed.bytes[batch->packed.size / 2] ^= 0x55;
	EXPECT_EQ(-EBADMSG, batch_unpack(batch, &err), "one byte");
	assert_null(batch->profile);
	batch_free(batch);
}

RUN_TESTS(cmocka_unit_test(packing_is_lossless_and_small),
	  cmocka_unit_test(a_damaged_batch_is_an_error))
