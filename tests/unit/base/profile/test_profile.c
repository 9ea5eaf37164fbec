// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/profile/profile.h"
#include "base/contract/label_names.h"

static uint32_t string(struct profile *profile, const char *text)
{
	uint32_t number = 0;

	assert_int_equal(profile_add_string(profile, text, &number), 0);
	return number;
}

// An unresolved location at @offset of one library.
static uint32_t native(struct profile *profile, uint64_t offset)
{
	struct location location = {
		.id = location_id_of_offset(FRAME_KIND_NATIVE, "b0a1", offset),
		.kind = FRAME_KIND_NATIVE,
		.module = string(profile, "/usr/lib/libx.so.1"),
		.build_id = string(profile, "b0a1"),
		.offset = offset,
	};
	uint32_t number = HASH_TABLE_NONE;

	assert_int_equal(profile_add_location(profile, &location, NULL, 0, &number), 0);
	return number;
}

static uint32_t series(struct profile *profile, const char *process)
{
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	uint32_t number = HASH_TABLE_NONE;

	labels_set(&labels, LABEL_PROCESS, process);
	assert_int_equal(profile_add_series(profile, &labels, PROFILE_TYPE_CPU, &number), 0);
	return number;
}

TEST(an_empty_profile_is_valid)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);

	assert_non_null(profile);
	profile_sort_samples(profile);
	EXPECT_EQ(0, profile->sample_count, "samples");
	EXPECT_STR("", profile_string(profile, 0), "string 0");
	profile_free(NULL);
}

TEST(merges_locations_and_later_names)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	uint32_t first = native(profile, 0x10), again = native(profile, 0x10);
	uint32_t other = native(profile, 0x20);

	EXPECT_EQ(first, again, "same identity");
	assert_int_not_equal(first, other);

	struct line lines[] = { { .name = string(profile, "inlined") },
				{ .name = string(profile, "outer") } };
	struct line late = { .name = string(profile, "too late") };
	struct location location = profile->locations[first];
	EXPECT_EQ(0, profile_add_location(profile, &location, lines, 2, &again), "named");
	EXPECT_EQ(first, again, "named in place");
	EXPECT_EQ(0, profile_add_location(profile, &location, &late, 1, &again), "named twice");
	EXPECT_EQ(2, profile->locations[first].line_count, "the first names stay");
	EXPECT_EQ(lines[0].name, profile->lines[profile->locations[first].first_line].name, "name");
	EXPECT_EQ(1, location_detail(profile, &profile->locations[first]), "names only");
	late.file = string(profile, "f.c");
	EXPECT_EQ(0, profile_add_location(profile, &location, &late, 1, &again), "with a file");
	EXPECT_EQ(1, profile->locations[first].line_count, "a source says more than names");
	EXPECT_EQ(2, location_detail(profile, &profile->locations[first]), "files");
	EXPECT_EQ(0, profile_add_location(profile, &location, lines, 2, &again), "names again");
	EXPECT_EQ(1, profile->locations[first].line_count, "which say less");
	EXPECT_EQ(0, location_detail(profile, &profile->locations[other]), "nothing");
	EXPECT_EQ(first, profile_find_location(profile, location.id), "found");
	EXPECT_EQ(HASH_TABLE_NONE, profile_find_location(profile, (struct id128){ 1, 2 }),
		  "absent");
}

TEST(too_many_lines_are_refused)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	struct line lines[LOCATION_LINES_MAX + 1] = { 0 };
	struct location location = { .id = { 1, 2 } };
	uint32_t number = 77;

	EXPECT_EQ(-E2BIG,
		  profile_add_location(profile, &location, lines, LOCATION_LINES_MAX + 1, &number),
		  "65 lines");
	EXPECT_EQ(77, number, "untouched");
	EXPECT_EQ(0, profile->location_count, "nothing added");
	EXPECT_EQ(0, profile_add_location(profile, &location, lines, LOCATION_LINES_MAX, &number),
		  "64 lines");
}

TEST(stack_end_is_part_of_identity)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	uint32_t locations[] = { native(profile, 1), native(profile, 2) };
	uint32_t turned[] = { locations[1], locations[0] };
	uint32_t complete, again, cut, reverse, empty;

	EXPECT_EQ(0, profile_add_stack(profile, locations, 2, STACK_END_COMPLETE, &complete),
		  "add");
	EXPECT_EQ(0, profile_add_stack(profile, locations, 2, STACK_END_COMPLETE, &again), "again");
	EXPECT_EQ(0, profile_add_stack(profile, locations, 2, STACK_END_DEPTH, &cut), "cut");
	EXPECT_EQ(0, profile_add_stack(profile, turned, 2, STACK_END_COMPLETE, &reverse), "turned");
	EXPECT_EQ(0, profile_add_stack(profile, NULL, 0, STACK_END_LOST, &empty), "empty");
	EXPECT_EQ(complete, again, "equal");
	EXPECT_EQ(4, profile->stack_count, "the others differ");
	EXPECT_EQ(locations[1],
		  profile->stack_locations[profile->stacks[complete].first_location + 1], "copied");
}

TEST(wrong_stacks_are_refused)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	uint32_t locations[STACK_FRAMES_MAX + 1] = { native(profile, 1) };
	uint32_t outside[] = { 0, 1 };
	uint32_t number = 77;

	EXPECT_EQ(-EINVAL, profile_add_stack(profile, outside, 2, STACK_END_COMPLETE, &number),
		  "a location that is not there");
	EXPECT_EQ(-E2BIG,
		  profile_add_stack(profile, locations, STACK_FRAMES_MAX + 1, STACK_END_COMPLETE,
				    &number),
		  "1025 frames");
	EXPECT_EQ(77, number, "untouched");
	EXPECT_EQ(0, profile->stack_count, "nothing added");
	EXPECT_EQ(0,
		  profile_add_stack(profile, locations, STACK_FRAMES_MAX, STACK_END_COMPLETE,
				    &number),
		  "1024 frames");
}

TEST(defines_stack_only_by_matching_locations)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	uint32_t locations[] = { native(profile, 1), native(profile, 2) };
	struct id128 ids[] = { profile->locations[0].id, profile->locations[1].id };
	uint32_t stack, again;

	EXPECT_EQ(0, profile_add_stack_id(profile, stack_id_of(ids, 2, STACK_END_DEPTH), &stack),
		  "id alone");
	EXPECT_EQ(false, profile->stacks[stack].defined, "not yet");
	EXPECT_EQ(-EBADMSG, profile_define_stack(profile, stack, locations, 1, STACK_END_DEPTH),
		  "other locations");
	EXPECT_EQ(-EBADMSG, profile_define_stack(profile, stack, locations, 2, STACK_END_COMPLETE),
		  "another end");
	EXPECT_EQ(false, profile->stacks[stack].defined, "still not");
	EXPECT_EQ(0, profile_define_stack(profile, stack, locations, 2, STACK_END_DEPTH), "right");
	EXPECT_EQ(0, profile_define_stack(profile, stack, locations, 2, STACK_END_DEPTH), "twice");
	EXPECT_EQ(2, profile->stacks[stack].location_count, "defined");
	EXPECT_EQ(0, profile_add_stack(profile, locations, 2, STACK_END_DEPTH, &again), "add");
	EXPECT_EQ(stack, again, "the same stack");
}

TEST(series_differ_by_labels_and_type)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	uint32_t python = series(profile, "python3"), again = series(profile, "python3");
	uint32_t other;

	labels_set(&labels, LABEL_PROCESS, "python3");
	EXPECT_EQ(0, profile_add_series(profile, &labels, "off_cpu:a:b:c:d", &other), "type");
	EXPECT_EQ(python, again, "equal");
	assert_int_not_equal(python, other);
	assert_int_not_equal(python, series(profile, "python"));
	EXPECT_STR("off_cpu:a:b:c:d", profile_string(profile, profile->series[other].type), "type");
}

// What the rows are sorted and joined to, computed the slow and obvious way.
struct plain {
	uint32_t series, stack;
	uint64_t slot;
	int64_t value;
};

static bool is_sorted_and_joined(const struct profile *profile)
{
	for (uint32_t i = 1; i < profile->sample_count; i++) {
		const struct sample *a = &profile->samples[i - 1], *b = &profile->samples[i];

		if (a->series != b->series ? a->series > b->series
		    : a->slot != b->slot   ? a->slot > b->slot
					   : a->stack >= b->stack)
			return false;
	}
	return true;
}

static int64_t sum_of(const struct profile *profile, const struct plain *key)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct sample *sample = &profile->samples[i];

		if (sample->series == key->series && sample->stack == key->stack &&
		    sample->slot == key->slot)
			sum += sample->value;
	}
	return sum;
}

enum { PLAIN_STACKS = 3000, PLAIN_CHECKED = 50 };

// A profile of two series and PLAIN_STACKS stacks, without samples.
static struct profile *unsampled_profile(void)
{
	struct profile *profile = profile_new(20000000);

	series(profile, "a");
	series(profile, "b");
	for (uint32_t i = 0; i < PLAIN_STACKS; i++) {
		uint32_t stack, location = native(profile, i);

		profile_add_stack(profile, &location, 1, STACK_END_COMPLETE, &stack);
	}
	return profile;
}

// Add a random sample, and return it.
static struct plain add_random_sample(struct profile *profile, uint64_t slot_range)
{
	uint64_t wide = (uint64_t)random() << 33 ^ (uint64_t)random() << 3;
	struct plain plain = {
		.series = (uint32_t)random() % 2,
		.stack = (uint32_t)random() % PLAIN_STACKS,
		.slot = wide % slot_range,
		.value = random() % 1000 - 100,
	};

	assert_int_equal(
		profile_add_sample(profile, plain.series, plain.stack, plain.slot, plain.value), 0);
	return plain;
}

static const struct {
	const char *what;
	uint32_t count;
	uint64_t slot_range;
} sortings[] = {
	{ "few", 100, 3 },
	{ "many, slots near", 20000, 250 }, // enough for the radix sort
	{ "many, slots far apart", 5000, UINT64_MAX },
};

TEST(sorting_joins_equal_samples_and_keeps_all_values)
{
	srandom(4);
	for EACH (row, sortings) {
		_cleanup_(profile_freep) struct profile *profile = unsampled_profile();
		struct plain checked[PLAIN_CHECKED];
		int64_t before[PLAIN_CHECKED], total = 0;

		for (uint32_t i = 0; i < row->count; i++) {
			struct plain plain = add_random_sample(profile, row->slot_range);

			checked[i % PLAIN_CHECKED] = plain;
			total += plain.value;
		}
		for (int i = 0; i < PLAIN_CHECKED; i++)
			before[i] = sum_of(profile, &checked[i]);

		profile_sort_samples(profile);
		EXPECT_EQ(true, is_sorted_and_joined(profile), row->what);
		for (int i = 0; i < PLAIN_CHECKED; i++)
			EXPECT_EQ(before[i], sum_of(profile, &checked[i]), row->what);
		for (uint32_t i = 0; i < profile->sample_count; i++)
			total -= profile->samples[i].value;
		EXPECT_EQ(0, total, row->what);
	}
}

TEST(sums_saturate_instead_of_wrapping)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	uint32_t stack, whose = series(profile, "a");

	profile_add_stack(profile, NULL, 0, STACK_END_LOST, &stack);
	profile_add_sample(profile, whose, stack, 1, INT64_MAX);
	profile_add_sample(profile, whose, stack, 1, 1);
	profile_add_sample(profile, whose, stack, 2, INT64_MIN);
	profile_add_sample(profile, whose, stack, 2, -1);
	profile_sort_samples(profile);
	EXPECT_EQ(2, profile->sample_count, "joined");
	EXPECT_EQ(INT64_MAX, profile->samples[0].value, "up");
	EXPECT_EQ(INT64_MIN, profile->samples[1].value, "down");
}

TEST(a_sample_of_nothing_is_refused)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	uint32_t stack, whose = series(profile, "a");

	profile_add_stack(profile, NULL, 0, STACK_END_LOST, &stack);
	EXPECT_EQ(-EINVAL, profile_add_sample(profile, whose + 1, stack, 0, 1), "series");
	EXPECT_EQ(-EINVAL, profile_add_sample(profile, whose, stack + 1, 0, 1), "stack");
	EXPECT_EQ(0, profile->sample_count, "nothing added");
}

// With tables that trust the ids' low halves this takes minutes, not the blink that it should.
static bool keep_type(void *context, const struct profile *profile, const struct series *series)
{
	return !strcmp(profile_string(profile, series->type), context);
}

TEST(samples_are_kept_by_their_series)
{
	struct profile *profile = profile_new(20000000);
	struct labels labels = { 0 };
	uint32_t stack, cpu, waits;

	assert_int_equal(0, profile_add_stack(profile, NULL, 0, STACK_END_COMPLETE, &stack));
	assert_int_equal(0, profile_add_series(profile, &labels, PROFILE_TYPE_CPU, &cpu));
	assert_int_equal(0, profile_add_series(profile, &labels, PROFILE_TYPE_OFF_CPU, &waits));
	for (uint64_t slot = 0; slot < 10; slot++) {
		profile_add_sample(profile, cpu, stack, slot, 1);
		profile_add_interval(profile, waits, stack, slot, 3, 100);
	}
	EXPECT_EQ(10, profile_keep_samples(profile, keep_type, PROFILE_TYPE_OFF_CPU), "left out");
	EXPECT_EQ(10, profile->sample_count, "kept");
	EXPECT_EQ(9, profile->samples[9].slot, "in order");
	EXPECT_EQ(3, profile->samples[9].more_slots, "as they were");
	profile_add_sample(profile, waits, stack, 1, INT64_MAX);
	EXPECT_EQ(INT64_MAX, profile_keep_samples(profile, keep_type, PROFILE_TYPE_CPU), "no wrap");
	EXPECT_EQ(0, profile->sample_count, "none");
	profile_free(profile);
}

TEST(frames_of_one_kind_are_dropped)
{
	static const enum frame_kind kinds[] = { FRAME_KIND_KERNEL, FRAME_KIND_PYTHON,
						 FRAME_KIND_NATIVE, FRAME_KIND_PYTHON };
	struct profile *profile = profile_new(1);
	uint32_t locations[ARRAY_SIZE(kinds)], stack, other;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct location location = { .kind = kinds[i], .id = id128_of(&i, sizeof(i)) };
		assert_int_equal(0,
				 profile_add_location(profile, &location, NULL, 0, &locations[i]));
	}
	assert_int_equal(0, profile_add_stack(profile, locations, 4, STACK_END_COMPLETE, &stack));
	assert_int_equal(0,
			 profile_add_stack(profile, locations + 2, 2, STACK_END_COMPLETE, &other));
	profile_drop_frames(profile, FRAME_KIND_PYTHON);
	const uint32_t *left = profile->stack_locations + profile->stacks[stack].first_location;
	EXPECT_EQ(2, profile->stacks[stack].location_count, "left");
	EXPECT_EQ(locations[0], left[0], "the leaf");
	EXPECT_EQ(locations[2], left[1], "the root");
	EXPECT_EQ(1, profile->stacks[other].location_count, "of the other");
	profile_free(profile);
}

TEST(ids_with_one_low_half_do_not_collide)
{
	struct profile *profile = profile_new(20000000);

	for (uint64_t i = 0; i < 200000; i++) {
		uint32_t stack;
		assert_int_equal(0, profile_add_stack_id(profile, (struct id128){ i, 7 }, &stack));
		assert_int_equal(i, stack);
	}
	profile_free(profile);
}

RUN_TESTS(cmocka_unit_test(samples_are_kept_by_their_series),
	  cmocka_unit_test(frames_of_one_kind_are_dropped),
	  cmocka_unit_test(ids_with_one_low_half_do_not_collide),
	  cmocka_unit_test(an_empty_profile_is_valid),
	  cmocka_unit_test(merges_locations_and_later_names),
	  cmocka_unit_test(too_many_lines_are_refused),
	  cmocka_unit_test(stack_end_is_part_of_identity),
	  cmocka_unit_test(wrong_stacks_are_refused),
	  cmocka_unit_test(defines_stack_only_by_matching_locations),
	  cmocka_unit_test(series_differ_by_labels_and_type),
	  cmocka_unit_test(sorting_joins_equal_samples_and_keeps_all_values),
	  cmocka_unit_test(sums_saturate_instead_of_wrapping),
	  cmocka_unit_test(a_sample_of_nothing_is_refused))
