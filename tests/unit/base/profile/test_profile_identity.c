// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include "base/cleanup.h"
#include "base/profile/profile.h"

static void expect_id(struct id128 id, uint64_t high, uint64_t low, const char *what)
{
	if (id.high != high || id.low != low)
		fail_msg("%s: id is %016llx%016llx", what, (unsigned long long)id.high,
			 (unsigned long long)id.low);
}

// Pinned: agents and stores of all versions and hosts must compute the same.
TEST(identities_never_change)
{
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	struct id128 locations[] = {
		location_id_of_offset(FRAME_KIND_NATIVE, "8c1f", 0x1234),
		location_id_of_line(FRAME_KIND_PYTHON, "Model.run", "/app/model.py", 42),
	};

	expect_id(locations[0], 0xce9710d298053735ULL, 0x4b404cc7564613b5ULL, "offset");
	expect_id(locations[1], 0x9849607e50919570ULL, 0xaf0e6c60fa0ec186ULL, "line");
	expect_id(stack_id_of(locations, 2, STACK_END_DEPTH), 0x7de522fc9f10b382ULL,
		  0xac71938636035e76ULL, "stack");
	expect_id(stack_id_of(NULL, 0, STACK_END_LOST), 0xec9a90ae52a63e4dULL,
		  0x72992d4d19faf0f9ULL, "empty stack");
	labels_set(&labels, "service", "llm");
	expect_id(series_id_of(&labels, PROFILE_TYPE_CPU), 0x631290c3f5a19c64ULL,
		  0x5962ea775ff2cb4eULL, "series");
}

TEST(every_part_of_an_identity_counts)
{
	const struct id128 ids[] = {
		location_id_of_offset(FRAME_KIND_NATIVE, "8c1f", 1),
		location_id_of_offset(FRAME_KIND_KERNEL, "8c1f", 1),
		location_id_of_offset(FRAME_KIND_NATIVE, "8c1", 1),
		location_id_of_offset(FRAME_KIND_NATIVE, "8c1f", 2),
		location_id_of_line(FRAME_KIND_PYTHON, "f", "g", 1),
		location_id_of_line(FRAME_KIND_JIT, "f", "g", 1),
		location_id_of_line(FRAME_KIND_PYTHON, "fg", "", 1),
		location_id_of_line(FRAME_KIND_PYTHON, "", "fg", 1),
		location_id_of_line(FRAME_KIND_PYTHON, "f", "g", 2),
		stack_id_of(NULL, 0, STACK_END_COMPLETE),
		stack_id_of(NULL, 0, STACK_END_LOST),
		stack_id_of(&(struct id128){ 1, 2 }, 1, STACK_END_COMPLETE),
		stack_id_of(&(struct id128){ 2, 1 }, 1, STACK_END_COMPLETE),
		stack_id_of((struct id128[]){ { 1, 2 }, { 3, 4 } }, 2, STACK_END_COMPLETE),
		stack_id_of((struct id128[]){ { 3, 4 }, { 1, 2 } }, 2, STACK_END_COMPLETE),
	};

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		for (size_t j = 0; j < i; j++)
			assert_false(id128_equal(ids[i], ids[j]));
	}
}

RUN_TESTS(cmocka_unit_test(identities_never_change),
	  cmocka_unit_test(every_part_of_an_identity_counts))
