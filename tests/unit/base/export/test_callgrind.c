// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/base/export/export_fixture.h"

#include <errno.h>

#include "base/export/callgrind.h"
#include "base/version.h"

#define HEAD                                                                 \
	"# callgrind format\nversion: 1\ncreator: cairn " CAIRN_VERSION "\n" \
	"desc: Calls: sampled, not counted\npositions: line\nevents: cpu_nanoseconds\n"

TEST(writes_functions_lines_and_calls)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20 * NS_PER_MS);
	_cleanup_(buffer_deinit) struct buffer text = { 0 };
	uint32_t leaf = frame(profile, FRAME_KIND_PYTHON, "leaf", "/a.py", 3);
	uint32_t main = frame(profile, FRAME_KIND_PYTHON, "main", "/a.py", 10);

	merged(profile, (uint32_t[]){ leaf, main }, 2, 5);
	merged(profile, &main, 1, 2);
	assert_int_equal(0, callgrind_encode(profile, PROFILE_TYPE_CPU, &text));
	EXPECT_STR(HEAD "summary: 7\n"
			"\nob=(1) ???\nfl=(3) /a.py\nfn=(1) main\n10 2\n"
			"cob=(1)\ncfi=(3)\ncfn=(2) leaf\ncalls=1 0\n10 5\n"
			"\nob=(1)\nfl=(3)\nfn=(2)\n3 5\n"
			"\ntotals: 7\n",
		   buffer_string(&text), "file");
}

TEST(hostile_names_break_no_line)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20 * NS_PER_MS);
	_cleanup_(buffer_deinit) struct buffer text = { 0 };
	uint32_t f = frame(profile, FRAME_KIND_NATIVE, "a\nfn=(1) b", "/x\n99 99\n", 1);

	merged(profile, &f, 1, 5);
	assert_int_equal(0, callgrind_encode(profile, PROFILE_TYPE_CPU, &text));
	EXPECT_STR(
		HEAD
		"summary: 5\n\nob=(1) ???\nfl=(3) /x?99 99?\nfn=(1) a fn=(1) b\n1 5\n\ntotals: 5\n",
		buffer_string(&text), "file");
}

TEST(refuses_what_is_no_type)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20 * NS_PER_MS);
	_cleanup_(buffer_deinit) struct buffer text = { 0 }, small = { .size_max = 20 };

	EXPECT_EQ(-EINVAL, callgrind_encode(profile, "cpu", &text), "one part");
	EXPECT_EQ(-EFBIG, callgrind_encode(profile, PROFILE_TYPE_CPU, &small), "small");
}

RUN_TESTS(cmocka_unit_test(writes_functions_lines_and_calls),
	  cmocka_unit_test(hostile_names_break_no_line), cmocka_unit_test(refuses_what_is_no_type))
