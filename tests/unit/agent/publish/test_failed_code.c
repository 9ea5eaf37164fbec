// SPDX-License-Identifier: Apache-2.0
// JIT mappings that were analyzed in vain are tried less and less often.

#include "tests/test.h"

#include "agent/publish/failed_code.h"
#include "base/clock.h"

/* How often a mapping that never succeeds is tried in so many seconds, asked each millisecond. */
static uint32_t tries_in(struct failed_code *failed, uint64_t start, uint64_t *now_ns,
			 uint64_t seconds)
{
	uint64_t end_ns = *now_ns + seconds * NS_PER_SECOND;
	uint32_t tries = 0;

	for (; *now_ns < end_ns; *now_ns += NS_PER_MS) {
		if (!failed_code_may_try(failed, start, *now_ns))
			continue;
		tries++;
		failed_code_add(failed, start, *now_ns);
	}
	return tries;
}

TEST(waits_longer_each_time)
{
	struct failed_code failed = { 0 };
	uint64_t now_ns = 1;

	EXPECT_EQ(8, tries_in(&failed, 0x1000, &now_ns, 9), "at once");
	EXPECT_EQ(2, tries_in(&failed, 0x1000, &now_ns, 20), "after 10 s");
	EXPECT_EQ(8, tries_in(&failed, 0x1000, &now_ns, 571),
		  "in ten minutes: after 30, 70, 150, 310 s");
	EXPECT_EQ(12, tries_in(&failed, 0x1000, &now_ns, 3600), "in an hour: each ten minutes");
}

TEST(a_success_begins_anew)
{
	struct failed_code failed = { 0 };
	uint64_t now_ns = 1;

	tries_in(&failed, 0x1000, &now_ns, 60);
	assert_false(failed_code_may_try(&failed, 0x1000, now_ns));
	failed_code_remove(&failed, 0x1000);
	EXPECT_EQ(8, tries_in(&failed, 0x1000, &now_ns, 1), "its code is of the kind now");
	failed_code_remove(&failed, 0x2000);
	assert_false(failed_code_may_try(&failed, 0x1000, now_ns));
}

TEST(mappings_back_off_separately)
{
	struct failed_code failed = { 0 };
	uint64_t now_ns = 1;
	uint32_t tries = 0;

	for (uint64_t i = 1; i < FAILED_CODE_MAPPINGS_MAX; i++)
		EXPECT_EQ(8,
			  tries_in(&failed, i << 12, &now_ns, 0) +
				  tries_in(&failed, i << 12, &now_ns, 1),
			  "its own");
	for (uint64_t i = 100; i < 1100; i++) {
		for (int again = 0; again < 9 && failed_code_may_try(&failed, i << 12, now_ns);
		     again++) {
			tries++;
			failed_code_add(&failed, i << 12, now_ns);
		}
	}
	EXPECT_EQ(8, tries, "a thousand others share an entry");
}

RUN_TESTS(cmocka_unit_test(waits_longer_each_time), cmocka_unit_test(a_success_begins_anew),
	  cmocka_unit_test(mappings_back_off_separately))
