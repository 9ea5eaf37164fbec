// SPDX-License-Identifier: Apache-2.0
#include "base/profile/profile_merge.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"

/* Positions in `from` to positions in `into`; HASH_TABLE_NONE: not carried over yet. */
struct merge {
	struct profile *into;
	const struct profile *from;
	uint32_t *series;
	uint32_t *stacks;
	uint32_t *locations;
};

static uint32_t *new_map(uint32_t count)
{
	uint32_t *map = malloc(((size_t)count + 1) * sizeof(*map));

	for (uint32_t i = 0; map && i < count; i++)
		map[i] = HASH_TABLE_NONE;
	return map;
}

static int merge_string(struct merge *merge, uint32_t number, uint32_t *ret_number)
{
	return profile_add_string(merge->into, profile_string(merge->from, number), ret_number);
}

static int merge_lines(struct merge *merge, const struct location *location, struct line *ret_lines)
{
	int rc = 0;

	for (uint32_t i = 0; !rc && i < location->line_count; i++) {
		const struct line *line = &merge->from->lines[location->first_line + i];

		ret_lines[i].number = line->number;
		rc = merge_string(merge, line->name, &ret_lines[i].name);
		if (!rc)
			rc = merge_string(merge, line->file, &ret_lines[i].file);
	}
	return rc;
}

static int merge_location(struct merge *merge, uint32_t number, uint32_t *ret_location)
{
	const struct location *location = &merge->from->locations[number];
	struct location copy = *location;
	struct line lines[LOCATION_LINES_MAX];

	if (merge->locations[number] == HASH_TABLE_NONE) {
		int rc = merge_string(merge, location->module, &copy.module);

		if (!rc)
			rc = merge_string(merge, location->build_id, &copy.build_id);
		if (!rc)
			rc = merge_lines(merge, location, lines);
		if (!rc)
			rc = profile_add_location(merge->into, &copy, lines, location->line_count,
						  &merge->locations[number]);
		if (rc)
			return rc;
	}
	*ret_location = merge->locations[number];
	return 0;
}

static int merge_defined_stack(struct merge *merge, const struct stack *stack, uint32_t *ret_stack)
{
	uint32_t locations[STACK_FRAMES_MAX];

	for (uint32_t i = 0; i < stack->location_count; i++) {
		uint32_t location = merge->from->stack_locations[stack->first_location + i];
		int rc = merge_location(merge, location, &locations[i]);

		if (rc)
			return rc;
	}
	// This also defines a stack of which an earlier profile knew only the id.
	return profile_add_stack(merge->into, locations, stack->location_count, stack->end,
				 ret_stack);
}

static int merge_stack(struct merge *merge, uint32_t number, uint32_t *ret_stack)
{
	const struct stack *stack = &merge->from->stacks[number];
	uint32_t *known = &merge->stacks[number];

	if (*known == HASH_TABLE_NONE) {
		uint32_t added = HASH_TABLE_NONE;
		int rc = stack->defined ? merge_defined_stack(merge, stack, &added)
					: profile_add_stack_id(merge->into, stack->id, &added);

		if (rc)
			return rc;
		*known = added;
	}
	*ret_stack = *known;
	return 0;
}

static int merge_series(struct merge *merge, uint32_t number, uint32_t *ret_series)
{
	const struct series *series = &merge->from->series[number];

	if (merge->series[number] == HASH_TABLE_NONE) {
		int rc = profile_add_series(merge->into, &series->labels,
					    profile_string(merge->from, series->type),
					    &merge->series[number]);

		if (rc)
			return rc;
	}
	*ret_series = merge->series[number];
	return 0;
}

static int merge_samples(struct merge *merge, bool keep_slots)
{
	int rc = 0;

	for (uint32_t i = 0; !rc && i < merge->from->sample_count; i++) {
		const struct sample *sample = &merge->from->samples[i];
		uint32_t series = 0, stack = 0;

		rc = merge_series(merge, sample->series, &series);
		if (!rc)
			rc = merge_stack(merge, sample->stack, &stack);
		if (!rc)
			rc = profile_add_interval(
				merge->into, series, stack, keep_slots ? sample->slot : 0,
				keep_slots ? sample->more_slots : 0, sample->value);
	}
	if (!keep_slots)
		profile_sort_samples(merge->into);
	return rc;
}

static void widen_range(struct profile *into, const struct profile *from)
{
	if (!into->to_ns || from->from_ns < into->from_ns)
		into->from_ns = from->from_ns;
	if (from->to_ns > into->to_ns)
		into->to_ns = from->to_ns;
}

static int merge_profiles(struct profile *into, const struct profile *from, bool keep_slots,
			  struct error *err)
{
	_cleanup_free_ uint32_t *series = new_map(from->series_count);
	_cleanup_free_ uint32_t *stacks = new_map(from->stack_count);
	_cleanup_free_ uint32_t *locations = new_map(from->location_count);
	if (!series || !stacks || !locations)
		return error_set(err, -ENOMEM, "profile: out of memory while merging");

	struct merge merge = { into, from, series, stacks, locations };
	int rc = merge_samples(&merge, keep_slots);

	widen_range(into, from);
	if (rc == -E2BIG)
		return error_set(err, rc,
				 "profile: too large to merge: %u series, %u stacks, %u locations "
				 "(at most %d, %d and %d)",
				 into->series_count, into->stack_count, into->location_count,
				 PROFILE_SERIES_MAX, PROFILE_STACKS_MAX, PROFILE_LOCATIONS_MAX);
	return rc ? error_errno(err, rc, "profile: merge") : 0;
}

int profile_merge(struct profile *into, const struct profile *from, struct error *err)
{
	return merge_profiles(into, from, false, err);
}

int profile_merge_slots(struct profile *into, const struct profile *from, struct error *err)
{
	return merge_profiles(into, from, true, err);
}
