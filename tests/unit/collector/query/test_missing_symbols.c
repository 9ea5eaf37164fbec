// SPDX-License-Identifier: Apache-2.0
#include "collector/query/missing_symbols.h"

#include "base/contract/profile_types.h"
#include "tests/test.h"

static uint32_t add_frame(struct profile *profile, uint64_t offset, const char *build_id,
			  const char *name)
{
	struct location location = { .id = { 1, offset },
				     .kind = FRAME_KIND_NATIVE,
				     .offset = offset };
	struct line line = { 0 };
	uint32_t at = 0;

	profile_add_string(profile, build_id, &location.build_id);
	profile_add_string(profile, "/usr/bin/x", &location.module);
	profile_add_string(profile, name, &line.name);
	assert_int_equal(0, profile_add_location(profile, &location, &line, *name != 0, &at));
	return at;
}

TEST(ranks_files_by_samples)
{
	struct profile *profile = profile_new(1);
	const struct labels labels = { 0 };
	struct missing_file *files = NULL;
	uint32_t frames[5], stacks[3], series, count;
	int64_t total;

	frames[0] = add_frame(profile, 1, "aa", "");
	frames[1] = add_frame(profile, 2, "aa", "");
	frames[2] = add_frame(profile, 3, "bb", "");
	frames[3] = add_frame(profile, 4, "cc", "named");
	frames[4] = add_frame(profile, 5, "", ""); // nothing can be uploaded for it
	assert_int_equal(0, profile_add_stack(profile, frames, 3, STACK_END_COMPLETE, &stacks[0]));
	assert_int_equal(0,
			 profile_add_stack(profile, frames + 2, 3, STACK_END_COMPLETE, &stacks[1]));
	assert_int_equal(0,
			 profile_add_stack(profile, frames + 3, 2, STACK_END_COMPLETE, &stacks[2]));
	assert_int_equal(0, profile_add_series(profile, &labels, PROFILE_TYPE_CPU, &series));
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(0, profile_add_sample(profile, series, stacks[i], 0, 10 << i));
	assert_int_equal(0, missing_symbols_of(profile, &files, &count, &total));
	EXPECT_EQ(70, total, "all");
	EXPECT_EQ(2, count, "files");
	EXPECT_STR("bb", profile_string(profile, files[0].build_id), "most");
	EXPECT_EQ(30, files[0].value, "bb");
	EXPECT_STR("aa", profile_string(profile, files[1].build_id), "less");
	EXPECT_EQ(10, files[1].value, "two frames of a sample count once");
	EXPECT_STR("/usr/bin/x", profile_string(profile, files[1].module), "file");
	free(files);
	profile_free(profile);
}

RUN_TESTS(cmocka_unit_test(ranks_files_by_samples))
