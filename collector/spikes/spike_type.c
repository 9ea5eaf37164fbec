// SPDX-License-Identifier: Apache-2.0
#include "collector/spikes/spike_type.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "base/contract/wait_classes.h"

#define SECONDS (1e-9) // of a nanosecond
#define SAMPLE  (10e6) // nanoseconds: of CPU time at 99 Hz
#define SWITCH  (1e6)  // nanoseconds of blocked time that nobody notices

// A first touch of 4 KiB takes about a microsecond, a launch five, an allocation on a GPU a hundred; a page
// that is read from a disk takes a millisecond, and a killed process at least a start.
static const struct spike_type types[] = {
	{ PROFILE_TYPE_CPU, NULL, SECONDS, SAMPLE, 1, "CPU time", "cores", true, false },
	{ PROFILE_TYPE_OFF_CPU, LABEL_WAIT, SECONDS, SWITCH, 1, "blocked time", "threads", true,
	  false },
	{ PROFILE_TYPE_SCHED_DELAY, NULL, SECONDS, SWITCH, 0.25, "time in the run queue", "threads",
	  true, false },
	{ PROFILE_TYPE_THROTTLED, NULL, SECONDS, SWITCH, 4, "throttled time", "CPUs", false,
	  false },
	{ PROFILE_TYPE_GPU_SPIN, NULL, SECONDS, SAMPLE, 0.7, "GPU busy-wait", "cores", true,
	  false },
	{ PROFILE_TYPE_GPU_WAIT, NULL, SECONDS, SWITCH, 0.7, "time waiting for a GPU", "threads",
	  true, false },
	{ PROFILE_TYPE_GPU_IDLE, NULL, SECONDS, SWITCH, 1.5, "GPU idle time", "GPUs", true, true },
	{ PROFILE_TYPE_GPU_LOAD, NULL, SECONDS, SWITCH, 1, "GPU module loading", "threads", true,
	  false },
	{ PROFILE_TYPE_GPU_LAUNCH, NULL, 5e-6, 1, 0.5, "GPU kernel launches", NULL, true, true },
	{ PROFILE_TYPE_GPU_ALLOCATIONS, NULL, 1e-4, 1, 0.5, "GPU allocations", NULL, true, true },
	{ PROFILE_TYPE_NCCL_SKEW, NULL, SECONDS, SWITCH, 1, "NCCL skew", "ranks", true, false },
	{ PROFILE_TYPE_PAGE_FAULT, NULL, 1e-6 / 4096, 1 << 20, 1, "memory growth", NULL, true,
	  false },
	{ PROFILE_TYPE_MAJOR_FAULTS, NULL, 1e-3, 10, 0.5, "major faults", NULL, false, false },
	{ PROFILE_TYPE_OOM_KILLS, NULL, 60, 0.1, 2, "OOM kills", NULL, false, false },
};

/* Waits are effects; those of a lock or a disk name their cause best. Where stacks are not sampled the class is other. */
static const double wait_weights[WAIT_CLASS_COUNT] = {
	[WAIT_CLASS_LOCK] = 0.6,    [WAIT_CLASS_GIL] = 0.3,   [WAIT_CLASS_DISK] = 0.8,
	[WAIT_CLASS_NETWORK] = 0.3, [WAIT_CLASS_SLEEP] = 0.2, [WAIT_CLASS_PIPE] = 0.3,
	[WAIT_CLASS_GPU] = 0.6,     [WAIT_CLASS_STOPPED] = 1, [WAIT_CLASS_PAGE_FAULT] = 0.8,
};

const struct spike_type *spike_types(uint32_t *ret_count)
{
	*ret_count = ARRAY_SIZE(types);
	return types;
}

const struct spike_type *spike_type_find(const char *type)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (strcmp(types[i].type, type) == 0)
			return &types[i];
	}
	return NULL;
}

double spike_type_weight(const struct spike_type *type, const char *value)
{
	if (!type->group_label)
		return type->weight;
	return type->weight * wait_weights[wait_class_find(value)];
}
