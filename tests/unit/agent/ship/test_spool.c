// SPDX-License-Identifier: Apache-2.0
#include "agent/ship/spool.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/ship/stack_set.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/test.h"
#include "base/contract/label_names.h"

static struct profile *profile_of(uint32_t sample_count)
{
	struct profile *profile = profile_new(20 * NS_PER_MS);
	struct location code = { .id = { 1, 2 }, .kind = FRAME_KIND_NATIVE };
	struct line line = { 0 };
	struct labels labels = { 0 };
	uint32_t location, stack = 0, series = 0;

	profile->from_ns = 1700000000 * NS_PER_SECOND;
	profile->to_ns = profile->from_ns + NS_PER_SECOND;
	profile_add_string(profile, "main", &line.name);
	EXPECT_EQ(0, profile_add_location(profile, &code, &line, 1, &location), "location");
	EXPECT_EQ(0, profile_add_stack(profile, &location, 1, STACK_END_COMPLETE, &stack), "stack");
	labels_set(&labels, LABEL_SERVICE, "llm");
	EXPECT_EQ(0, profile_add_series(profile, &labels, PROFILE_TYPE_CPU, &series), "series");
	labels_deinit(&labels);
	for (uint32_t i = 0; i < sample_count; i++)
		profile_add_sample(profile, series, stack, profile->from_ns / profile->slot_ns + i,
				   7);
	return profile;
}

static struct batch *batch_of(uint64_t sequence, uint32_t sample_count)
{
	const struct batch_id id = { .agent = { 1, 1 }, .boot = { 2, 2 }, .sequence = sequence };
	struct batch *batch = batch_new(&id, profile_of(sample_count));

	assert_non_null(batch);
	return batch;
}

TEST(packing_is_lossless_and_small)
{
	struct batch *batch = batch_of(9, 2000);
	size_t before_bytes = batch->bytes;
	struct error err = { 0 };

	EXPECT_EQ(0, batch_pack(batch, &err), err.text);
	assert_null(batch->profile);
	assert_true(batch->bytes < before_bytes / 10);
	EXPECT_EQ(2000, batch->sample_count, "still known");
	EXPECT_EQ(0, batch_pack(batch, &err), "packing twice");

	EXPECT_EQ(0, batch_unpack(batch, &err), err.text);
	EXPECT_EQ(2000, batch->profile->sample_count, "samples");
	EXPECT_EQ(7, batch->profile->samples[1999].value, "value");
	EXPECT_EQ(true, batch->profile->stacks[0].defined, "definitions are kept");
	EXPECT_STR("main", profile_string(batch->profile, batch->profile->lines[0].name), "name");
	EXPECT_EQ(9, batch->id.sequence, "id");
	EXPECT_EQ(0, batch_unpack(batch, &err), "unpacking twice");
	batch_free(batch);
}

TEST(a_damaged_batch_is_an_error)
{
	struct batch *batch = batch_of(1, 2000);
	struct error err = { 0 };

	EXPECT_EQ(0, batch_pack(batch, &err), err.text);
	batch->packed[batch->packed_size / 2] ^= 0x55;
	EXPECT_EQ(-EBADMSG, batch_unpack(batch, &err), "one byte");
	assert_null(batch->profile);
	batch_free(batch);
}

TEST(takes_batches_in_order)
{
	struct spool spool = { .bytes_max = 1 << 20, .count_max = 100 };

	for (uint64_t i = 1; i <= 3; i++)
		spool_add(&spool, batch_of(i, 1));
	for (uint64_t i = 1; i <= 3; i++) {
		struct batch *batch = spool_take(&spool);

		EXPECT_EQ(i, batch->id.sequence, "sequence");
		batch_free(batch);
	}
	assert_null(spool_take(&spool));
	EXPECT_EQ(0, spool.bytes + spool.count + spool.dropped_batches, "empty again");
	spool_add(&spool, batch_of(4, 1));
	EXPECT_EQ(1, spool.count, "usable after it was empty");
	spool_deinit(&spool);
}

static const struct {
	const char *what;
	size_t bytes_max; // in batches of one sample
	uint32_t count_max;
	uint32_t added, kept;
} bounds[] = {
	{ "within both", 10, 10, 10, 10 },
	{ "by bytes", 4, 10, 10, 4 },
	{ "by count", 10, 3, 10, 3 },
	{ "nothing fits", 0, 10, 3, 0 },
};

TEST(drops_and_counts_the_oldest)
{
	struct batch *one = batch_of(0, 5);
	size_t batch_bytes = one->bytes;

	batch_free(one);
	for EACH (row, bounds) {
		struct spool spool = { .bytes_max = row->bytes_max * batch_bytes,
				       .count_max = row->count_max };

		for (uint64_t i = 1; i <= row->added; i++)
			spool_add(&spool, batch_of(i, 5));
		EXPECT_EQ(row->kept, spool.count, row->what);
		EXPECT_EQ(row->kept * batch_bytes, spool.bytes, row->what);
		EXPECT_EQ(row->added - row->kept, spool.dropped_batches, row->what);
		EXPECT_EQ(5 * (row->added - row->kept), spool.dropped_samples, row->what);
		if (row->kept)
			EXPECT_EQ(row->added - row->kept + 1, spool.oldest->id.sequence, row->what);
		spool_deinit(&spool);
	}
}

TEST(a_full_stack_set_starts_again)
{
	struct stack_set set = { .count_max = 1000 };

	for (uint64_t i = 0; i < 1000; i++)
		stack_set_add(&set, (struct id128){ i, i * 7919 });
	for (uint64_t i = 0; i < 1000; i++) {
		assert_true(stack_set_has(&set, (struct id128){ i, i * 7919 }));
		assert_false(stack_set_has(&set, (struct id128){ i + 1, i * 7919 }));
	}
	stack_set_add(&set, (struct id128){ 5, 5 * 7919 });
	EXPECT_EQ(1000, set.count, "one that is there already");
	stack_set_add(&set, (struct id128){ 1000, 1000 * 7919 });
	EXPECT_EQ(1, set.count, "one too many");
	assert_true(stack_set_has(&set, (struct id128){ 1000, 1000 * 7919 }));
	assert_false(stack_set_has(&set, (struct id128){ 5, 5 * 7919 }));
	stack_set_clear(&set);
	assert_false(stack_set_has(&set, (struct id128){ 1000, 1000 * 7919 }));
	stack_set_deinit(&set);
}

RUN_TESTS(cmocka_unit_test(packing_is_lossless_and_small),
	  cmocka_unit_test(a_damaged_batch_is_an_error), cmocka_unit_test(takes_batches_in_order),
	  cmocka_unit_test(drops_and_counts_the_oldest),
	  cmocka_unit_test(a_full_stack_set_starts_again))
