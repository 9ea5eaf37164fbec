// SPDX-License-Identifier: Apache-2.0
#include "collector/query/missing_symbols.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/saturating.h"

static bool is_missing(const struct profile *profile, const struct location *location)
{
	return !location->line_count && *profile_string(profile, location->build_id);
}

static int by_falling_value(const void *a, const void *b)
{
	const struct missing_file *left = a, *right = b;

	if (left->value != right->value)
		return left->value < right->value ? 1 : -1;
	return left->build_id < right->build_id ? -1 : 1;
}

/** @value for each file of the stack; @marks: by build id, the last sample + 1 that counted it. */
static void add_sample(const struct profile *profile, uint32_t number, struct missing_file *of_id,
		       uint32_t *marks)
{
	const struct sample *sample = &profile->samples[number];
	const struct stack *stack = &profile->stacks[sample->stack];

	for (uint32_t i = 0; i < stack->location_count; i++) {
		uint32_t at = profile->stack_locations[stack->first_location + i];
		const struct location *location = &profile->locations[at];
		uint32_t id = location->build_id;

		if (!is_missing(profile, location) || marks[id] == number + 1)
			continue;
		marks[id] = number + 1;
		of_id[id].build_id = id;
		of_id[id].module = location->module;
		of_id[id].value = add_saturating(of_id[id].value, sample->value);
	}
}

int missing_symbols_of(const struct profile *profile, struct missing_file **ret_files,
		       uint32_t *ret_count, int64_t *ret_total)
{
	_cleanup_free_ struct missing_file *files = NULL;
	_cleanup_free_ uint32_t *marks = NULL;
	uint32_t count = 0;
	int64_t total = 0;
	int rc = array_allocate(&files, profile->strings.count, sizeof(*files));

	if (!rc)
		rc = array_allocate(&marks, profile->strings.count, sizeof(*marks));
	if (rc)
		return rc;
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		total = add_saturating(total, profile->samples[i].value);
		add_sample(profile, i, files, marks);
	}
	for (uint32_t i = 0; i < profile->strings.count; i++)
		if (marks[i])
			files[count++] = files[i];
	qsort(files, count, sizeof(*files), by_falling_value);
	*ret_files = take(files);
	*ret_count = count;
	*ret_total = total;
	return 0;
}
