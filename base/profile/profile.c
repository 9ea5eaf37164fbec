// SPDX-License-Identifier: Apache-2.0
#include "base/profile/profile.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

enum {
	PROFILE_LINES_MAX = 1 << 24,           // four lines for each of the locations there may be
	PROFILE_STACK_LOCATIONS_MAX = 1 << 28, // 64 frames for each of the stacks there may be
};

struct profile *profile_new(uint64_t slot_ns)
{
	_cleanup_(profile_freep) struct profile *profile = calloc(1, sizeof(*profile));

	if (!profile || string_table_init(&profile->strings) < 0)
		return NULL;
	profile->slot_ns = slot_ns;
	return take(profile);
}

struct profile *profile_share(struct profile *profile)
{
	__atomic_fetch_add(&profile->other_owners, 1, __ATOMIC_RELAXED);
	return profile;
}

void profile_free(struct profile *profile)
{
	if (!profile || __atomic_fetch_sub(&profile->other_owners, 1, __ATOMIC_ACQ_REL))
		return;
	for (uint32_t i = 0; i < profile->series_count; i++)
		labels_deinit(&profile->series[i].labels);
	free(profile->series);
	free(profile->samples);
	free(profile->stacks);
	free(profile->stack_locations);
	free(profile->locations);
	free(profile->lines);
	hash_table_deinit(&profile->location_index);
	hash_table_deinit(&profile->stack_index);
	hash_table_deinit(&profile->series_index);
	string_table_deinit(&profile->strings);
	free(profile);
}

void profile_freep(struct profile **profile)
{
	profile_free(*profile);
}

int profile_add_string(struct profile *profile, const char *string, uint32_t *ret_number)
{
	return string_table_add(&profile->strings, string, strlen(string), ret_number);
}

const char *profile_string(const struct profile *profile, uint32_t number)
{
	return string_table_get(&profile->strings, number);
}

int profile_reserve(struct profile *profile, uint32_t stacks, uint32_t samples)
{
	int rc = array_reserve(&profile->stacks, sizeof(*profile->stacks), &profile->stack_capacity,
			       profile->stack_count, stacks, PROFILE_STACKS_MAX);

	return rc ? rc
		  : array_reserve(&profile->samples, sizeof(*profile->samples),
				  &profile->sample_capacity, profile->sample_count, samples,
				  PROFILE_SAMPLES_MAX);
}

// ---- locations ------------------------------------------------------------------------------

static bool location_has_id(const void *context, uint32_t item, const void *key)
{
	const struct profile *profile = context;

	return id128_equal(profile->locations[item].id, *(const struct id128 *)key);
}

uint32_t profile_find_location(const struct profile *profile, struct id128 id)
{
	return hash_table_find(&profile->location_index, id128_hash(id), location_has_id, profile,
			       &id);
}

static int copy_lines(struct profile *profile, const struct line *lines, uint32_t count,
		      uint32_t *ret_first)
{
	*ret_first = profile->line_count;
	if (count == 0)
		return 0;

	int rc = array_reserve(&profile->lines, sizeof(*lines), &profile->line_capacity,
			       profile->line_count, count, PROFILE_LINES_MAX);
	if (rc < 0)
		return rc;
	memcpy(&profile->lines[profile->line_count], lines, count * sizeof(*lines));
	profile->line_count += count;
	return 0;
}

uint32_t location_detail(const struct profile *profile, const struct location *location)
{
	for (uint32_t i = 0; i < location->line_count; i++)
		if (profile->lines[location->first_line + i].file)
			return 2;
	return location->line_count > 0;
}

static uint32_t detail_of(const struct line *lines, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (lines[i].file)
			return 2;
	return count > 0;
}

// Names may come later than the location did.
static int name_location(struct profile *profile, uint32_t at, const struct line *lines,
			 uint32_t count)
{
	struct location *location = &profile->locations[at];

	if (detail_of(lines, count) <= location_detail(profile, location))
		return 0;

	uint32_t first;
	int rc = copy_lines(profile, lines, count, &first);
	if (rc < 0)
		return rc;
	location->first_line = first;
	location->line_count = count;
	return 0;
}

int profile_add_location(struct profile *profile, const struct location *location,
			 const struct line *lines, uint32_t line_count, uint32_t *ret_location)
{
	uint32_t at = profile_find_location(profile, location->id);
	uint32_t first_line;
	int rc;

	if (line_count > LOCATION_LINES_MAX)
		return -E2BIG;
	if (at != HASH_TABLE_NONE) {
		rc = name_location(profile, at, lines, line_count);
		if (rc == 0)
			*ret_location = at;
		return rc;
	}

	at = profile->location_count;
	rc = array_reserve(&profile->locations, sizeof(*location), &profile->location_capacity, at,
			   1, PROFILE_LOCATIONS_MAX);
	if (rc == 0)
		rc = copy_lines(profile, lines, line_count, &first_line);
	if (rc == 0)
		rc = hash_table_add(&profile->location_index, id128_hash(location->id), at);
	if (rc < 0)
		return rc;

	profile->locations[at] = *location;
	profile->locations[at].first_line = first_line;
	profile->locations[at].line_count = line_count;
	profile->location_count++;
	*ret_location = at;
	return 0;
}

// ---- stacks ---------------------------------------------------------------------------------

static bool stack_has_id(const void *context, uint32_t item, const void *key)
{
	const struct profile *profile = context;

	return id128_equal(profile->stacks[item].id, *(const struct id128 *)key);
}

static int id_of_locations(const struct profile *profile, const uint32_t *locations, uint32_t count,
			   enum stack_end end, struct id128 *ret_id)
{
	struct id128 ids[STACK_FRAMES_MAX];

	if (count > STACK_FRAMES_MAX)
		return -E2BIG;
	for (uint32_t i = 0; i < count; i++) {
		if (locations[i] >= profile->location_count)
			return -EINVAL;
		ids[i] = profile->locations[locations[i]].id;
	}
	*ret_id = stack_id_of(ids, count, end);
	return 0;
}

// Copy the positions of a stack's locations, which were checked, and mark it as defined.
static int fill_stack(struct profile *profile, struct stack *stack, const uint32_t *locations,
		      uint32_t count, enum stack_end end)
{
	uint32_t first = profile->stack_location_count;
	int rc = array_reserve(&profile->stack_locations, sizeof(*locations),
			       &profile->stack_location_capacity, first, count,
			       PROFILE_STACK_LOCATIONS_MAX);

	if (rc < 0)
		return rc;
	if (count > 0)
		memcpy(&profile->stack_locations[first], locations, count * sizeof(*locations));
	profile->stack_location_count += count;
	stack->first_location = first;
	stack->location_count = count;
	stack->end = end;
	stack->defined = true;
	return 0;
}

int profile_add_stack_id(struct profile *profile, struct id128 id, uint32_t *ret_stack)
{
	uint32_t at =
		hash_table_find(&profile->stack_index, id128_hash(id), stack_has_id, profile, &id);

	if (at != HASH_TABLE_NONE) {
		*ret_stack = at;
		return 0;
	}

	at = profile->stack_count;
	int rc = array_reserve(&profile->stacks, sizeof(*profile->stacks), &profile->stack_capacity,
			       at, 1, PROFILE_STACKS_MAX);
	if (rc == 0)
		rc = hash_table_add(&profile->stack_index, id128_hash(id), at);
	if (rc < 0)
		return rc;
	profile->stacks[at] = (struct stack){ .id = id };
	profile->stack_count++;
	*ret_stack = at;
	return 0;
}

int profile_add_stack(struct profile *profile, const uint32_t *locations, uint32_t count,
		      enum stack_end end, uint32_t *ret_stack)
{
	struct id128 id;
	uint32_t at;
	int rc = id_of_locations(profile, locations, count, end, &id);

	if (rc == 0)
		rc = profile_add_stack_id(profile, id, &at);
	if (rc == 0 && !profile->stacks[at].defined)
		rc = fill_stack(profile, &profile->stacks[at], locations, count, end);
	if (rc == 0)
		*ret_stack = at;
	return rc;
}

int profile_define_stack(struct profile *profile, uint32_t stack, const uint32_t *locations,
			 uint32_t count, enum stack_end end)
{
	struct id128 id;
	int rc = id_of_locations(profile, locations, count, end, &id);

	assert(stack < profile->stack_count);
	if (rc < 0)
		return rc;
	if (!id128_equal(id, profile->stacks[stack].id))
		return -EBADMSG;
	if (profile->stacks[stack].defined)
		return 0;
	return fill_stack(profile, &profile->stacks[stack], locations, count, end);
}

// ---- series and samples ---------------------------------------------------------------------

static bool series_has_id(const void *context, uint32_t item, const void *key)
{
	const struct profile *profile = context;

	return id128_equal(profile->series[item].id, *(const struct id128 *)key);
}

int profile_add_series(struct profile *profile, const struct labels *labels, const char *type,
		       uint32_t *ret_series)
{
	struct series series = { .id = series_id_of(labels, type) };
	uint32_t at = hash_table_find(&profile->series_index, id128_hash(series.id), series_has_id,
				      profile, &series.id);

	if (at != HASH_TABLE_NONE) {
		*ret_series = at;
		return 0;
	}

	at = profile->series_count;
	int rc = array_reserve(&profile->series, sizeof(series), &profile->series_capacity, at, 1,
			       PROFILE_SERIES_MAX);
	if (rc == 0)
		rc = profile_add_string(profile, type, &series.type);
	if (rc == 0)
		rc = labels_copy(labels, &series.labels);
	if (rc < 0)
		return rc;
	rc = hash_table_add(&profile->series_index, id128_hash(series.id), at);
	if (rc < 0) {
		labels_deinit(&series.labels);
		return rc;
	}
	profile->series[at] = series;
	profile->series_count++;
	*ret_series = at;
	return 0;
}

int profile_add_sample(struct profile *profile, uint32_t series, uint32_t stack, uint64_t slot,
		       int64_t value)
{
	return profile_add_interval(profile, series, stack, slot, 0, value);
}

int profile_add_interval(struct profile *profile, uint32_t series, uint32_t stack, uint64_t slot,
			 uint32_t more_slots, int64_t value)
{
	int rc = array_reserve(&profile->samples, sizeof(*profile->samples),
			       &profile->sample_capacity, profile->sample_count, 1,
			       PROFILE_SAMPLES_MAX);

	if (series >= profile->series_count || stack >= profile->stack_count)
		return -EINVAL;
	if (rc < 0)
		return rc;
	profile->samples[profile->sample_count++] = (struct sample){
		.series = series,
		.stack = stack,
		.slot = slot,
		.value = value,
		.more_slots = more_slots,
	};
	return 0;
}

int64_t profile_keep_samples(struct profile *profile,
			     bool (*keep)(void *context, const struct profile *profile,
					  const struct series *series),
			     void *context)
{
	uint32_t kept = 0;
	int64_t left_out = 0;

	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct sample *sample = &profile->samples[i];

		if (keep(context, profile, &profile->series[sample->series]))
			profile->samples[kept++] = *sample;
		else if (__builtin_add_overflow(left_out, sample->value, &left_out))
			left_out = INT64_MAX;
	}
	profile->sample_count = kept;
	return left_out;
}

void profile_drop_frames(struct profile *profile, enum frame_kind kind)
{
	for (uint32_t i = 0; i < profile->stack_count; i++) {
		struct stack *stack = &profile->stacks[i];
		uint32_t *locations = &profile->stack_locations[stack->first_location];
		uint32_t kept = 0;

		for (uint32_t l = 0; l < stack->location_count; l++)
			if (profile->locations[locations[l]].kind != kind)
				locations[kept++] = locations[l];
		stack->location_count = kept;
	}
}
