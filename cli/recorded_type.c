// SPDX-License-Identifier: Apache-2.0
#include "cli/recorded_type.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sources/source.h"
#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/contract/wait_classes.h"
#include "base/contract/profile_type.h"
#include "base/profile/wall_stacks.h"

static const struct recorded_type types[] = {
	{ PROFILE_TYPE_CPU, 0 },
	{ PROFILE_TYPE_OFF_CPU, SOURCE_WALL },
	{ PROFILE_TYPE_OFF_WAKE, SOURCE_WALL | SOURCE_WAKERS },
	{ PROFILE_TYPE_SCHED_DELAY, SOURCE_WALL },
	{ PROFILE_TYPE_WALL, SOURCE_WALL },
	{ PROFILE_TYPE_PAGE_FAULT, SOURCE_MEMORY },
};

int recorded_type_find(const char *text, const struct recorded_type **ret_type, struct error *err)
{
	const char *type = NULL;
	bool is_type = !profile_type_of_text(text, &type, NULL);

	for (size_t i = 0; i < ARRAY_SIZE(types) && is_type; i++) {
		if (strcmp(types[i].type, type) == 0) {
			*ret_type = &types[i];
			return 0;
		}
	}
	return error_set(
		err, -EINVAL,
		"--type: \"%.60s\" is not measured in-process; known: " RECORDED_TYPE_WORDS, text);
}

const struct profile_type_spec *recorded_type_spec(const struct recorded_type *type)
{
	return profile_type_spec(type->type);
}

bool recorded_type_has_idle(const struct recorded_type *type)
{
	return profile_type_spec_has_label(recorded_type_spec(type), LABEL_WAIT);
}

int recorded_type_check_scope(const struct recorded_type *type, bool is_narrow, struct error *err)
{
	if (is_narrow || !(type->sources & SOURCE_WAKERS))
		return 0;
	return error_set(
		err, -EINVAL,
		"--type: %s of all processes: overhead too high; name a process or service",
		recorded_type_spec(type)->title);
}

static bool is_of_type(void *context, const struct profile *profile, const struct series *series)
{
	const struct recorded_type *type = context;

	return strcmp(profile_string(profile, series->type), type->type) == 0;
}

bool recorded_type_needs(const struct recorded_type *type, const struct profile *profile,
			 const struct series *series)
{
	return is_of_type((void *)type, profile, series) ||
	       (strcmp(type->type, PROFILE_TYPE_WALL) == 0 &&
		wall_stacks_need(profile_string(profile, series->type)));
}

bool recorded_type_is_idle(const struct series *series)
{
	const char *wait = labels_get(&series->labels, LABEL_WAIT);

	return wait && strcmp(wait, wait_class_name(WAIT_CLASS_IDLE)) == 0;
}

int recorded_type_finish(const struct recorded_type *type, struct profile *profile)
{
	return strcmp(type->type, PROFILE_TYPE_WALL) == 0 ? wall_stacks_compose(profile) : 0;
}

int64_t recorded_type_total(const struct recorded_type *type, const struct profile *profile)
{
	int64_t total = 0;

	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct series *series = &profile->series[profile->samples[i].series];

		if (is_of_type((void *)type, profile, series))
			total += profile->samples[i].value;
	}
	return total;
}

int recorded_type_stacks(const struct recorded_type *type, const struct profile *profile,
			 uint32_t *ret_count)
{
	_cleanup_free_ bool *seen = calloc(profile->stack_count + 1ULL, sizeof(*seen));
	uint32_t count = 0;

	for (uint32_t i = 0; seen && i < profile->sample_count; i++) {
		const struct sample *sample = &profile->samples[i];

		if (!is_of_type((void *)type, profile, &profile->series[sample->series]))
			continue;
		count += !seen[sample->stack];
		seen[sample->stack] = true;
	}
	*ret_count = count;
	return seen ? 0 : -ENOMEM;
}

const char *recorded_type_zero_hint(const struct recorded_type *type, bool had_idle)
{
	if (had_idle)
		return "it only waited for work; --idle includes that";
	if (!type->sources)
		return "it used no CPU meanwhile; --type off-cpu shows where it blocks, a larger "
		       "-d "
		       "or -F catches rare work";
	if (type->sources & SOURCE_MEMORY)
		return "it touched no new memory meanwhile; try a larger -d";
	return "none was measured meanwhile; try a larger -d";
}
