/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Stacks of launches that the CUPTI helper samples (helper/cupti_helper.c), by correlation id. The activity records of
// their GPU kernels have the same id: the agent joins the two after the CUPTI session.
#pragma once

#include "bpf/gpu/gpu_stack.bpf.h"

#define GPU_SAMPLED_LAUNCHES_MAX \
	32768 // twice the records of a session; the agent drains it after each

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GPU_SAMPLED_LAUNCHES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct gpu_key);
	__type(value, struct gpu_sampled_launch);
} gpu_sampled_launches SEC(".maps");

/* The work has its key and arguments: correlation id and weight. */
static __always_inline void record_sampled_launch(struct gpu_work *work, gpu_context *ctx,
						  __u64 now)
{
	struct gpu_key key = { work->key.process, (__u32)work->arguments.at[0],
			       GPU_HANDLE_SAMPLED_LAUNCH };
	struct gpu_sampled_launch *launch = &work->sampled_launch;

	// A placeholder for the GPU kernel, which the record names.
	work->device = (struct raw_frame){ .tag = FRAME_TAG_GPU };
	work->entry_pc = pc_of(ctx);
	set_registers(work, ctx, return_address_at_entry(ctx), true);
	capture_gpu_stack(work->number, now);
	__builtin_memset(launch, 0, sizeof(*launch));
	launch->owner.process = work->key.process;
	__builtin_memcpy(launch->owner.thread_name, work->key.thread_name,
			 sizeof(launch->owner.thread_name));
	launch->owner.user = work->key.user;
	launch->owner.leaf = work->key.user_leaf;
	launch->slot = work->key.slot;
	launch->weight = (__u32)work->arguments.at[1];
	if (bpf_map_update_elem(&gpu_sampled_launches, &key, launch, BPF_ANY))
		count(COUNTER_GPU_MAPS_FULL);
}
