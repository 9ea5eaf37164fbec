// SPDX-License-Identifier: Apache-2.0
// Several profile types of a recording, and the files that hold them.
// Subject: cli/recorded_types.c
// Subject: cli/recording_files.c
#include <errno.h>
#include <string.h>

#include "tests/test.h"

#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "cli/recorded_types.h"
#include "cli/recording_files.h"

static const struct {
	const char *what, *text;
	const char *types[3]; // NULL: refused
	const char *words;
} lists[] = {
	{ "one", "off-cpu", { PROFILE_TYPE_OFF_CPU }, "" },
	{ "CPU time first",
	  "memory,off-cpu,cpu",
	  { PROFILE_TYPE_CPU, PROFILE_TYPE_OFF_CPU, PROFILE_TYPE_PAGE_FAULT },
	  "" },
	{ "in five parts",
	  PROFILE_TYPE_CPU ",run-queue",
	  { PROFILE_TYPE_CPU, PROFILE_TYPE_SCHED_DELAY },
	  "" },
	{ "twice", "cpu," PROFILE_TYPE_CPU, { NULL }, "given twice" },
	{ "none between commas", "cpu,,off-cpu", { NULL }, "\"\" is not measured" },
	{ "a comma behind", "cpu,", { NULL }, "\"\" is not measured" },
	{ "one that is not measured", "cpu,rss", { NULL }, "\"rss\" is not measured" },
	{ "wall and a part of it", "wall,cpu", { NULL }, "wall is recorded alone" },
	{ "endless",
	  "cpu,"
	  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	  "aaa"
	  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	  "aaaa"
	  "aaaaaaaaaaaaaaaa",
	  { NULL },
	  "is not measured" },
};

TEST(types_are_listed_by_commas)
{
	for EACH (row, lists) {
		struct recorded_types types = { 0 };
		struct error err = { 0 };
		int rc = recorded_types_find(row->text, &types, &err);
		uint32_t count = 0;

		EXPECT_EQ(row->types[0] ? 0 : -EINVAL, rc, row->what);
		if (!strstr(err.text, row->words))
			fail_msg("%s: %s", row->what, err.text);
		while (!rc && count < 3 && row->types[count]) {
			EXPECT_STR(row->types[count], types.at[count]->type, row->what);
			count++;
		}
		EXPECT_EQ(count, types.count, row->what);
	}
}

static const struct {
	const char *what, *output, *format, *types;
	const char *paths[2]; // NULL: refused
	const char *words;
} plans[] = {
	{ "a file of one type", "a.svg", NULL, "cpu", { "a.svg" }, "" },
	{ "a pprof file of two", "a.pb.gz", NULL, "cpu,off-cpu", { "a.pb.gz" }, "" },
	{ "pprof of another name", "a.out", "pprof", "cpu,off-cpu", { "a.out" }, "" },
	{ "a folder",
	  "flames/",
	  "svg",
	  "off-cpu,cpu",
	  { "flames/cpu.svg", "flames/off-cpu.svg" },
	  "" },
	{ "a folder of one type", "./", "collapsed", "cpu", { "./cpu.collapsed" }, "" },
	{ "two in a format for one",
	  "a.svg",
	  NULL,
	  "cpu,off-cpu",
	  { NULL },
	  "-o FOLDER/ --format svg" },
	{ "a folder without a format", "flames/", NULL, "cpu", { NULL }, "--format selects" },
	{ "a folder of no format", "flames/", "xml", "cpu", { NULL }, "--format: \"xml\"" },
	{ "standard output", "-", "svg", "cpu", { NULL }, "standard output" },
};

TEST(formats_of_one_type_make_a_folder)
{
	for EACH (row, plans) {
		_cleanup_(recording_files_deinit) struct recording_files files = { 0 };
		struct recorded_types types;
		struct error err = { 0 };

		assert_int_equal(0, recorded_types_find(row->types, &types, &err));
		int rc = recording_files_plan(row->output, row->format, &types, &files, &err);
		EXPECT_EQ(row->paths[0] ? 0 : -EINVAL, rc, row->what);
		if (!strstr(err.text, row->words))
			fail_msg("%s: %s", row->what, err.text);
		for (uint32_t i = 0; i < files.count; i++)
			EXPECT_STR(row->paths[i], files.at[i].path, row->what);
		EXPECT_EQ(!!row->paths[0] + !!row->paths[1], files.count, row->what);
	}
}

static uint32_t add(struct profile *profile, const char *type, const char *wait, int64_t value)
{
	struct labels labels = { 0 };
	uint32_t series, stack;

	assert_int_equal(0, labels_set(&labels, LABEL_WAIT, wait));
	assert_int_equal(0, profile_add_series(profile, &labels, type, &series));
	assert_int_equal(0, profile_add_stack(profile, NULL, 0, STACK_END_COMPLETE, &stack));
	assert_int_equal(0, profile_add_sample(profile, series, stack, 0, value));
	labels_deinit(&labels);
	return series;
}

TEST(only_the_types_samples_stay)
{
	struct recorded_types types;
	struct error err;

	assert_int_equal(0, recorded_types_find("cpu,off-cpu", &types, &err));
	for (int with_idle = 0; with_idle < 2; with_idle++) {
		_cleanup_(profile_freep) struct profile *profile = profile_new(1);

		add(profile, PROFILE_TYPE_CPU, "", 1);
		add(profile, PROFILE_TYPE_OFF_CPU, "lock", 2);
		add(profile, PROFILE_TYPE_OFF_CPU, "idle", 4);
		add(profile, PROFILE_TYPE_WALL, "", 8);
		assert_false(recorded_types_are_empty(&types, profile));
		EXPECT_EQ(with_idle ? 0 : 4, recorded_types_select(&types, with_idle, profile),
			  "idle time excluded");
		EXPECT_EQ(1, recorded_type_total(types.at[0], profile), "CPU time");
		EXPECT_EQ(with_idle ? 6 : 2, recorded_type_total(types.at[1], profile), "off-CPU");
		EXPECT_EQ(with_idle ? 3 : 2, profile->sample_count, "samples");
	}
}

RUN_TESTS(cmocka_unit_test(types_are_listed_by_commas),
	  cmocka_unit_test(formats_of_one_type_make_a_folder),
	  cmocka_unit_test(only_the_types_samples_stay))
