// SPDX-License-Identifier: Apache-2.0
#include "cli/recorded_types.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/contract/profile_type.h"

static bool has_wall(const struct recorded_types *types)
{
	for (uint32_t i = 0; i < types->count; i++)
		if (strcmp(types->at[i]->type, PROFILE_TYPE_WALL) == 0)
			return true;
	return false;
}

static int add_type(struct recorded_types *types, const char *text, struct error *err)
{
	const struct recorded_type *type;
	int rc = recorded_type_find(text, &type, err);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < types->count; i++)
		if (types->at[i] == type)
			return error_set(err, -EINVAL, "--type: %.60s is given twice", text);
	if (types->count == RECORDED_TYPES_MAX)
		return error_set(err, -EINVAL, "--type: more than %d types", RECORDED_TYPES_MAX);
	types->at[types->count++] = type;
	// CPU time comes first: files have its period, and what they show by default.
	if (!type->sources) {
		types->at[types->count - 1] = types->at[0];
		types->at[0] = type;
	}
	return 0;
}

int recorded_types_find(const char *text, struct recorded_types *ret_types, struct error *err)
{
	struct recorded_types types = { 0 };
	int rc = 0;

	for (const char *word = text; !rc && word;) {
		char copy[PROFILE_TYPE_BYTES];
		size_t size = strcspn(word, ",");

		snprintf(copy, sizeof(copy), "%.*s", (int)size, word);
		rc = add_type(&types, copy, err);
		word = word[size] ? word + size + 1 : NULL;
	}
	if (!rc && types.count > 1 && has_wall(&types))
		rc = error_set(err, -EINVAL,
			       "--type: wall is recorded alone; it is made of cpu, off-cpu and "
			       "run-queue");
	if (!rc)
		*ret_types = types;
	return rc;
}

uint32_t recorded_types_sources(const struct recorded_types *types)
{
	uint32_t sources = 0;

	for (uint32_t i = 0; i < types->count; i++)
		sources |= types->at[i]->sources;
	return sources;
}

int recorded_types_check_scope(const struct recorded_types *types, bool is_narrow,
			       struct error *err)
{
	int rc = 0;

	for (uint32_t i = 0; !rc && i < types->count; i++)
		rc = recorded_type_check_scope(types->at[i], is_narrow, err);
	return rc;
}

static bool is_selected(void *context, const struct profile *profile, const struct series *series)
{
	const struct recorded_types *types = context;

	for (uint32_t i = 0; i < types->count; i++)
		if (recorded_type_needs(types->at[i], profile, series))
			return true;
	return false;
}

static bool is_not_idle(void *context, const struct profile *profile, const struct series *series)
{
	(void)context;
	(void)profile;
	return !recorded_type_is_idle(series);
}

int64_t recorded_types_select(const struct recorded_types *types, bool with_idle,
			      struct profile *profile)
{
	profile_keep_samples(profile, is_selected, (void *)types);
	// Wall-clock time has idle time, and needs its stacks.
	if (with_idle || has_wall(types))
		return 0;
	return profile_keep_samples(profile, is_not_idle, NULL);
}

int recorded_types_finish(const struct recorded_types *types, struct profile *profile)
{
	int rc = 0;

	for (uint32_t i = 0; !rc && i < types->count; i++)
		rc = recorded_type_finish(types->at[i], profile);
	return rc;
}

bool recorded_types_are_empty(const struct recorded_types *types, const struct profile *profile)
{
	for (uint32_t i = 0; i < types->count; i++)
		if (recorded_type_total(types->at[i], profile))
			return false;
	return true;
}
