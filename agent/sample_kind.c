// SPDX-License-Identifier: Apache-2.0
#include "agent/sample_kind.h"

#include <stddef.h>

#include "base/cleanup.h"
#include "base/profile.h"
#include "bpf/sample.h"

static const struct sample_kind_type kinds[] = {
	[SAMPLE_KIND_ON_CPU] = { .type = PROFILE_TYPE_CPU, .has_stack = true },
	[SAMPLE_KIND_OFF_CPU] = { .type = PROFILE_TYPE_OFF_CPU,
				  .has_stack = true,
				  .has_wait = true },
	[SAMPLE_KIND_SCHED_DELAY] = { .type = PROFILE_TYPE_SCHED_DELAY, .has_stack = true },
	[SAMPLE_KIND_RUNNING] = { .type = PROFILE_TYPE_WALL, .state = "running" },
	[SAMPLE_KIND_WAITING] = { .type = PROFILE_TYPE_WALL, .state = "waiting" },
	[SAMPLE_KIND_BLOCKED] = { .type = PROFILE_TYPE_WALL, .state = "blocked" },
	[SAMPLE_KIND_GPU_SPIN] = { .type = PROFILE_TYPE_GPU_SPIN, .has_stack = true },
	[SAMPLE_KIND_OFF_WAKE] = { .type = PROFILE_TYPE_OFF_WAKE,
				   .has_stack = true,
				   .has_wait = true },
	[SAMPLE_KIND_PAGE_FAULT] = { .type = PROFILE_TYPE_PAGE_FAULT, .has_stack = true },
};

const struct sample_kind_type *sample_kind_find(uint32_t kind)
{
	return kind < ARRAY_SIZE(kinds) && kinds[kind].type ? &kinds[kind] : NULL;
}
