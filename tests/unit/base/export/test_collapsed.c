// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/export/collapsed.h"
#include "base/contract/label_names.h"

static uint32_t frame(struct profile *profile, enum frame_kind kind, const char *name,
		      const char *file, uint32_t number)
{
	struct location location = { .id = location_id_of_line(kind, name, file, number),
				     .kind = kind };
	struct line line = { .number = number };
	uint32_t at = HASH_TABLE_NONE;

	profile_add_string(profile, name, &line.name);
	profile_add_string(profile, file, &line.file);
	assert_int_equal(profile_add_location(profile, &location, &line, 1, &at), 0);
	return at;
}

static void sample(struct profile *profile, const char *process, const char *type,
		   const uint32_t *locations, uint32_t count, enum stack_end end, int64_t value)
{
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	uint32_t series, stack;

	labels_set(&labels, LABEL_PROCESS, process);
	assert_int_equal(profile_add_series(profile, &labels, type, &series), 0);
	assert_int_equal(profile_add_stack(profile, locations, count, end, &stack), 0);
	assert_int_equal(profile_add_sample(profile, series, stack, 1, value), 0);
}

static void expect_lines(const struct profile *profile, const char *expected, const char *what)
{
	_cleanup_(buffer_deinit) struct buffer text = { 0 };

	EXPECT_EQ(0, collapsed_encode(profile, PROFILE_TYPE_CPU, &text), what);
	EXPECT_STR(expected, buffer_string(&text), what);
}

TEST(sums_equal_lines_root_first)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	uint32_t stack[] = {
		frame(profile, FRAME_KIND_KERNEL, "schedule", "", 0),
		frame(profile, FRAME_KIND_NATIVE, "poll", "", 0),
		frame(profile, FRAME_KIND_PYTHON, "Loop.run", "/app/loop.py", 12),
	};

	sample(profile, "python3", PROFILE_TYPE_CPU, stack, 3, STACK_END_COMPLETE, 10);
	sample(profile, "python3", PROFILE_TYPE_CPU, stack, 3, STACK_END_COMPLETE, 5);
	sample(profile, "python3", PROFILE_TYPE_CPU, stack + 1, 2, STACK_END_COMPLETE, 7);
	sample(profile, "bash", PROFILE_TYPE_CPU, stack + 1, 1, STACK_END_COMPLETE, 3);
	sample(profile, "bash", "off_cpu:off_cpu:nanoseconds:off_cpu:nanoseconds", stack, 3,
	       STACK_END_COMPLETE, 1000);
	expect_lines(profile,
		     "bash;poll 3\n"
		     "python3;Loop.run (loop.py:12);poll 7\n"
		     "python3;Loop.run (loop.py:12);poll;schedule_[k] 15\n",
		     "two processes, another type left out");
}

TEST(one_stack_under_two_processes_is_two_lines)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	uint32_t stack[] = { frame(profile, FRAME_KIND_NATIVE, "poll", "", 0) };

	for (int round = 0; round < 3; round++) {
		sample(profile, "a", PROFILE_TYPE_CPU, stack, 1, STACK_END_COMPLETE, 1);
		sample(profile, "b", PROFILE_TYPE_CPU, stack, 1, STACK_END_COMPLETE, 10);
	}
	expect_lines(profile, "a;poll 3\nb;poll 30\n", "taking turns");
}

TEST(truncated_stack_names_reason)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	uint32_t stack[] = { frame(profile, FRAME_KIND_NATIVE, "f", "", 0) };

	sample(profile, "x", PROFILE_TYPE_CPU, stack, 1, STACK_END_NO_FRAME_POINTER, 1);
	sample(profile, "x", PROFILE_TYPE_CPU, stack, 1, STACK_END_COMPLETE, 2);
	sample(profile, "x", PROFILE_TYPE_CPU, NULL, 0, STACK_END_LOST, 4);
	expect_lines(profile,
		     "x;[truncated: no frame pointer];f 1\n"
		     "x;[truncated: stack lost] 4\n"
		     "x;f 2\n",
		     "cut");
}

TEST(undefined_stack_counts_as_lost)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	uint32_t stack;

	sample(profile, "x", PROFILE_TYPE_CPU, NULL, 0, STACK_END_COMPLETE, 1);
	profile_add_stack_id(profile, (struct id128){ 1, 2 }, &stack);
	profile_add_sample(profile, 0, stack, 0, 5);
	expect_lines(profile, "x 1\nx;[truncated: stack lost] 5\n", "id alone");
}

TEST(inlined_calls_are_frames_outermost_first)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	struct location location = { .id = { 1, 2 }, .kind = FRAME_KIND_NATIVE };
	struct line lines[2] = { { 0 } };
	uint32_t at;

	profile_add_string(profile, "inlined", &lines[0].name);
	profile_add_string(profile, "outer", &lines[1].name);
	profile_add_location(profile, &location, lines, 2, &at);
	sample(profile, "x", PROFILE_TYPE_CPU, &at, 1, STACK_END_COMPLETE, 9);
	expect_lines(profile, "x;outer;inlined 9\n", "inlined");
}

TEST(hostile_names_break_no_line)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	uint32_t stack[] = { frame(profile, FRAME_KIND_NATIVE, "a;b\nc 7", "", 0) };

	sample(profile, "we;ird\nname", PROFILE_TYPE_CPU, stack, 1, STACK_END_COMPLETE, 1);
	expect_lines(profile, "we:ird name;a:b c 7 1\n", "separators in names");
}

TEST(an_unlabelled_series_still_has_a_root)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	uint32_t stack[] = { frame(profile, FRAME_KIND_NATIVE, "f", "", 0) };

	sample(profile, "", PROFILE_TYPE_CPU, stack, 1, STACK_END_COMPLETE, 1);
	expect_lines(profile, "[unknown process];f 1\n", "no label");
}

TEST(an_empty_profile_is_an_empty_text)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);

	expect_lines(profile, "", "empty");
}

TEST(the_buffers_limit_is_respected)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	_cleanup_(buffer_deinit) struct buffer text = { .size_max = 5 };
	uint32_t stack[] = { frame(profile, FRAME_KIND_NATIVE, "function", "", 0) };

	sample(profile, "x", PROFILE_TYPE_CPU, stack, 1, STACK_END_COMPLETE, 1);
	EXPECT_EQ(-EFBIG, collapsed_encode(profile, PROFILE_TYPE_CPU, &text), "five bytes");
}

// What the lines add up to, by a plain reading of the text.
static int64_t sum_of_lines(const char *text)
{
	int64_t sum = 0;

	for (const char *line = text; *line;) {
		const char *end = strchr(line, '\n');
		const char *space = memrchr(line, ' ', (size_t)(end - line));

		sum += strtoll(space + 1, NULL, 10);
		line = end + 1;
	}
	return sum;
}

TEST(random_stacks_lose_nothing)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	_cleanup_(buffer_deinit) struct buffer text = { 0 };
	uint32_t frames[50];
	int64_t total = 0;

	srandom(7);
	for (uint32_t i = 0; i < 50; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%u", i % 40); // some names at two locations
		frames[i] = frame(profile, (enum frame_kind)(i % FRAME_KIND_COUNT), name, "", i);
	}
	for (int round = 0; round < 5000; round++) {
		uint32_t stack[STACK_FRAMES_MAX];
		uint32_t count = (uint32_t)random() % 30;

		for (uint32_t i = 0; i < count; i++)
			stack[i] = frames[random() % 50];
		sample(profile, round % 2 ? "even" : "odd", PROFILE_TYPE_CPU, stack, count,
		       (enum stack_end)(random() % STACK_END_COUNT), round);
		total += round;
	}
	EXPECT_EQ(0, collapsed_encode(profile, PROFILE_TYPE_CPU, &text), "encode");
	EXPECT_EQ(total, sum_of_lines(buffer_string(&text)), "sum");
}

RUN_TESTS(cmocka_unit_test(sums_equal_lines_root_first),
	  cmocka_unit_test(one_stack_under_two_processes_is_two_lines),
	  cmocka_unit_test(truncated_stack_names_reason),
	  cmocka_unit_test(undefined_stack_counts_as_lost),
	  cmocka_unit_test(inlined_calls_are_frames_outermost_first),
	  cmocka_unit_test(hostile_names_break_no_line),
	  cmocka_unit_test(an_unlabelled_series_still_has_a_root),
	  cmocka_unit_test(an_empty_profile_is_an_empty_text),
	  cmocka_unit_test(the_buffers_limit_is_respected),
	  cmocka_unit_test(random_stacks_lose_nothing))
