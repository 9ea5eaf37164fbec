/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// NCCL communicators, and the skew of collective calls: how much later than the first rank of this node a rank makes the same
// call. A communicator's identity is a hash of its unique id, which is the same for all its ranks on all hosts. Prototypes:
// nccl.h 2.30.
#pragma once

#include "base/time_span.h"
#include "bpf/gpu/gpu_stack.bpf.h"

#define NCCL_COMMUNICATORS_MAX 4096 // of all processes; a rank of a large job has tens
/* Calls that some rank has yet to make: ranks may be hundreds of calls ahead, in each busy communicator. */
#define NCCL_ARRIVALS_MAX 8192
#define NCCL_SKEW_NS_MAX  60000000000ULL // a larger one means that ranks make different calls

struct nccl_communicator {
	__u64 identity;
	__u32 rank;
	__u32 ranks;
	__u64 calls;   // collective calls so far: all ranks make them in the same order
	__u64 splits;  // likewise
	__u64 epoch;   // nccl_epoch when it was made
	__u64 last_ns; // of the last collective call
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, NCCL_COMMUNICATORS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct gpu_key);
	__type(value, struct nccl_communicator);
} nccl_communicators SEC(".maps");

struct nccl_arrival_key {
	__u64 identity;
	__u64 call; // its number
};

struct nccl_arrival {
	__u64 first_ns;
	__u64 what; // hash of collective, type and count: equal in all ranks
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, NCCL_ARRIVALS_MAX);
	__type(key, struct nccl_arrival_key);
	__type(value, struct nccl_arrival);
} nccl_arrivals SEC(".maps");

/* Incremented when a call is missed: call numbers of older communicators are wrong from then on. */
__u64 nccl_epoch = 0;

static __always_inline void nccl_call_missed(void)
{
	__sync_fetch_and_add(&nccl_epoch, 1);
}

/* What open_call.arguments has of an NCCL call. */
enum nccl_kept {
	NCCL_KEPT_POINTER, // where the result will be; of a collective: its skew
	NCCL_KEPT_COLLECTIVE,
	NCCL_KEPT_IDENTITY, // of ncclCommUserRank and ncclCommCount: the handle
	NCCL_KEPT_RANKS,    // rank, and the number of ranks in the upper half
};

/* ---- arguments -------------------------------------------------------------------------------- */

/* The seventh argument: the first on the stack of x86-64, a register on aarch64. */
static __always_inline __u64 nccl_stack_argument(gpu_context *ctx)
{
#if defined(__TARGET_ARCH_x86)
	__u64 word = 0;

	read_stack_arguments(ctx, &word, sizeof(word));
	return word;
#else
	return ctx->regs[6];
#endif
}

static __always_inline __u64 nccl_argument(gpu_context *ctx, const struct gpu_arguments *arguments,
					   __u32 at)
{
	return at == GPU_ARGUMENT_STACK ? nccl_stack_argument(ctx) : argument_at(arguments, at);
}

/* Bytes of @count items of an ncclDataType_t; 0 for types newer than this table. */
static __always_inline __u64 nccl_bytes(__u64 count, __u32 type)
{
	// Powers of two of int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, e4m3, e5m2.
	const __u64 shifts = 0x001321332200ULL;

	return type < 12 ? count << (shifts >> (type * 4) & 15) : 0;
}

#define NCCL_ID_WORDS 16 // ncclUniqueId: 128 bytes

/* The identity for the unique id at @address in the process; 0: unreadable. */
static __always_inline __u64 nccl_identity(struct gpu_work *work, __u64 address)
{
	__u64 *words = (__u64 *)work->name.text, hash = 0xcbf29ce484222325ULL;

	if (bpf_probe_read_user(words, NCCL_ID_WORDS * sizeof(*words), (const void *)address))
		return 0;
#pragma unroll
	for (__u32 i = 0; i < NCCL_ID_WORDS; i++) {
		hash = (hash ^ words[i]) * 0x100000001b3ULL;
		hash ^= hash >> 29;
	}
	return hash | 1; // never 0
}

static __always_inline __u64 nccl_mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0xff51afd7ed558ccdULL;
	return (hash ^ hash >> 32) | 1;
}

/* ncclCommInitRank() takes the id by value: on the stack of x86-64, by reference on aarch64. */
static __always_inline void nccl_read_init(struct gpu_work *work, gpu_context *ctx, __u64 kept[4])
{
	const struct gpu_arguments *arguments = &work->arguments;
#if defined(__TARGET_ARCH_x86)
	__u64 id = GPU_STACK(ctx) + sizeof(__u64), rank = arguments->at[2];
#else
	__u64 id = arguments->at[2], rank = arguments->at[3];
#endif

	kept[NCCL_KEPT_POINTER] = arguments->at[0];
	kept[NCCL_KEPT_IDENTITY] = nccl_identity(work, id);
	kept[NCCL_KEPT_RANKS] = (__u32)rank | arguments->at[1] << 32;
}

/* ---- communicators ---------------------------------------------------------------------------- */

static __always_inline struct nccl_communicator *nccl_find_communicator(
	const struct process_key *process, __u64 handle)
{
	struct gpu_key key = { *process, handle, GPU_HANDLE_COMMUNICATOR };

	return bpf_map_lookup_elem(&nccl_communicators, &key);
}

static __always_inline void nccl_keep_communicator(const struct process_key *process, __u64 handle,
						   __u64 identity, __u64 ranks)
{
	struct gpu_key key = { *process, handle, GPU_HANDLE_COMMUNICATOR };
	struct nccl_communicator made = {
		.identity = identity,
		.rank = ranks,
		.ranks = ranks >> 32,
		.epoch = nccl_epoch,
	};

	if (handle && bpf_map_update_elem(&nccl_communicators, &key, &made, BPF_ANY))
		count(COUNTER_GPU_MAPS_FULL);
}

static __always_inline void nccl_remove_communicator(const struct process_key *process,
						     __u64 handle)
{
	struct gpu_key key = { *process, handle, GPU_HANDLE_COMMUNICATOR };

	bpf_map_delete_elem(&nccl_communicators, &key);
}

/* ncclCommInitAll(): one process has all ranks. */
#define NCCL_RANKS_OF_PROCESS 16

static __always_inline void nccl_keep_all(struct gpu_work *work, __u64 pointer, __u32 ranks)
{
	const struct process_key *process = &work->key.process;
	__u64 handle = 0, identity = nccl_mix(process->start_ns, process->pid);

	for (__u32 i = 0; i < NCCL_RANKS_OF_PROCESS && i < ranks; i++) {
		if (bpf_probe_read_user(&handle, sizeof(handle), (const void *)(pointer + i * 8)))
			return;
		if (!i)
			identity = nccl_mix(identity, handle);
		nccl_keep_communicator(process, handle, identity, i | (__u64)ranks << 32);
	}
}

/*
 * For how long the first rank of this node to make this call has waited for this rank. Time that an earlier call of this rank
 * has counted is left out: the sum is elapsed time, however many calls are late together.
 */
static __always_inline __u64 nccl_skew(struct nccl_communicator *communicator, __u64 what,
				       __u64 now)
{
	struct nccl_arrival_key key = { .identity = communicator->identity };
	struct nccl_arrival *first, arrival = { .first_ns = now, .what = what };
	__u64 since_ns = communicator->last_ns;

	communicator->last_ns = now;
	key.call = __sync_fetch_and_add(&communicator->calls, 1);
	if (!key.identity || communicator->epoch != nccl_epoch || communicator->ranks < 2)
		return 0;
	if (!bpf_map_update_elem(&nccl_arrivals, &key, &arrival, BPF_NOEXIST))
		return 0;
	first = bpf_map_lookup_elem(&nccl_arrivals, &key);
	if (!first)
		return 0;
	if (first->what != what || ns_between(first->first_ns, now) > NCCL_SKEW_NS_MAX) {
		count(COUNTER_NCCL_MISMATCHED);
		return 0;
	}
	if (since_ns < first->first_ns)
		since_ns = first->first_ns;
	return ns_between(since_ns, now);
}

static __always_inline bool nccl_is_collective(__u32 collective)
{
	return collective < NCCL_SEND;
}
