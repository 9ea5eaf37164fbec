/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Launches that the CUPTI helper tells of (helper/cupti_helper.c), by the number that the records of their
// kernels will have: the agent joins the two when the helper's window is over.
#pragma once

#include "bpf/gpu/gpu_stack.bpf.h"

#define GPU_TOLD_LAUNCHES_MAX \
	32768 // two windows' of the helper's limit; the agent empties it after each

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GPU_TOLD_LAUNCHES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct gpu_key);
	__type(value, struct gpu_told_launch);
} gpu_told_launches SEC(".maps");

/* The work's key and arguments are there: number and weight. */
static __always_inline void keep_told_launch(struct gpu_work *work, gpu_context *ctx, __u64 now)
{
	struct gpu_key key = { work->key.process, (__u32)work->arguments.at[0], GPU_HANDLE_TOLD };
	struct gpu_told_launch *told = &work->told;

	// In the place of a kernel, which the record names.
	work->device = (struct raw_frame){ .tag = FRAME_TAG_GPU };
	work->entry_pc = pc_of(ctx);
	take_registers(work, ctx, return_address_at_entry(ctx), true);
	take_gpu_stack(work->number, now);
	__builtin_memset(told, 0, sizeof(*told));
	told->owner.process = work->key.process;
	__builtin_memcpy(told->owner.thread_name, work->key.thread_name,
			 sizeof(told->owner.thread_name));
	told->owner.user = work->key.user;
	told->owner.leaf = work->key.user_leaf;
	told->slot = work->key.slot;
	told->weight = (__u32)work->arguments.at[1];
	if (bpf_map_update_elem(&gpu_told_launches, &key, told, BPF_ANY))
		count(COUNTER_GPU_MAPS_FULL);
}
