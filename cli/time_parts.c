// SPDX-License-Identifier: Apache-2.0
#include "cli/time_parts.h"

#include <string.h>

#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "base/contract/thread_states.h"
#include "base/contract/wait_classes.h"

static const struct {
	const char *heading;
	const char *key;
} parts[TIME_PART_COUNT] = {
	[TIME_PART_RUNNING] = { "run%", "running" },   [TIME_PART_QUEUED] = { "queue%", "queued" },
	[TIME_PART_GIL] = { "GIL%", "gil" },           [TIME_PART_GPU] = { "GPU%", "gpu" },
	[TIME_PART_BLOCKED] = { "block%", "blocked" },
};

const char *time_part_heading(enum time_part part)
{
	return parts[part].heading;
}

const char *time_part_key(enum time_part part)
{
	return parts[part].key;
}

bool time_parts_has(const char *type)
{
	return strcmp(type, PROFILE_TYPE_WALL) == 0 || strcmp(type, PROFILE_TYPE_OFF_CPU) == 0;
}

static bool is(const char *value, const char *token)
{
	return value && strcmp(value, token) == 0;
}

enum time_part time_part_of(const struct labels *labels)
{
	const char *state = labels_get(labels, LABEL_STATE), *wait = labels_get(labels, LABEL_WAIT);

	if (is(state, THREAD_STATE_RUNNING))
		return TIME_PART_RUNNING;
	if (is(state, THREAD_STATE_RUN_QUEUE))
		return TIME_PART_QUEUED;
	if (is(wait, wait_class_name(WAIT_CLASS_GIL)))
		return TIME_PART_GIL;
	if (is(wait, wait_class_name(WAIT_CLASS_GPU)))
		return TIME_PART_GPU;
	return TIME_PART_BLOCKED;
}
