// SPDX-License-Identifier: Apache-2.0
#include "cli/recorded_type.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/sources.h"
#include "agent/stacks/sample_kind.h"
#include "agent/stacks/wait_class.h"
#include "base/cleanup.h"
#include "base/profile_type.h"

static const struct recorded_type types[] = {
	{ PROFILE_TYPE_CPU, 0, "on-CPU time", "CPUs busy", false },
	{ PROFILE_TYPE_OFF_CPU, SOURCE_WALL, "off-CPU time", "threads blocked", true },
	{ PROFILE_TYPE_OFF_WAKE, SOURCE_WALL | SOURCE_WAKERS, "off-wake time", "threads blocked",
	  true },
	{ PROFILE_TYPE_SCHED_DELAY, SOURCE_WALL, "run-queue latency", "threads runnable", false },
	{ PROFILE_TYPE_WALL, SOURCE_WALL, "wall-clock time of all threads", "threads", false },
	{ PROFILE_TYPE_PAGE_FAULT, SOURCE_MEMORY, "memory growth", "bytes per nanosecond", false },
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

int recorded_type_check_scope(const struct recorded_type *type, bool is_narrow, struct error *err)
{
	if (is_narrow || !(type->sources & SOURCE_WAKERS))
		return 0;
	return error_set(
		err, -EINVAL,
		"--type: %s of all processes would cost too much; name a process or service",
		type->title);
}

int recorded_type_check(const struct recorded_type *type, struct profiler *profiler,
			struct error *err)
{
	struct profiler_stats stats;
	const char *notice;

	profiler_read_stats(profiler, &stats);
	if ((stats.sources & type->sources) == type->sources)
		return 0;
	// The lanes' are the last that are told; each is valid until the next.
	char reason[ERROR_TEXT_BYTES] = "this kernel cannot";

	while ((notice = profiler_next_notice(profiler)))
		snprintf(reason, sizeof(reason), "%s", notice);
	return error_set(err, -EOPNOTSUPP, "--type: %s cannot be measured: %.200s", type->title,
			 reason);
}

static bool is_of_type(void *context, const struct profile *profile, const struct series *series)
{
	const struct recorded_type *type = context;

	return strcmp(profile_string(profile, series->type), type->type) == 0;
}

static bool is_not_idle(void *context, const struct profile *profile, const struct series *series)
{
	const char *wait = labels_get(&series->labels, LABEL_WAIT);

	(void)context;
	(void)profile;
	return !wait || strcmp(wait, wait_class_name(WAIT_CLASS_IDLE));
}

int64_t recorded_type_select(const struct recorded_type *type, bool with_idle,
			     struct profile *profile)
{
	profile_keep_samples(profile, is_of_type, (void *)type);
	if (with_idle || !type->has_idle)
		return 0;
	return profile_keep_samples(profile, is_not_idle, NULL);
}
