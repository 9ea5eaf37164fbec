// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>

#include "base/profile/profile_merge.h"
#include "base/contract/label_names.h"

#define OTHER_TYPE "wall:wall:nanoseconds:wall:nanoseconds"

/* A window with one sample: @process ran @function (called by "main") for @value. */
struct window {
	const char *process;
	const char *type;
	const char *function;
	uint64_t slot;
	int64_t value;
};

static uint32_t add_function(struct profile *profile, const char *name)
{
	struct location location = {
		.id = location_id_of_offset(FRAME_KIND_NATIVE, "abcd", strlen(name) * 16),
		.kind = FRAME_KIND_NATIVE,
		.offset = strlen(name) * 16,
	};
	struct line line = { .number = 7 };
	uint32_t number = 0;

	assert_int_equal(0, profile_add_string(profile, "/bin/app", &location.module));
	assert_int_equal(0, profile_add_string(profile, "abcd", &location.build_id));
	assert_int_equal(0, profile_add_string(profile, name, &line.name));
	assert_int_equal(0, profile_add_string(profile, "app.c", &line.file));
	assert_int_equal(0, profile_add_location(profile, &location, &line, 1, &number));
	return number;
}

static struct profile *new_window(const struct window *window)
{
	struct profile *profile = profile_new(20000000);
	struct labels labels = { 0 };
	uint32_t series, stack, locations[2];

	assert_non_null(profile);
	profile->from_ns = window->slot * profile->slot_ns;
	profile->to_ns = profile->from_ns + profile->slot_ns;
	locations[0] = add_function(profile, window->function);
	locations[1] = add_function(profile, "main");
	assert_int_equal(0, labels_set(&labels, LABEL_PROCESS, window->process));
	assert_int_equal(0, profile_add_series(profile, &labels, window->type, &series));
	assert_int_equal(0, profile_add_stack(profile, locations, 2, STACK_END_COMPLETE, &stack));
	assert_int_equal(0,
			 profile_add_sample(profile, series, stack, window->slot, window->value));
	labels_deinit(&labels);
	return profile;
}

static struct profile *merge_windows(const struct window *windows, uint32_t count)
{
	struct profile *into = profile_new(1000000000);

	for (uint32_t i = 0; i < count; i++) {
		struct profile *window = new_window(&windows[i]);
		struct error err = { 0 };

		assert_int_equal(0, profile_merge(into, window, &err));
		profile_free(window);
	}
	return into;
}

TEST(merges_equal_stacks_of_two_profiles)
{
	static const struct window windows[] = {
		{ "app", PROFILE_TYPE_CPU, "parse", 100, 5 },
		{ "app", PROFILE_TYPE_CPU, "parse", 170, 6 },
	};
	struct profile *merged = merge_windows(windows, 2);

	EXPECT_EQ(1, merged->sample_count, "samples");
	EXPECT_EQ(11, merged->samples[0].value, "values are added");
	EXPECT_EQ(0, merged->samples[0].slot, "time is lost");
	EXPECT_EQ(100 * 20000000LL, merged->from_ns, "range begins with the first window");
	EXPECT_EQ(171 * 20000000LL, merged->to_ns, "range ends with the last window");
	profile_free(merged);
}

TEST(what_differs_stays_apart)
{
	static const struct window windows[] = {
		{ "app", PROFILE_TYPE_CPU, "parse", 1, 1 },
		{ "app", PROFILE_TYPE_CPU, "render", 1, 2 },
		{ "web", PROFILE_TYPE_CPU, "parse", 1, 4 },
		{ "app", OTHER_TYPE, "parse", 1, 8 },
	};
	struct profile *merged = merge_windows(windows, 4);
	int64_t sum = 0;

	EXPECT_EQ(4, merged->sample_count, "one sample each");
	EXPECT_EQ(3, merged->series_count, "two processes, two types");
	EXPECT_EQ(2, merged->stack_count, "two functions");
	EXPECT_EQ(3, merged->location_count, "parse, render, main");
	for (uint32_t i = 0; i < merged->sample_count; i++)
		sum += merged->samples[i].value;
	EXPECT_EQ(15, sum, "nothing lost, nothing twice");
	profile_free(merged);
}

TEST(names_travel_with_their_locations)
{
	static const struct window windows[] = {
		{ "other", PROFILE_TYPE_CPU, "first_so_that_numbers_differ", 1, 1 },
		{ "app", PROFILE_TYPE_CPU, "parse", 1, 1 },
	};
	struct profile *merged = merge_windows(windows, 2);
	struct id128 id = location_id_of_offset(FRAME_KIND_NATIVE, "abcd", strlen("parse") * 16);
	uint32_t number = profile_find_location(merged, id);
	char name[128];

	assert_int_not_equal(HASH_TABLE_NONE, number);
	const struct location *location = &merged->locations[number];
	const struct line *line = &merged->lines[location->first_line];
	location_display_name(merged, location, 0, name, sizeof(name));
	EXPECT_STR("parse", name, "display name");
	EXPECT_STR("app.c", profile_string(merged, line->file), "file");
	EXPECT_EQ(7, line->number, "line");
	EXPECT_STR("/bin/app", profile_string(merged, location->module), "module");
	EXPECT_STR("abcd", profile_string(merged, location->build_id), "build id");
	profile_free(merged);
}

TEST(later_profile_defines_stack)
{
	static const struct window window = { "app", PROFILE_TYPE_CPU, "parse", 1, 3 };
	struct profile *defined = new_window(&window);
	struct profile *by_id = profile_new(20000000);
	struct profile *into = profile_new(20000000);
	struct labels labels = { 0 };
	uint32_t series, stack;
	struct error err = { 0 };

	assert_int_equal(0, labels_set(&labels, LABEL_PROCESS, "app"));
	assert_int_equal(0, profile_add_series(by_id, &labels, PROFILE_TYPE_CPU, &series));
	assert_int_equal(0, profile_add_stack_id(by_id, defined->stacks[0].id, &stack));
	assert_int_equal(0, profile_add_sample(by_id, series, stack, 9, 4));
	labels_deinit(&labels);

	assert_int_equal(0, profile_merge(into, by_id, &err));
	EXPECT_EQ(0, into->stacks[0].defined, "only the id");
	assert_int_equal(0, profile_merge(into, defined, &err));
	EXPECT_EQ(1, into->stack_count, "the same stack");
	EXPECT_EQ(1, into->stacks[0].defined, "defined now");
	EXPECT_EQ(2, into->stacks[0].location_count, "with its locations");
	EXPECT_EQ(1, into->sample_count, "one sample");
	EXPECT_EQ(7, into->samples[0].value, "both values");
	profile_free(into);
	profile_free(by_id);
	profile_free(defined);
}

TEST(slots_are_kept_where_asked_for)
{
	static const struct window window = { "app", PROFILE_TYPE_CPU, "parse", 50, 3 };
	struct profile *from = new_window(&window);
	struct profile *into = profile_new(20000000);
	struct error err = { 0 };

	assert_int_equal(0, profile_add_interval(from, from->samples[0].series,
						 from->samples[0].stack, 60, 4, 9));
	uint64_t slot = from->samples[0].slot;
	assert_int_equal(0, profile_merge_slots(into, from, &err));
	assert_int_equal(0, profile_merge_slots(into, from, &err));
	EXPECT_EQ(4, into->sample_count, "not joined");
	EXPECT_EQ(slot, into->samples[2].slot, "slot");
	EXPECT_EQ(60, into->samples[3].slot, "interval");
	EXPECT_EQ(4, into->samples[3].more_slots, "interval's end");
	profile_free(from);
	profile_free(into);
}

TEST(empty_profile_changes_nothing)
{
	static const struct window window = { "app", PROFILE_TYPE_CPU, "parse", 50, 3 };
	struct profile *into = merge_windows(&window, 1);
	struct profile *empty = profile_new(20000000);
	struct error err = { 0 };

	empty->from_ns = into->from_ns + 1;
	empty->to_ns = into->to_ns;
	assert_int_equal(0, profile_merge(into, empty, &err));
	EXPECT_EQ(1, into->sample_count, "samples");
	EXPECT_EQ(3, into->samples[0].value, "value");
	EXPECT_EQ(50 * 20000000LL, into->from_ns, "range");
	profile_free(empty);
	profile_free(into);
}

RUN_TESTS(cmocka_unit_test(merges_equal_stacks_of_two_profiles),
	  cmocka_unit_test(what_differs_stays_apart),
	  cmocka_unit_test(names_travel_with_their_locations),
	  cmocka_unit_test(later_profile_defines_stack),
	  cmocka_unit_test(slots_are_kept_where_asked_for),
	  cmocka_unit_test(empty_profile_changes_nothing))
