/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Entry and return of NCCL calls: updates communicators (nccl.bpf.h) and counts time, bytes and skew.
#pragma once

#include "base/time_span.h"
#include "bpf/gpu/gpu_calls.bpf.h"
#include "bpf/gpu/nccl.bpf.h"

#define NCCL_SHRUNK 0x68736e6bULL // in the place of a split's color

/* A call that moves data: its communicator, bytes and skew. */
static __always_inline void begin_collective(struct gpu_work *work, gpu_context *ctx, __u64 cookie,
					     __u64 now, __u64 kept[4])
{
	__u32 collective = nccl_cookie_collective(cookie);
	__u64 count = argument_at(&work->arguments, gpu_cookie_size_at(cookie));
	__u64 type = argument_at(&work->arguments, nccl_cookie_type_at(cookie));
	struct nccl_communicator *communicator;

	work->call.handle = nccl_argument(ctx, &work->arguments, gpu_cookie_stream_at(cookie));
	work->call.bytes = nccl_bytes(count, type);
	communicator = nccl_find_communicator(&work->key.process, work->call.handle);
	if (!communicator)
		return;
	kept[NCCL_KEPT_IDENTITY] = communicator->identity;
	kept[NCCL_KEPT_RANKS] = communicator->rank | (__u64)communicator->ranks << 32;
	if (gpu_cookie_flags(cookie) & GPU_CALL_DUTY_CYCLED)
		nccl_call_missed();
	if (nccl_is_collective(collective))
		kept[NCCL_KEPT_POINTER] =
			nccl_skew(communicator, nccl_mix(collective | type << 8, count), now);
}

/* The new communicator's ranks stay unknown until a rank calls ncclCommUserRank() and ncclCommCount(). */
static __always_inline void begin_split(struct gpu_work *work, __u64 kept[4])
{
	const __u64 *arguments = work->arguments.at;
	struct nccl_communicator *communicator =
		nccl_find_communicator(&work->key.process, arguments[0]);

	kept[NCCL_KEPT_POINTER] = arguments[3];
	if (!communicator || !communicator->identity)
		return;
	kept[NCCL_KEPT_IDENTITY] = nccl_mix(
		nccl_mix(communicator->identity, __sync_fetch_and_add(&communicator->splits, 1)),
		(__u32)arguments[1]);
}

/* The remaining ranks form a new communicator and are numbered anew. */
static __always_inline void begin_shrink(struct gpu_work *work, __u64 kept[4])
{
	const __u64 *arguments = work->arguments.at;
	struct nccl_communicator *communicator =
		nccl_find_communicator(&work->key.process, arguments[0]);
	__u64 gone = (__u32)arguments[2];

	kept[NCCL_KEPT_POINTER] = arguments[3];
	if (!communicator)
		return;
	if (communicator->ranks > gone)
		kept[NCCL_KEPT_RANKS] |= (communicator->ranks - gone) << 32;
	if (communicator->identity)
		kept[NCCL_KEPT_IDENTITY] =
			nccl_mix(nccl_mix(communicator->identity,
					  __sync_fetch_and_add(&communicator->splits, 1)),
				 gone << 32 | NCCL_SHRUNK);
}

/* New ranks pass a rank and no communicator, existing ones keep theirs. Not all of them pass the id: no identity. */
static __always_inline void begin_grow(struct gpu_work *work, __u64 kept[4])
{
	const __u64 *arguments = work->arguments.at;
	struct nccl_communicator *communicator =
		nccl_find_communicator(&work->key.process, arguments[0]);
	__u32 rank = arguments[3];

	kept[NCCL_KEPT_POINTER] = arguments[4];
	if (communicator && rank == NCCL_RANK_UNKNOWN)
		rank = communicator->rank;
	kept[NCCL_KEPT_RANKS] = rank | arguments[1] << 32;
}

/* Removed at the entry: by the return, another communicator may have the same handle. */
static __always_inline void begin_end(struct gpu_work *work, __u64 kept[4])
{
	__u64 handle = work->arguments.at[0];
	struct nccl_communicator *communicator = nccl_find_communicator(&work->key.process, handle);

	if (!communicator)
		return;
	kept[NCCL_KEPT_IDENTITY] = communicator->identity;
	kept[NCCL_KEPT_RANKS] = communicator->rank | (__u64)communicator->ranks << 32;
	nccl_remove_communicator(&work->key.process, handle);
}

static __always_inline void begin_nccl_call(struct gpu_work *work, gpu_context *ctx, __u64 cookie,
					    __u64 now, __u64 kept[4])
{
	const __u64 *arguments = work->arguments.at;

	switch (gpu_cookie_call(cookie)) {
	case GPU_CALL_NCCL_COLLECTIVE:
		begin_collective(work, ctx, cookie, now, kept);
		break;
	case GPU_CALL_NCCL_INIT:
		nccl_read_init(work, ctx, kept);
		break;
	case GPU_CALL_NCCL_INIT_SCALABLE:
		kept[NCCL_KEPT_POINTER] = arguments[0];
		kept[NCCL_KEPT_IDENTITY] = nccl_identity(work, arguments[4]);
		kept[NCCL_KEPT_RANKS] = (__u32)arguments[2] | arguments[1] << 32;
		break;
	case GPU_CALL_NCCL_INIT_ALL:
		kept[NCCL_KEPT_POINTER] = arguments[0];
		kept[NCCL_KEPT_RANKS] = NCCL_RANK_UNKNOWN | arguments[1] << 32;
		break;
	case GPU_CALL_NCCL_SPLIT:
		begin_split(work, kept);
		break;
	case GPU_CALL_NCCL_SHRINK:
		begin_shrink(work, kept);
		break;
	case GPU_CALL_NCCL_GROW:
		begin_grow(work, kept);
		break;
	case GPU_CALL_NCCL_RANK:
	case GPU_CALL_NCCL_RANKS:
		kept[NCCL_KEPT_POINTER] = arguments[1];
		kept[NCCL_KEPT_IDENTITY] = arguments[0];
		break;
	case GPU_CALL_NCCL_END:
		begin_end(work, kept);
		break;
	}
}

/* ncclInProgress: a nonblocking communicator has its handle already. */
#define NCCL_IN_PROGRESS 7

static __always_inline void end_nccl_call(struct gpu_work *work, const struct open_call *call)
{
	const struct process_key *process = &work->key.process;
	__u64 pointer = call->arguments[NCCL_KEPT_POINTER], handle = 0;
	struct nccl_communicator *communicator;
	__u32 number = gpu_cookie_call(call->cookie), value = 0;

	switch (number) {
	case GPU_CALL_NCCL_INIT:
	case GPU_CALL_NCCL_INIT_SCALABLE:
	case GPU_CALL_NCCL_SPLIT:
	case GPU_CALL_NCCL_SHRINK:
	case GPU_CALL_NCCL_GROW:
		if (!bpf_probe_read_user(&handle, sizeof(handle), (const void *)pointer))
			nccl_keep_communicator(process, handle, call->arguments[NCCL_KEPT_IDENTITY],
					       call->arguments[NCCL_KEPT_RANKS]);
		break;
	case GPU_CALL_NCCL_INIT_ALL:
		nccl_keep_all(work, pointer, call->arguments[NCCL_KEPT_RANKS] >> 32);
		break;
	case GPU_CALL_NCCL_RANK:
	case GPU_CALL_NCCL_RANKS:
		handle = call->arguments[NCCL_KEPT_IDENTITY];
		communicator = nccl_find_communicator(process, handle);
		if (!communicator) { // made before the agent came
			nccl_keep_communicator(process, handle, 0, NCCL_RANK_UNKNOWN);
			communicator = nccl_find_communicator(process, handle);
		}
		if (!communicator ||
		    bpf_probe_read_user(&value, sizeof(value), (const void *)pointer))
			break;
		if (number == GPU_CALL_NCCL_RANK)
			communicator->rank = value;
		else
			communicator->ranks = value;
		break;
	}
}

/* Counts time, bytes and skew with one stack. */
static __always_inline void count_nccl_call(struct gpu_work *work, const struct open_call *call,
					    __u64 now, bool is_well)
{
	__u64 weight, skew = call->arguments[NCCL_KEPT_POINTER], last = work->key.slot;
	struct count_key *key = &work->key;

	if (!call->arguments[NCCL_KEPT_COLLECTIVE])
		return;
	weight = choose_call(GPU_PACE_OTHERS) * call->weight;
	if (!weight)
		return;
	work->may_hand_over = 0;
	capture_gpu_stack(work->number, now);
	key->kernel.high = call->arguments[NCCL_KEPT_IDENTITY];
	key->kernel.low = call->arguments[NCCL_KEPT_RANKS];
	key->kernel_leaf = call->arguments[NCCL_KEPT_COLLECTIVE];
	key->slot = (call->began_ns + shared.realtime_offset_ns) / slot_ns;
	key->more_slots = last > key->slot ? last - key->slot : 0;
	key->kind = SAMPLE_KIND_NCCL_ENQUEUE;
	add_count(key, ns_between(call->began_ns, now) * weight, weight);
	if (gpu_cookie_call(call->cookie) != GPU_CALL_NCCL_COLLECTIVE || !is_well)
		return;
	key->more_slots = 0;
	if (call->bytes) {
		key->kind = SAMPLE_KIND_NCCL_BYTES;
		add_count(key, call->bytes * weight, weight);
	}
	if (skew) {
		key->kind = SAMPLE_KIND_NCCL_SKEW;
		add_count(key, skew * weight, weight);
	}
}
