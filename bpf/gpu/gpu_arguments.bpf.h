/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Reads the arguments of a driver call at its entry into a struct gpu_call_record. Offsets in structures were measured
// with the headers of the CUDA driver API 12.x.
#pragma once

#include "bpf/gpu/gpu_call.h"
#include "bpf/kernel.h"

#define GPU_REGISTER_ARGUMENTS 6

static __always_inline struct process_key gpu_current_process(void)
{
	struct task_struct *leader = bpf_get_current_task_btf()->group_leader;

	return (struct process_key){
		.pid = bpf_get_current_pid_tgid() >> 32,
		.exec_id = leader->self_exec_id,
		.start_ns = leader->start_boottime,
	};
}

#if defined(__TARGET_ARCH_x86)
#define GPU_ARGUMENT_1(ctx) ((ctx)->rdi)
#define GPU_ARGUMENT_2(ctx) ((ctx)->rsi)
#define GPU_ARGUMENT_3(ctx) ((ctx)->rdx)
#define GPU_ARGUMENT_4(ctx) ((ctx)->rcx)
#define GPU_ARGUMENT_5(ctx) ((ctx)->r8)
#define GPU_ARGUMENT_6(ctx) ((ctx)->r9)
#define GPU_RESULT(ctx)     ((ctx)->rax)
#define GPU_STACK(ctx)      ((ctx)->rsp)
#else
#define GPU_ARGUMENT_1(ctx) ((ctx)->regs[0])
#define GPU_ARGUMENT_2(ctx) ((ctx)->regs[1])
#define GPU_ARGUMENT_3(ctx) ((ctx)->regs[2])
#define GPU_ARGUMENT_4(ctx) ((ctx)->regs[3])
#define GPU_ARGUMENT_5(ctx) ((ctx)->regs[4])
#define GPU_ARGUMENT_6(ctx) ((ctx)->regs[5])
#define GPU_RESULT(ctx)     ((ctx)->regs[0])
#define GPU_STACK(ctx)      ((ctx)->sp)
#endif

/* volatile: each field is read at a constant offset, as the verifier demands of a context. */
typedef const volatile bpf_user_pt_regs_t gpu_context;

struct gpu_arguments {
	__u64 at[8]; // in order; 6 and 7 of launches only
};

static __always_inline void read_arguments(gpu_context *ctx, struct gpu_arguments *to)
{
	to->at[0] = GPU_ARGUMENT_1(ctx);
	to->at[1] = GPU_ARGUMENT_2(ctx);
	to->at[2] = GPU_ARGUMENT_3(ctx);
	to->at[3] = GPU_ARGUMENT_4(ctx);
	to->at[4] = GPU_ARGUMENT_5(ctx);
	to->at[5] = GPU_ARGUMENT_6(ctx);
	to->at[6] = to->at[7] = 0;
}

/* Arguments that are passed on the stack, as words in order. */
static __always_inline void read_stack_arguments(gpu_context *ctx, __u64 *to, __u32 size)
{
#if defined(__TARGET_ARCH_x86)
	__u64 first = GPU_STACK(ctx) + sizeof(__u64); // above the return address
#else
	__u64 first = GPU_STACK(ctx);
#endif

	if (bpf_probe_read_user(to, size, (const void *)first))
		__builtin_memset(to, 0, size);
}

/* ---- launches --------------------------------------------------------------------------------- */

/* cuLaunchKernel(f, gx, gy, gz, bx, by, | bz, shared, stream, ...): six in registers on x86-64, eight on aarch64. */
static __always_inline void read_launch(gpu_context *ctx, struct gpu_call_record *record)
{
	__u64 more[3] = {};

	record->handle = GPU_ARGUMENT_1(ctx);
	record->grid[0] = GPU_ARGUMENT_2(ctx);
	record->grid[1] = GPU_ARGUMENT_3(ctx);
	record->grid[2] = GPU_ARGUMENT_4(ctx);
	record->block[0] = GPU_ARGUMENT_5(ctx);
	record->block[1] = GPU_ARGUMENT_6(ctx);
#if defined(__TARGET_ARCH_x86)
	read_stack_arguments(ctx, more, sizeof(more));
	record->block[2] = more[0];
	record->stream = more[2];
#else
	read_stack_arguments(ctx, more, sizeof(more[0]));
	record->block[2] = ctx->regs[6];
	record->stream = more[0];
#endif
}

/* The beginning of CUlaunchConfig. */
struct launch_config {
	__u32 grid[3], block[3];
	__u32 shared_bytes;
	__u32 pad;
	__u64 stream;
};

static __always_inline void read_launch_ex(gpu_context *ctx, struct gpu_call_record *record)
{
	struct launch_config config = {};

	record->handle = GPU_ARGUMENT_2(ctx);
	if (bpf_probe_read_user(&config, sizeof(config), (const void *)GPU_ARGUMENT_1(ctx)))
		return;
	__builtin_memcpy(record->grid, config.grid, sizeof(record->grid));
	__builtin_memcpy(record->block, config.block, sizeof(record->block));
	record->stream = config.stream;
}

/* ---- copies ----------------------------------------------------------------------------------- */

/* Source or destination in CUDA_MEMCPY2D and CUDA_MEMCPY3D, from its memory type on. */
struct copy_side {
	__u64 type; // enum copy_memory, in the lower half
	__u64 host;
	__u64 device;
};

enum copy_memory {
	COPY_MEMORY_HOST = 1,
	COPY_MEMORY_DEVICE,
	COPY_MEMORY_ARRAY,
	COPY_MEMORY_UNIFIED
};

static __always_inline __u64 address_of_side(const struct copy_side *side)
{
	return (__u32)side->type == COPY_MEMORY_HOST ? side->host : side->device;
}

struct copy_layout {
	__u32 from, to, width; // offsets; height and depth follow the width
	bool has_depth;
};

/* Sets the kind to that of a plain copy, where the memory types have the direction. */
static __always_inline void read_copy_structure(__u64 address, const struct copy_layout *layout,
						struct gpu_call_record *record)
{
	struct copy_side from = {}, to = {};
	__u64 size[3] = { 0, 0, 1 };

	bpf_probe_read_user(&from, sizeof(from), (const void *)(address + layout->from));
	bpf_probe_read_user(&to, sizeof(to), (const void *)(address + layout->to));
	bpf_probe_read_user(size, layout->has_depth ? sizeof(size) : 2 * sizeof(size[0]),
			    (const void *)(address + layout->width));
	record->bytes = size[0] * size[1] * size[2];
	record->from = address_of_side(&from);
	record->to = address_of_side(&to);
	if ((__u32)from.type == COPY_MEMORY_UNIFIED || (__u32)to.type == COPY_MEMORY_UNIFIED)
		record->call = GPU_CALL_COPY_ANY;
	else if ((__u32)from.type == COPY_MEMORY_HOST && (__u32)to.type != COPY_MEMORY_HOST)
		record->call = GPU_CALL_COPY_HTOD;
	else if ((__u32)from.type != COPY_MEMORY_HOST && (__u32)to.type == COPY_MEMORY_HOST)
		record->call = GPU_CALL_COPY_DTOH;
	else if ((__u32)from.type != COPY_MEMORY_HOST)
		record->call = GPU_CALL_COPY_DTOD;
}

#define COPY_BATCH_MAX 128 // copies of a batch whose sizes are read

/* The bytes of a batch; its first copy has the direction. */
static __always_inline void read_copy_batch(const struct gpu_arguments *arguments,
					    struct gpu_call_record *record)
{
	__u64 count = arguments->at[3], size = 0;

	record->call = GPU_CALL_COPY_ANY;
	bpf_probe_read_user(&record->to, sizeof(record->to), (const void *)arguments->at[0]);
	bpf_probe_read_user(&record->from, sizeof(record->from), (const void *)arguments->at[1]);
	record->bytes = 0;
	for (__u32 i = 0; i < COPY_BATCH_MAX && i < count; i++) {
		if (bpf_probe_read_user(&size, sizeof(size),
					(const void *)(arguments->at[2] + i * sizeof(size))))
			break;
		record->bytes += size;
	}
	if (count > COPY_BATCH_MAX) // the rest is assumed to be like these
		record->bytes = record->bytes / COPY_BATCH_MAX * count;
}

static __always_inline void read_copy(const struct gpu_arguments *arguments,
				      struct gpu_call_record *record)
{
	const struct copy_layout layout_2d = { .from = 16, .to = 72, .width = 112 };
	const struct copy_layout layout_3d = {
		.from = 32, .to = 120, .width = 176, .has_depth = true
	};

	record->to = arguments->at[0];
	record->from = arguments->at[1];
	if (record->call == GPU_CALL_COPY_PEER) {
		record->from = arguments->at[2];
	} else if (record->call == GPU_CALL_COPY_2D) {
		read_copy_structure(arguments->at[0], &layout_2d, record);
	} else if (record->call == GPU_CALL_COPY_3D) {
		read_copy_structure(arguments->at[0], &layout_3d, record);
	} else if (record->call == GPU_CALL_COPY_BATCH) {
		read_copy_batch(arguments, record);
	} else if (record->call == GPU_CALL_MEMSET) {
		record->from = 0;
	}
}

static __always_inline bool is_copy(__u32 call)
{
	return call >= GPU_CALL_COPY_HTOD && call <= GPU_CALL_MEMSET;
}

/* ---- all calls -------------------------------------------------------------------------------- */

/* Unrolled: the verifier refuses a variable index here. */
static __always_inline __u64 argument_at(const struct gpu_arguments *arguments, __u32 at)
{
	__u64 value = 0;

#pragma unroll
	for (__u32 i = 0; i < GPU_REGISTER_ARGUMENTS; i++)
		value = at == i ? arguments->at[i] : value;
	return value;
}

static __always_inline void read_call(gpu_context *ctx, __u64 cookie,
				      const struct gpu_arguments *arguments,
				      struct gpu_call_record *record)
{
	__builtin_memset(record, 0, sizeof(*record));
	record->call = gpu_cookie_call(cookie);
	record->flags = gpu_cookie_flags(cookie);
	record->bytes = argument_at(arguments, gpu_cookie_size_at(cookie))
			<< gpu_cookie_size_shift(cookie);
	record->stream = argument_at(arguments, gpu_cookie_stream_at(cookie));
	if (is_copy(record->call)) {
		read_copy(arguments, record);
	} else if (record->call == GPU_CALL_LAUNCH) {
		read_launch(ctx, record);
	} else if (record->call == GPU_CALL_LAUNCH_EX) {
		read_launch_ex(ctx, record);
	} else if (record->call == GPU_CALL_ALLOC_PITCH) {
		record->bytes *= arguments->at[3]; // rows; the driver may make each of them wider
	} else if (record->call == GPU_CALL_FREE || record->call == GPU_CALL_HOST_FREE ||
		   record->call == GPU_CALL_HOST_REGISTER ||
		   record->call == GPU_CALL_HOST_UNREGISTER || record->call == GPU_CALL_MEM_MAP ||
		   record->call == GPU_CALL_MEM_UNMAP) {
		record->to = arguments->at[0];
	} else {
		record->handle = arguments->at[0];
	}
}
