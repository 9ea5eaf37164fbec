// SPDX-License-Identifier: Apache-2.0
// The call tree of `cairn top`: its lines, from whole stacks, from a function, and to its callers.

#include "tests/test.h"

#include "base/contract/label_names.h"
#include "cli/call_lines.h"

enum { DEPTH_MAX = 8 };

/* A sample as a test states it: frames leaf first, ended by NULL. */
static const struct stated {
	const char *process;
	int64_t value;
	const char *frames[DEPTH_MAX];
} samples[] = {
	{ "web", 60, { "parse", "handle", "main" } },
	{ "web", 20, { "send", "handle", "main" } },
	{ "web", 3, { "walk", "walk", "main" } },
	{ "mail", 17, { "parse", "main" } },
};

static struct profile *profile;
static struct call_lines lines;
static const struct call_toggles none;

static uint32_t location_of(const char *name)
{
	struct location location = { .kind = FRAME_KIND_NATIVE,
				     .id = id128_of(name, strlen(name)) };
	struct line line = { 0 };
	uint32_t number;

	assert_int_equal(0, profile_add_string(profile, name, &line.name));
	assert_int_equal(0, profile_add_location(profile, &location, &line, 1, &number));
	return number;
}

static void add(const struct stated *stated)
{
	uint32_t locations[DEPTH_MAX], count = 0, stack, series;
	struct labels labels = { 0 };

	for (; count < DEPTH_MAX && stated->frames[count]; count++)
		locations[count] = location_of(stated->frames[count]);
	assert_int_equal(0, labels_set(&labels, LABEL_PROCESS, stated->process));
	assert_int_equal(0, profile_add_series(profile, &labels, PROFILE_TYPE_CPU, &series));
	assert_int_equal(0,
			 profile_add_stack(profile, locations, count, STACK_END_COMPLETE, &stack));
	assert_int_equal(0, profile_add_sample(profile, series, stack, 1, stated->value));
	labels_deinit(&labels);
}

static void build(bool by_process, enum call_direction direction, const char *function)
{
	struct error err = { 0 };

	profile = profile_new(1000000000);
	for EACH (sample, samples)
		add(sample);
	assert_int_equal(0, call_lines_build(profile, PROFILE_TYPE_CPU, by_process, direction,
					     function, &lines, &err));
	assert_int_equal(0, call_lines_select(&lines, &none, ""));
	profile_free(profile);
}

/* The lines as text: indentation, sign, name, total. */
static void expect_lines(const char *expected, const char *what)
{
	char text[1024] = "";

	for (uint32_t i = 0; i < lines.line_count; i++) {
		const struct shown_call *node = &lines.nodes[lines.lines[i].node];
		char name[64], line[128];

		call_lines_name(&lines, lines.lines[i].node, name, sizeof(name));
		snprintf(line, sizeof(line), "%*s%s%s %lld\n", (int)node->indent, "",
			 lines.lines[i].opens && !lines.lines[i].open ? "+" : "", name,
			 (long long)node->total);
		strcat(text, line);
	}
	EXPECT_STR(expected, text, what);
}

TEST(shows_the_largest_first_and_indents_at_branchings)
{
	build(true, CALLS_ALL, "");
	expect_lines("web 83\nmain 83\n handle 80\n  parse 60\n  send 20\n +walk 3\nmail 17\nmain "
		     "17\nparse 17\n",
		     "a twentieth is open, less is closed");
	EXPECT_EQ(100, lines.total, "total");
	call_lines_deinit(&lines);
	build(false, CALLS_ALL, "");
	expect_lines("main 100\n handle 80\n  parse 60\n  send 20\n parse 17\n +walk 3\n",
		     "merged");
	call_lines_deinit(&lines);
}

TEST(begins_at_a_function)
{
	build(true, CALLS_CALLEES, "handle");
	expect_lines("handle 80\n parse 60\n send 20\n", "what it calls");
	EXPECT_EQ(100, lines.total, "shares are of all");
	call_lines_deinit(&lines);
	build(true, CALLS_CALLERS, "parse");
	expect_lines("parse 77\n handle 60\n main 60\n web 60\n main 17\n mail 17\n",
		     "its callers");
	call_lines_deinit(&lines);
	build(true, CALLS_CALLERS, "walk");
	expect_lines("walk 3\nwalk 3\nmain 3\nweb 3\n", "recursion: from the innermost call");
	call_lines_deinit(&lines);
	build(true, CALLS_CALLEES, "web");
	expect_lines("", "a process is no function");
	call_lines_deinit(&lines);
	build(true, CALLS_CALLEES, "absent");
	expect_lines("", "no sample has it");
	call_lines_deinit(&lines);
}

TEST(keeps_open_state)
{
	struct call_toggles toggles = { 0 };

	build(false, CALLS_ALL, "");
	call_toggles_change(&toggles, lines.nodes[lines.lines[1].node].path);
	call_toggles_change(&toggles, lines.nodes[lines.lines[5].node].path);
	call_lines_deinit(&lines);
	build(false, CALLS_ALL, ""); // the next refresh
	assert_int_equal(0, call_lines_select(&lines, &toggles, ""));
	expect_lines("main 100\n +handle 80\n parse 17\n walk 3\n walk 3\n",
		     "both are as they were left");
	call_toggles_change(&toggles, lines.nodes[lines.lines[1].node].path);
	assert_int_equal(0, call_lines_select(&lines, &toggles, ""));
	expect_lines("main 100\n handle 80\n  parse 60\n  send 20\n parse 17\n walk 3\n walk 3\n",
		     "again");
	for (uint64_t i = 0; i < 2 * CALLS_TOGGLED_MAX; i++)
		call_toggles_change(&toggles, i + 1);
	EXPECT_EQ(CALLS_TOGGLED_MAX, toggles.count, "bounded");
	call_lines_deinit(&lines);
}

TEST(filters_with_callers_and_callees)
{
	build(true, CALLS_ALL, "");
	assert_int_equal(0, call_lines_select(&lines, &none, "SEND"));
	expect_lines("web 83\nmain 83\n handle 80\n  send 20\n", "callers lead to it");
	assert_int_equal(0, call_lines_select(&lines, &none, "handle"));
	expect_lines("web 83\nmain 83\n handle 80\n  parse 60\n  send 20\n", "and what it calls");
	assert_int_equal(0, call_lines_select(&lines, &none, "no such"));
	expect_lines("", "nothing");
	call_lines_deinit(&lines);
}

RUN_TESTS(cmocka_unit_test(shows_the_largest_first_and_indents_at_branchings),
	  cmocka_unit_test(begins_at_a_function), cmocka_unit_test(keeps_open_state),
	  cmocka_unit_test(filters_with_callers_and_callees))
