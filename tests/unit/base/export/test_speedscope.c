// SPDX-License-Identifier: Apache-2.0
// tests/e2e/test_export.py has speedscope's own importer read a file.
#include "tests/unit/base/export/export_fixture.h"

#include <errno.h>

#include "base/export/speedscope.h"
#include "base/version.h"

#define HEAD                                                                                \
	"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"name\":\"a " \
	"\\\"b\\\"\","                                                                      \
	"\"exporter\":\"cairn " CAIRN_VERSION "\",\"profiles\":["

static void expect_file(const struct profile *profile, const char *type, const char *expected)
{
	_cleanup_(buffer_deinit) struct buffer text = { 0 };

	assert_int_equal(0, speedscope_encode(profile, type, "a \"b\"", &text));
	EXPECT_STR(expected, buffer_string(&text), type);
}

TEST(merged_profile_has_process_as_root)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20 * NS_PER_MS);
	uint32_t stack[] = { frame(profile, FRAME_KIND_PYTHON, "leaf", "/a.py", 3),
			     frame(profile, FRAME_KIND_NATIVE, "main", "", 0) };

	merged(profile, stack, 2, 5);
	merged(profile, stack + 1, 1, 2);
	expect_file(profile, PROFILE_TYPE_CPU,
		    HEAD
		    "\n{\"type\":\"sampled\",\"name\":\"a \\\"b\\\"\",\"unit\":\"nanoseconds\","
		    "\"startValue\":0,\"samples\":[[0,1,2],[0,1]],\"weights\":[5,2],"
		    "\"endValue\":7}],\"activeProfileIndex\":0,\"shared\":{\"frames\":["
		    "\n{\"name\":\"app\"},\n{\"name\":\"main\"},"
		    "\n{\"name\":\"leaf\",\"file\":\"/a.py\"}]}}\n");
}

TEST(threads_are_profiles_in_time_order)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20 * NS_PER_MS);
	uint32_t f = frame(profile, FRAME_KIND_NATIVE, "f", "", 0);
	uint32_t g = frame(profile, FRAME_KIND_NATIVE, "g", "", 0);

	sample(profile, "app", "io", PROFILE_TYPE_PAGE_FAULT, &f, 1, 9, 1);
	sample(profile, "app", "app", PROFILE_TYPE_PAGE_FAULT, &f, 1, 9, 30);
	sample(profile, "app", "app", PROFILE_TYPE_PAGE_FAULT, &g, 1, 7, 40);
	expect_file(profile, PROFILE_TYPE_PAGE_FAULT,
		    HEAD "\n{\"type\":\"sampled\",\"name\":\"app / io\",\"unit\":\"bytes\","
			 "\"startValue\":0,\"samples\":[[0]],\"weights\":[1],\"endValue\":1},"
			 "\n{\"type\":\"sampled\",\"name\":\"app\",\"unit\":\"bytes\","
			 "\"startValue\":0,\"samples\":[[1],[0]],\"weights\":[40,30],"
			 "\"endValue\":70}],\"activeProfileIndex\":1,\"shared\":{\"frames\":["
			 "\n{\"name\":\"f\"},\n{\"name\":\"g\"}]}}\n");
}

TEST(stops_at_the_limit)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20 * NS_PER_MS);
	_cleanup_(buffer_deinit) struct buffer small = { .size_max = 200 };
	uint32_t f = frame(profile, FRAME_KIND_NATIVE, "f", "", 0);

	merged(profile, &f, 1, 5);
	EXPECT_EQ(-EFBIG, speedscope_encode(profile, PROFILE_TYPE_CPU, "x", &small), "small");
}

RUN_TESTS(cmocka_unit_test(merged_profile_has_process_as_root),
	  cmocka_unit_test(threads_are_profiles_in_time_order),
	  cmocka_unit_test(stops_at_the_limit))
