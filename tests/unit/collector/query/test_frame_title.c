// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include "collector/query/frame_title.h"

static const struct {
	const char *what;
	enum frame_kind kind;
	const char *name, *file;
	uint32_t number;
	const char *titles[3]; // by enum frame_lines
} cases[] = {
	{ "Python",
	  FRAME_KIND_PYTHON,
	  "step",
	  "/srv/a.py",
	  7,
	  { "step (a.py:7)", "step (a.py)", "step (a.py:7)" } },
	{ "Python without a line",
	  FRAME_KIND_PYTHON,
	  "step",
	  "/srv/a.py",
	  0,
	  { "step (a.py)", "step (a.py)", "step (a.py)" } },
	{ "Python without a file", FRAME_KIND_PYTHON, "step", "", 7, { "step", "step", "step" } },
	{ "native",
	  FRAME_KIND_NATIVE,
	  "dot",
	  "/src/blas.c",
	  40,
	  { "dot", "dot", "dot (blas.c:40)" } },
	{ "native without lines", FRAME_KIND_NATIVE, "dot", "", 0, { "dot", "dot", "dot" } },
	{ "JIT", FRAME_KIND_JIT, "loop", "x.js", 3, { "loop", "loop", "loop (x.js:3)" } },
	{ "kernel", FRAME_KIND_KERNEL, "read", "fs.c", 9, { "read_[k]", "read_[k]", "read_[k]" } },
	{ "no name",
	  FRAME_KIND_NATIVE,
	  "",
	  "",
	  0,
	  { "lib.so+0x10", "lib.so+0x10", "lib.so+0x10" } },
	{ "a name of two lines",
	  FRAME_KIND_PYTHON,
	  "a\nb;c",
	  "d.py",
	  1,
	  { "a b:c (d.py:1)", "a b:c (d.py)", "a b:c (d.py:1)" } },
};

TEST(titles_have_the_lines_asked_for)
{
	for EACH (c, cases) {
		struct profile *profile = profile_new(20000000);
		struct location location = { .kind = c->kind, .offset = 0x10 };
		struct line line = { .number = c->number };
		uint32_t at;

		assert_int_equal(0, profile_add_string(profile, "/usr/lib.so", &location.module));
		assert_int_equal(0, profile_add_string(profile, c->name, &line.name));
		assert_int_equal(0, profile_add_string(profile, c->file, &line.file));
		assert_int_equal(0, profile_add_location(profile, &location, &line, 1, &at));
		for (int lines = 0; lines < 3; lines++) {
			char title[64];

			frame_title(profile, &profile->locations[at], 0, (enum frame_lines)lines,
				    title, sizeof(title));
			EXPECT_STR(c->titles[lines], title, c->what);
		}
		profile_free(profile);
	}
}

TEST(titles_of_sources_have_lines_on_demand)
{
	const struct source_line known = { "dot", "/src/blas.c", 40 }, nameless = { "", "a.c", 1 };
	char title[64];

	frame_title_of_source(&known, FRAME_LINES_ALL, title, sizeof(title));
	EXPECT_STR("dot (blas.c:40)", title, "all");
	frame_title_of_source(&known, FRAME_LINES_NONE, title, sizeof(title));
	EXPECT_STR("dot", title, "none");
	frame_title_of_source(&nameless, FRAME_LINES_ALL, title, sizeof(title));
	EXPECT_STR("", title, "no name");
}

RUN_TESTS(cmocka_unit_test(titles_have_the_lines_asked_for),
	  cmocka_unit_test(titles_of_sources_have_lines_on_demand))
