/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Kinds of probed GPU calls, the cookie of their probes, and the map entries that the BPF programs share with the
// agent. One program serves many symbols: the 64-bit cookie has the kind of the call and where its arguments are.
#pragma once

#include "bpf/sample.h"

enum gpu_call {
	GPU_CALL_NONE,
	// Launches: duty-cycled, without return probes.
	GPU_CALL_LAUNCH,    // cuLaunchKernel, cuLaunchCooperativeKernel: function, grid, block
	GPU_CALL_LAUNCH_EX, // cuLaunchKernelEx: configuration, function
	GPU_CALL_LAUNCH_HOST_FUNC, // cuLaunchHostFunc
	GPU_CALL_GRAPH_LAUNCH,     // cuGraphLaunch: executable graph, stream
	// Copies. Where the call's name has no direction, the addresses have.
	GPU_CALL_COPY_HTOD, // destination, source, bytes
	GPU_CALL_COPY_DTOH,
	GPU_CALL_COPY_DTOD,
	GPU_CALL_COPY_ANY,   // cuMemcpy, cuMemcpyAsync
	GPU_CALL_COPY_PEER,  // destination, its context, source, its context, bytes
	GPU_CALL_COPY_2D,    // CUDA_MEMCPY2D
	GPU_CALL_COPY_3D,    // CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER: alike as far as they are read
	GPU_CALL_COPY_BATCH, // destinations, sources, sizes, count
	GPU_CALL_MEMSET,     // address, value, elements
	// Waits: entry and exit.
	GPU_CALL_SYNC_STREAM,
	GPU_CALL_SYNC_EVENT,
	GPU_CALL_SYNC_CONTEXT,
	// Events: what a wait for one waits for is known from where it was recorded.
	GPU_CALL_EVENT_RECORD,  // event, stream
	GPU_CALL_EVENT_WAIT,    // stream, event: the stream waits, no thread does
	GPU_CALL_EVENT_DESTROY, // event
	// Memory. Addresses and handles are known at the return.
	GPU_CALL_INIT,        // cuInit: from here on all of a process's calls are seen
	GPU_CALL_ALLOC,       // where to put the address, bytes
	GPU_CALL_ALLOC_PITCH, // where to put the address, where to put the pitch, bytes of a row, rows
	GPU_CALL_FREE,        // address
	GPU_CALL_HOST_ALLOC, // where to put the address, bytes
	GPU_CALL_HOST_FREE,
	GPU_CALL_HOST_REGISTER, // address, bytes
	GPU_CALL_HOST_UNREGISTER,
	GPU_CALL_MEM_CREATE,  // where to put the handle, bytes
	GPU_CALL_MEM_RELEASE, // handle
	GPU_CALL_MEM_MAP,     // address, bytes, offset, handle
	GPU_CALL_MEM_UNMAP,   // address, bytes
	// Modules and GPU kernels.
	GPU_CALL_GET_FUNCTION,        // where to put the handle, module or library, name
	GPU_CALL_KERNEL_GET_FUNCTION, // where to put the handle, kernel
	GPU_CALL_MODULE_LOAD,         // all that load code: counted by time
	GPU_CALL_MODULE_UNLOAD,       // module or library
	// CUDA graphs.
	GPU_CALL_CAPTURE_BEGIN,      // stream
	GPU_CALL_CAPTURE_TO_GRAPH,   // stream, graph
	GPU_CALL_CAPTURE_END,        // stream, where to put the graph
	GPU_CALL_STREAM_DESTROY,     // stream
	GPU_CALL_GRAPH_CREATE,       // where to put the graph
	GPU_CALL_GRAPH_CLONE,        // where to put the graph, the other one
	GPU_CALL_GRAPH_ADD_CHILD,    // where to put the node, graph; in the size's place: the child
	GPU_CALL_GRAPH_ADD_KERNEL,   // likewise: CUDA_KERNEL_NODE_PARAMS
	GPU_CALL_GRAPH_ADD_NODE,     // likewise: CUgraphNodeParams
	GPU_CALL_GRAPH_INSTANTIATE,  // where to put the executable graph, graph
	GPU_CALL_GRAPH_EXEC_UPDATE,  // executable graph, graph
	GPU_CALL_GRAPH_DESTROY,      // graph
	GPU_CALL_GRAPH_EXEC_DESTROY, // executable graph
	GPU_CALL_CAPTURED, // no function's kind: counts hits of probes of captured launches
	// NCCL.
	GPU_CALL_NCCL_COLLECTIVE,    // all that move data: count, type, communicator
	GPU_CALL_NCCL_GROUP,         // ncclGroupEnd: enqueues the calls of the group
	GPU_CALL_NCCL_INIT,          // where to put the communicator, ranks, [id], rank
	GPU_CALL_NCCL_INIT_SCALABLE, // where to put the communicator, ranks, rank, number of ids, ids
	GPU_CALL_NCCL_INIT_ALL,      // where to put the communicators, ranks
	GPU_CALL_NCCL_SPLIT,         // communicator, color, key, where to put the new one
	GPU_CALL_NCCL_SHRINK, // communicator, ranks to remove, how many, where to put the new one
	GPU_CALL_NCCL_GROW,   // communicator, ranks, id, rank, where to put the new one
	GPU_CALL_NCCL_RANK,   // communicator, where to put the rank
	GPU_CALL_NCCL_RANKS,  // communicator, where to put the number of ranks
	GPU_CALL_NCCL_END,    // communicator
	// The CUPTI helper.
	GPU_CALL_SAMPLED_LAUNCH, // correlation, weight, name
	// For GPU idle time only.
	GPU_CALL_ENQUEUE,      // enqueues work, and is counted nowhere else
	GPU_CALL_CONTEXT,      // context, of the thread from now on
	GPU_CALL_CONTEXT_MADE, // where to put the context, of the thread from now on
	GPU_CALL_COUNT
};

/* Calls that change memory in use: a missed one makes a process's sums wrong. */
#define GPU_CALL_MEMORY_FIRST GPU_CALL_INIT
#define GPU_CALL_MEMORY_LAST  GPU_CALL_MEM_UNMAP

/* What an NCCL call does: label "collective". */
enum nccl_collective {
	NCCL_OTHER,
	NCCL_ALL_REDUCE,
	NCCL_BROADCAST,
	NCCL_REDUCE,
	NCCL_ALL_GATHER,
	NCCL_REDUCE_SCATTER,
	NCCL_ALL_TO_ALL,
	NCCL_GATHER,
	NCCL_SCATTER,
	NCCL_SEND,
	NCCL_RECEIVE,
	NCCL_GROUP,
	NCCL_INIT,
	NCCL_DESTROY,
	NCCL_COLLECTIVE_COUNT
};

#define NCCL_RANK_UNKNOWN 0xffffffffU

/* Bits of a cookie's flags. */
enum gpu_call_flag {
	GPU_CALL_ASYNC = 1 << 0,        // returns before the work is done
	GPU_CALL_PER_THREAD = 1 << 1,   // its default stream is the thread's own (_ptsz, _ptds)
	GPU_CALL_SIZE_SHIFT_1 = 1 << 2, // the size is in units of 1 << (bits 2 and 3) bytes
	GPU_CALL_SIZE_SHIFT_2 = 1 << 3,
	GPU_CALL_DUTY_CYCLED = 1 << 4, // the probe counts in an on phase only
	// Which of two generations of always attached probes this one is of; not used for memory calls.
	GPU_CALL_GENERATION = 1 << 5,
	GPU_CALL_CAPTURES = 1 << 6, // the probe counts captured launches only
};

/*
 * The on phase of the probe duty cycle, by bpf_ktime_get_ns(): from begin_ns until before end_ns. Each call in it has this
 * weight.
 */
struct gpu_on_phase {
	__u64 begin_ns;
	__u64 end_ns;
	__u32 weight;
	__u32 sees_all; // all calls that enqueue work have probes
};

/* Position of an argument: 0 to 5 are registers. */
#define GPU_ARGUMENT_NONE 15

/* A cookie: kind of call in bits 0 to 15, flags in 16 to 31, positions of size and stream in 4 bits each. */
#define GPU_COOKIE(call, flags, size_at, stream_at) \
	((__u64)(call) | (__u64)(flags) << 16 | (__u64)(size_at) << 32 | (__u64)(stream_at) << 36)

/* The first argument on the stack, on x86-64. */
#define GPU_ARGUMENT_STACK 6

/* Of an NCCL call: count and communicator in the places above, the type's position from bit 40, enum nccl_collective from 44. */
#define NCCL_COOKIE(call, collective, count_at, type_at, communicator_at)          \
	(GPU_COOKIE(call, 0, count_at, communicator_at) | (__u64)(type_at) << 40 | \
	 (__u64)(collective) << 44)

static inline __u32 nccl_cookie_type_at(__u64 cookie)
{
	return cookie >> 40 & 15;
}

static inline __u32 nccl_cookie_collective(__u64 cookie)
{
	return cookie >> 44 & 15;
}

static inline __u32 gpu_cookie_call(__u64 cookie)
{
	return cookie & 0xffff;
}

static inline __u32 gpu_cookie_flags(__u64 cookie)
{
	return cookie >> 16 & 0xffff;
}

static inline __u32 gpu_cookie_size_at(__u64 cookie)
{
	return cookie >> 32 & 15;
}

static inline __u32 gpu_cookie_stream_at(__u64 cookie)
{
	return cookie >> 36 & 15;
}

/* Bytes of a unit as a power of two: cuMemsetD32 counts units of 4 bytes. */
static inline __u32 gpu_cookie_size_shift(__u64 cookie)
{
	return cookie >> 18 & 3;
}

/* ---- map entries ------------------------------------------------------------------------------- */

/* Key: a handle or an address of a process. */
struct gpu_key {
	struct process_key process;
	__u64 handle;
	__u64 kind; // enum gpu_handle
};

enum gpu_handle {
	GPU_HANDLE_FUNCTION = 1, // CUfunction or CUkernel
	GPU_HANDLE_MEMORY = 2,   // the address of an allocation
	GPU_HANDLE_PHYSICAL = 3, // CUmemGenericAllocationHandle
	GPU_HANDLE_MAPPING = 4,  // the address where physical memory is mapped
	GPU_HANDLE_GRAPH = 5,
	GPU_HANDLE_GRAPH_EXEC = 6,
	GPU_HANDLE_COMMUNICATOR = 7,
	GPU_HANDLE_SAMPLED_LAUNCH =
		8, // the correlation id of a launch that the CUPTI helper sampled
	GPU_HANDLE_MODULE = 9,
	GPU_HANDLE_CAPTURE = 10, // a stream that is captured into a CUDA graph
	GPU_HANDLE_EVENT = 11,
};

/* The stack that allocated memory or captured a graph. Hashed: no padding. */
struct gpu_owner {
	struct process_key process;
	char thread_name[THREAD_NAME_BYTES];
	struct stack_hash user; // zero: the stack was sampled out
	struct raw_frame leaf;
};

_Static_assert(sizeof(struct gpu_owner) == 64, "no padding: it is a map's key");

/*
 * A CUDA graph or an executable one. Its number identifies what it launches. Once something was made of a graph (a clone,
 * an executable graph, a child node), its number is immutable: a node added later gives the graph a new one.
 */
struct gpu_graph {
	struct gpu_owner owner; // that captured it; zero: not captured
	__u64 number;           // 0: its GPU kernels are unknown
	__u64 flags;            // enum gpu_graph_flag
};

enum gpu_graph_flag {
	GPU_GRAPH_SEALED = 1 << 0, // its number is immutable: something was made of it
	// Its first nodes were not seen: a capture into it still runs, or it is older than the agent.
	GPU_GRAPH_INCOMPLETE = 1 << 1,
};

/* Key: a stack that launched GPU kernels into a graph. Hashed: no padding. */
struct gpu_graph_kernel {
	__u64 graph; // its number
	struct gpu_owner owner;
};

/* Key: a part of a graph, by numbers. A part's number is the lower one. */
struct gpu_graph_part_key {
	__u64 graph;
	__u64 part;
};

_Static_assert(sizeof(struct gpu_graph_kernel) == 72, "no padding: it is a map's key");

/* In place of a graph's launches: some of its GPU kernels were missed. */
#define GPU_GRAPH_LAUNCHES_UNKNOWN (~0ULL)

/* A GPU kernel. */
struct gpu_function {
	__u64 name;    // hash
	__u64 module;  // handle of its module or library
	__u64 unloads; // of that handle, when the function was looked up
};

/* A launch that the CUPTI helper sampled. */
struct gpu_sampled_launch {
	struct gpu_owner owner;
	__u64 slot;
	__u64 weight; // in launches
};

struct gpu_allocation {
	__u64 bytes;
	__u64 mappings; // of physical memory
	__u64 released; // physical memory: freed with its last mapping
	struct gpu_owner owner;
};

/* Memory in use, by owner. */
struct gpu_live {
	__u64 bytes;
	__u64 allocations;
};

/* The mangled name of a GPU kernel, by its hash, for all processes. */
#define GPU_NAME_BYTES 512

struct gpu_name {
	char text[GPU_NAME_BYTES];
};

/* The arguments of a call as a probe read them. Tests compare the last one with what they passed. */
struct gpu_call_record {
	__u32 call;     // enum gpu_call
	__u32 flags;    // enum gpu_call_flag
	__u64 handle;   // the function that is launched, the event or executable graph
	__u64 stream;   // 0 also where the call has none
	__u64 bytes;    // copied, set or allocated
	__u64 to, from; // of a copy; other calls on memory have their address in `to`
	__u32 grid[3];  // blocks
	__u32 block[3]; // threads
};
