// SPDX-License-Identifier: Apache-2.0
// The batch of the examples in docs/format.md.
#pragma once

#include "base/clock.h"
#include "base/profile/profile.h"
#include "tests/test.h"
#include "base/contract/label_names.h"

#define EXAMPLE_AGENT    ((struct id128){ 0, 0xa })
#define EXAMPLE_BOOT     ((struct id128){ 0, 0xb })
#define EXAMPLE_SEQUENCE 1
#define EXAMPLE_FROM_NS  (1700000000 * NS_PER_SECOND) // 20 seconds into a minute of Unix time
#define EXAMPLE_SLOT_NS  (20 * NS_PER_MS)

static inline uint32_t example_location(struct profile *profile, uint64_t offset, const char *name)
{
	static const char build_id[] = "6d1c7f0e";
	struct location location = { .kind = FRAME_KIND_NATIVE, .offset = offset };
	struct line line = { .number = 7 };
	uint32_t at;

	location.id = location_id_of_offset(location.kind, build_id, offset);
	assert_int_equal(0, profile_add_string(profile, "/usr/bin/llm", &location.module));
	assert_int_equal(0, profile_add_string(profile, build_id, &location.build_id));
	assert_int_equal(0, profile_add_string(profile, name, &line.name));
	assert_int_equal(0, profile_add_string(profile, "llm.c", &line.file));
	assert_int_equal(0, profile_add_location(profile, &location, &line, 1, &at));
	return at;
}

/** One series, the stack main > run, a sample of 10 ms and one of 30 ms that covers two slots. */
static inline struct profile *example_profile(void)
{
	struct profile *profile = profile_new(EXAMPLE_SLOT_NS);
	struct labels labels = { 0 };
	uint32_t locations[2], stack, series;

	assert_non_null(profile);
	profile->from_ns = EXAMPLE_FROM_NS;
	profile->to_ns = EXAMPLE_FROM_NS + 5 * NS_PER_SECOND;
	locations[0] = example_location(profile, 0x1340, "run");
	locations[1] = example_location(profile, 0x1180, "main");
	assert_int_equal(0, profile_add_stack(profile, locations, 2, STACK_END_COMPLETE, &stack));
	assert_int_equal(0, labels_set(&labels, LABEL_SERVICE, "llm"));
	assert_int_equal(0, labels_set(&labels, LABEL_NODE, "a17"));
	assert_int_equal(0, profile_add_series(profile, &labels, PROFILE_TYPE_OFF_CPU, &series));
	labels_deinit(&labels);
	uint64_t slot = EXAMPLE_FROM_NS / EXAMPLE_SLOT_NS;
	assert_int_equal(0, profile_add_sample(profile, series, stack, slot, 10 * NS_PER_MS));
	assert_int_equal(0,
			 profile_add_interval(profile, series, stack, slot + 3, 1, 30 * NS_PER_MS));
	return profile;
}
