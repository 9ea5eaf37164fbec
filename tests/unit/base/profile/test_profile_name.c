// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include "base/cleanup.h"
#include "base/profile/profile.h"

static const struct {
	const char *what;
	enum frame_kind kind;
	const char *module, *name, *file;
	uint32_t number;
	uint64_t offset;
	const char *expected;
} rows[] = {
	{ "native", FRAME_KIND_NATIVE, "/bin/x", "main", "/src/x.c", 3, 9, "main" },
	{ "Python", FRAME_KIND_PYTHON, "", "Model.run", "/app/serving/model.py", 42, 0,
	  "Model.run (model.py:42)" },
	{ "Python without a line", FRAME_KIND_PYTHON, "", "f", "x.py", 0, 0, "f (x.py)" },
	{ "Python without a file", FRAME_KIND_PYTHON, "", "f", "", 7, 0, "f" },
	{ "Python from a frozen module", FRAME_KIND_PYTHON, "", "f", "<frozen os>", 7, 0,
	  "f (<frozen os>:7)" },
	{ "kernel", FRAME_KIND_KERNEL, "[kernel]", "schedule", "", 0, 0, "schedule_[k]" },
	{ "JIT", FRAME_KIND_JIT, "", "LazyCompile:~f", "", 0, 0, "LazyCompile:~f" },
	{ "unresolved", FRAME_KIND_NATIVE, "/usr/lib/libx.so.1", "", "", 0, 0x1f0,
	  "libx.so.1+0x1f0" },
	{ "unresolved kernel", FRAME_KIND_KERNEL, "[kernel]", "", "", 0, 0x10,
	  "[kernel]+0x10_[k]" },
	{ "nothing known", FRAME_KIND_NATIVE, "", "", "", 0, 0x10, "[unknown]+0x10" },
	{ "a folder as module", FRAME_KIND_NATIVE, "/x/", "", "", 0, 1, "/x/+0x1" },
	{ "largest offset", FRAME_KIND_NATIVE, "x", "", "", 0, UINT64_MAX, "x+0xffffffffffffffff" },
	{ "separators", FRAME_KIND_NATIVE, "", "f;g\nh\ti\x7f", "", 0, 0, "f:g h i " },
	{ "percent signs", FRAME_KIND_NATIVE, "", "%s%n", "", 0, 0, "%s%n" },
};

static void display(const char *module, enum frame_kind kind, const struct line *line,
		    uint64_t offset, struct profile *profile, char *name, size_t size)
{
	struct location location = { .id = { 1, 2 }, .kind = kind, .offset = offset };
	uint32_t number;

	profile_add_string(profile, module, &location.module);
	assert_int_equal(
		profile_add_location(profile, &location, line, line->name ? 1 : 0, &number), 0);
	location_display_name(profile, &profile->locations[number], 0, name, size);
}

TEST(frames_are_named_by_their_kind)
{
	for EACH (row, rows) {
		_cleanup_(profile_freep) struct profile *profile = profile_new(1);
		struct line line = { .number = row->number };
		char name[64];

		profile_add_string(profile, row->name, &line.name);
		profile_add_string(profile, row->file, &line.file);
		display(row->module, row->kind, &line, row->offset, profile, name, sizeof(name));
		EXPECT_STR(row->expected, name, row->what);
	}
}

TEST(a_name_is_cut_to_the_room)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(1);
	struct line line = { 0 };
	char name[8];

	profile_add_string(profile, "abcde\xe2\x82\xac", &line.name);
	display("", FRAME_KIND_NATIVE, &line, 0, profile, name, sizeof(name));
	EXPECT_STR("abcde??", name, "cut within a character");
	location_display_name(profile, &profile->locations[0], 0, name, 1);
	EXPECT_STR("", name, "room for nothing");
	location_display_name(profile, &profile->locations[0], 0, NULL, 0);
}

TEST(inlined_calls_have_names_of_their_own)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(1);
	struct location location = { .id = { 1, 2 }, .kind = FRAME_KIND_NATIVE };
	struct line lines[2] = { { 0 } };
	char name[32];
	uint32_t number;

	profile_add_string(profile, "inner", &lines[0].name);
	profile_add_string(profile, "outer", &lines[1].name);
	assert_int_equal(profile_add_location(profile, &location, lines, 2, &number), 0);
	location_display_name(profile, &profile->locations[number], 0, name, sizeof(name));
	EXPECT_STR("inner", name, "line 0");
	location_display_name(profile, &profile->locations[number], 1, name, sizeof(name));
	EXPECT_STR("outer", name, "line 1");
	location_display_name(profile, &profile->locations[number], 2, name, sizeof(name));
	EXPECT_STR("[unknown]+0x0", name, "a line that is not there");
}

TEST(every_kind_and_end_has_a_name)
{
	for (int kind = 0; kind < FRAME_KIND_COUNT; kind++)
		assert_non_null(frame_kind_name((enum frame_kind)kind));
	for (int end = 0; end < STACK_END_COUNT; end++)
		assert_non_null(stack_end_name((enum stack_end)end));
	EXPECT_STR("complete", stack_end_name(STACK_END_COMPLETE), "first");
	EXPECT_STR("no frame pointer", stack_end_name(STACK_END_NO_FRAME_POINTER), "as shown");
	EXPECT_STR("unknown", frame_kind_name((enum frame_kind)250), "from a newer agent");
	EXPECT_STR("unknown reason", stack_end_name((enum stack_end)250), "from a newer agent");
}

RUN_TESTS(cmocka_unit_test(frames_are_named_by_their_kind),
	  cmocka_unit_test(a_name_is_cut_to_the_room),
	  cmocka_unit_test(inlined_calls_have_names_of_their_own),
	  cmocka_unit_test(every_kind_and_end_has_a_name))
