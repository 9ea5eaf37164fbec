// SPDX-License-Identifier: Apache-2.0
#include "base/profile_type.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/profile.h"

static const char *const part_names[] = {
	"name", "sample type", "sample unit", "period type", "period unit",
};

/* docs/interpret.md has the same words, and so has the page (collector/web/profile_type.js). */
static const struct profile_type_word words[] = {
	{ "cpu", PROFILE_TYPE_CPU, "time on a CPU" },
	{ "off-cpu", PROFILE_TYPE_OFF_CPU, "time blocked" },
	{ "off-wake", PROFILE_TYPE_OFF_WAKE, "time blocked, by who ended it" },
	{ "run-queue", PROFILE_TYPE_SCHED_DELAY, "time waiting for a CPU" },
	{ "wall", PROFILE_TYPE_WALL, "all time of all threads" },
	{ "throttled", "cpu_throttled:time:nanoseconds:wall:nanoseconds",
	  "time that a quota took" },
	{ "memory", PROFILE_TYPE_PAGE_FAULT, "memory touched first" },
	{ "rss", "memory:rss:bytes:gauge:second", "resident memory" },
	{ "major-faults", "memory:major_faults:count:event:count", "page faults read from disk" },
	{ "oom-kills", "memory:oom_kills:count:event:count", "kills for want of memory" },
	{ "gpu-spin", PROFILE_TYPE_GPU_SPIN, "CPU time spent waiting for a GPU" },
	{ "gpu-wait", PROFILE_TYPE_GPU_WAIT, "time in calls that wait for a GPU" },
	{ "gpu-launch", PROFILE_TYPE_GPU_LAUNCH, "kernels launched" },
	{ "gpu-graph", PROFILE_TYPE_GPU_GRAPH, "graphs launched" },
	{ "gpu-nodes", PROFILE_TYPE_GPU_GRAPH_KERNELS, "kernels that graphs launched" },
	{ "gpu-kernel", PROFILE_TYPE_GPU_KERNEL, "time of kernels on GPUs, in windows" },
	{ "gpu-copy", PROFILE_TYPE_GPU_COPY, "bytes copied to, from and on GPUs" },
	{ "gpu-alloc", PROFILE_TYPE_GPU_ALLOC, "memory of GPUs allocated" },
	{ "gpu-memory", PROFILE_TYPE_GPU_MEMORY, "memory of GPUs in use" },
	{ "gpu-idle", PROFILE_TYPE_GPU_IDLE, "time that a GPU waited for work" },
	{ "nccl-enqueue", PROFILE_TYPE_NCCL_ENQUEUE, "time in calls of NCCL" },
	{ "nccl-lag", PROFILE_TYPE_NCCL_LAG, "how late ranks call NCCL" },
	{ "nccl-bytes", PROFILE_TYPE_NCCL_BYTES, "bytes given to NCCL" },
	{ "cost", "cairn:cost:nanoseconds:wall:nanoseconds", "what the agent costs" },
	{ "governor", "cairn:governor:count:change:count", "what the agent did about it" },
};

static int copy_part(const char *text, const char *part, size_t size, const char *part_name,
		     char *ret_part, struct error *err)
{
	if (size == 0)
		return error_set(err, -EINVAL, "profile type \"%.80s\": the %s is empty", text,
				 part_name);
	if (size >= PROFILE_TYPE_PART_BYTES)
		return error_set(err, -EINVAL,
				 "profile type \"%.80s\": the %s is longer than %d bytes", text,
				 part_name, PROFILE_TYPE_PART_BYTES - 1);
	for (size_t i = 0; i < size; i++) {
		if (part[i] <= ' ' || part[i] > '~')
			return error_set(err, -EINVAL,
					 "profile type \"%.80s\": the %s has a character that is "
					 "not printable ASCII",
					 text, part_name);
	}
	memcpy(ret_part, part, size);
	ret_part[size] = 0;
	return 0;
}

int profile_type_parse(const char *text, struct profile_type *ret_type, struct error *err)
{
	struct profile_type type = { 0 };
	char *const parts[] = { type.name, type.sample_type, type.sample_unit, type.period_type,
				type.period_unit };
	const char *at = text;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		size_t size = strcspn(at, ":");
		bool is_last = i == ARRAY_SIZE(parts) - 1;

		if ((at[size] == ':') == is_last)
			return error_set(err, -EINVAL,
					 "profile type \"%.80s\": expected five parts, as in "
					 "process_cpu:cpu:nanoseconds:cpu:nanoseconds",
					 text);
		int rc = copy_part(text, at, size, part_names[i], parts[i], err);
		if (rc < 0)
			return rc;
		at += size + 1;
	}
	*ret_type = type;
	return 0;
}

bool profile_type_is_gauge(const char *text)
{
	struct profile_type type;

	return profile_type_parse(text, &type, NULL) == 0 &&
	       strcmp(type.period_type, "gauge") == 0 && strcmp(type.period_unit, "second") == 0;
}

const struct profile_type_word *profile_type_words(uint32_t *ret_count)
{
	*ret_count = ARRAY_SIZE(words);
	return words;
}

int profile_type_of_text(const char *text, const char **ret_type, struct error *err)
{
	char known[400] = "";
	struct profile_type parsed;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t used = strlen(known);

		if (strcmp(words[i].word, text) == 0) {
			*ret_type = words[i].type;
			return 0;
		}
		snprintf(known + used, sizeof(known) - used, "%s%s", i ? ", " : "", words[i].word);
	}
	if (!strchr(text, ':'))
		return error_set(
			err, -EINVAL,
			"unknown profile type \"%.40s\"; known: %s, or a type in five parts", text,
			known);
	*ret_type = text;
	return profile_type_parse(text, &parsed, err);
}
