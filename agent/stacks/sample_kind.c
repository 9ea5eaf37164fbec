// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/sample_kind.h"

#include <stddef.h>

#include "base/cleanup.h"
#include "base/contract/label_values.h"
#include "base/contract/profile_types.h"
#include "base/contract/thread_states.h"
#include "bpf/sample.h"

/* Copies: bytes, and how many. */
#define COPY(kind, numbers, to, host_memory)                                     \
	[SAMPLE_KIND_GPU_##kind] = { .type = PROFILE_TYPE_GPU_COPY,              \
				     .direction = (to),                          \
				     .memory = (host_memory),                    \
				     .has_stack = true,                          \
				     .number_kind = SAMPLE_KIND_GPU_##numbers }, \
	[SAMPLE_KIND_GPU_##numbers] = { .type = PROFILE_TYPE_GPU_COPIES,         \
					.direction = (to),                       \
					.memory = (host_memory),                 \
					.has_stack = true }

#define NCCL(kind, of_type, numbers)                                  \
	[SAMPLE_KIND_##kind] = { .type = PROFILE_TYPE_NCCL_##of_type, \
				 .has_stack = true,                   \
				 .is_of_communicator = true,          \
				 .number_kind = (numbers) }

static const struct sample_kind_type kinds[] = {
	[SAMPLE_KIND_ON_CPU] = { .type = PROFILE_TYPE_CPU, .has_stack = true },
	[SAMPLE_KIND_OFF_CPU] = { .type = PROFILE_TYPE_OFF_CPU,
				  .has_stack = true,
				  .is_calibrated = true,
				  .has_wait = true },
	[SAMPLE_KIND_SCHED_DELAY] = { .type = PROFILE_TYPE_SCHED_DELAY,
				      .has_stack = true,
				      .is_calibrated = true },
	[SAMPLE_KIND_OFF_CPU_SAMPLED] = { .type = PROFILE_TYPE_OFF_CPU,
					  .exact_kind = SAMPLE_KIND_OFF_CPU,
					  .has_stack = true,
					  .is_calibrated = true,
					  .has_wait = true },
	[SAMPLE_KIND_SCHED_DELAY_SAMPLED] = { .type = PROFILE_TYPE_SCHED_DELAY,
					      .exact_kind = SAMPLE_KIND_SCHED_DELAY,
					      .has_stack = true,
					      .is_calibrated = true },
	[SAMPLE_KIND_RUNNING] = { .type = PROFILE_TYPE_WALL, .state = THREAD_STATE_RUNNING },
	[SAMPLE_KIND_RUN_QUEUE] = { .type = PROFILE_TYPE_WALL, .state = THREAD_STATE_RUN_QUEUE },
	[SAMPLE_KIND_BLOCKED] = { .type = PROFILE_TYPE_WALL, .state = THREAD_STATE_BLOCKED },
	[SAMPLE_KIND_GPU_SPIN] = { .type = PROFILE_TYPE_GPU_SPIN, .has_stack = true },
	[SAMPLE_KIND_OFF_WAKE] = { .type = PROFILE_TYPE_OFF_WAKE,
				   .has_stack = true,
				   .has_wait = true },
	[SAMPLE_KIND_PAGE_FAULT] = { .type = PROFILE_TYPE_PAGE_FAULT, .has_stack = true },
	[SAMPLE_KIND_GPU_LAUNCH] = { .type = PROFILE_TYPE_GPU_LAUNCH,
				     .has_stack = true,
				     .has_grid = true },
	[SAMPLE_KIND_GPU_GRAPH] = { .type = PROFILE_TYPE_GPU_GRAPH, .has_stack = true },
	[SAMPLE_KIND_GPU_GRAPH_KERNELS] = { .type = PROFILE_TYPE_GPU_GRAPH_KERNELS,
					    .has_stack = true },
	[SAMPLE_KIND_GPU_WAIT] = { .type = PROFILE_TYPE_GPU_WAIT, .has_stack = true },
	[SAMPLE_KIND_GPU_LOAD] = { .type = PROFILE_TYPE_GPU_LOAD, .has_stack = true },
	[SAMPLE_KIND_GPU_ALLOC] = { .type = PROFILE_TYPE_GPU_ALLOC,
				    .has_stack = true,
				    .number_kind = SAMPLE_KIND_GPU_ALLOCATIONS },
	[SAMPLE_KIND_GPU_ALLOCATIONS] = { .type = PROFILE_TYPE_GPU_ALLOCATIONS, .has_stack = true },
	[SAMPLE_KIND_GPU_KERNEL] = { .type = PROFILE_TYPE_GPU_KERNEL,
				     .has_stack = true,
				     .has_cupti = true,
				     .number_kind = SAMPLE_KIND_GPU_KERNELS },
	[SAMPLE_KIND_GPU_KERNELS] = { .type = PROFILE_TYPE_GPU_KERNELS, .has_stack = true },
	[SAMPLE_KIND_GPU_MEMORY] = { .type = PROFILE_TYPE_GPU_MEMORY, .has_stack = true },
	[SAMPLE_KIND_GPU_IDLE] = { .type = PROFILE_TYPE_GPU_IDLE, .has_stack = true },
	[SAMPLE_KIND_GPU_IDLE_TIME] = { .type = PROFILE_TYPE_GPU_IDLE_TIME },
	NCCL(NCCL_ENQUEUE, ENQUEUE, SAMPLE_KIND_NCCL_CALLS),
	NCCL(NCCL_BYTES, BYTES, 0),
	NCCL(NCCL_SKEW, SKEW, 0),
	NCCL(NCCL_CALLS, CALLS, 0),
	COPY(COPY_HTOD, COPIES_HTOD, DIRECTION_HOST_TO_DEVICE, VALUE_UNKNOWN),
	COPY(COPY_HTOD_PINNED, COPIES_HTOD_PINNED, DIRECTION_HOST_TO_DEVICE, MEMORY_PINNED),
	COPY(COPY_HTOD_PAGEABLE, COPIES_HTOD_PAGEABLE, DIRECTION_HOST_TO_DEVICE, MEMORY_PAGEABLE),
	COPY(COPY_DTOH, COPIES_DTOH, DIRECTION_DEVICE_TO_HOST, VALUE_UNKNOWN),
	COPY(COPY_DTOH_PINNED, COPIES_DTOH_PINNED, DIRECTION_DEVICE_TO_HOST, MEMORY_PINNED),
	COPY(COPY_DTOH_PAGEABLE, COPIES_DTOH_PAGEABLE, DIRECTION_DEVICE_TO_HOST, MEMORY_PAGEABLE),
	COPY(COPY_DTOD, COPIES_DTOD, DIRECTION_DEVICE_TO_DEVICE, NULL),
	COPY(COPY_UNKNOWN, COPIES_UNKNOWN, VALUE_UNKNOWN, NULL),
	COPY(SET, SETS, DIRECTION_SET, NULL),
};

const struct sample_kind_type *sample_kind_find(uint32_t kind)
{
	return kind < ARRAY_SIZE(kinds) && kinds[kind].type ? &kinds[kind] : NULL;
}
