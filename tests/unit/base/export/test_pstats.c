// SPDX-License-Identifier: Apache-2.0
// The bytes are those of Python's marshal; tests/e2e/test_export.py has Python's pstats load a file.
#include "tests/unit/base/export/export_fixture.h"

#include <errno.h>

#include "base/export/pstats.h"

#define INT_0      "i\0\0\0\0"
#define SECONDS_0  "g\0\0\0\0\0\0\0\0"
#define SECONDS_15 "g\0\0\0\0\0\0\xf8\x3f" // 1.5
#define LEAF       "(\3\0\0\0u\5\0\0\0/a.py" INT_0 "u\4\0\0\0leaf"
#define MAIN       "(\3\0\0\0u\1\0\0\0~" INT_0 "u\4\0\0\0main"

TEST(writes_a_marshalled_dict)
{
	static const char expected[] = "{" MAIN "(\5\0\0\0" INT_0 INT_0 SECONDS_0 SECONDS_15
				       "{0" LEAF "(\5\0\0\0" INT_0 INT_0 SECONDS_15 SECONDS_15
				       "{" MAIN "(\4\0\0\0" INT_0 INT_0 SECONDS_15 SECONDS_15 "00";
	_cleanup_(profile_freep) struct profile *profile = profile_new(20 * NS_PER_MS);
	_cleanup_(buffer_deinit) struct buffer bytes = { 0 };
	uint32_t stack[] = { frame(profile, FRAME_KIND_PYTHON, "leaf", "/a.py", 3),
			     frame(profile, FRAME_KIND_NATIVE, "main", "", 0) };

	merged(profile, stack, 2, 1500 * NS_PER_MS);
	assert_int_equal(0, pstats_encode(profile, PROFILE_TYPE_CPU, &bytes));
	EXPECT_EQ(sizeof(expected) - 1, bytes.size, "size");
	assert_memory_equal(expected, bytes.bytes, bytes.size);
}

TEST(refuses_types_that_are_no_time)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20 * NS_PER_MS);
	_cleanup_(buffer_deinit) struct buffer bytes = { 0 };

	EXPECT_EQ(-EINVAL, pstats_encode(profile, PROFILE_TYPE_PAGE_FAULT, &bytes), "bytes");
}

RUN_TESTS(cmocka_unit_test(writes_a_marshalled_dict),
	  cmocka_unit_test(refuses_types_that_are_no_time))
