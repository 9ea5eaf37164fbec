// SPDX-License-Identifier: Apache-2.0
// Batches for tests of the spool.
#pragma once

#include "agent/ship/batch.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "tests/test.h"

static inline struct profile *profile_of(uint32_t sample_count)
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

static inline struct batch *batch_of(uint64_t sequence, uint32_t sample_count)
{
	const struct batch_id id = { .agent = { 1, 1 }, .boot = { 2, 2 }, .sequence = sequence };
	struct batch *batch = batch_new(&id, profile_of(sample_count));

	assert_non_null(batch);
	return batch;
}

static inline struct batch *packed_batch_of(uint64_t sequence, uint32_t sample_count)
{
	struct batch *batch = batch_of(sequence, sample_count);
	struct error err = { 0 };

	EXPECT_EQ(0, batch_pack(batch, &err), err.text);
	return batch;
}
