/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// The calls of a GPU's driver that are probed, and what a probe is told of its call: the 64 bits of a
// probe's cookie. One program serves many symbols; the cookie says which call each of them is and in
// which registers its arguments lie.
#pragma once

#include "bpf/sample.h"

enum gpu_call {
	GPU_CALL_NONE,
	// Launches: no exit probes, windows only.
	GPU_CALL_LAUNCH,    // cuLaunchKernel, cuLaunchCooperativeKernel: function, grid, block
	GPU_CALL_LAUNCH_EX, // cuLaunchKernelEx: configuration, function
	GPU_CALL_LAUNCH_HOST_FUNC, // cuLaunchHostFunc
	GPU_CALL_GRAPH_LAUNCH,     // cuGraphLaunch: executable graph, stream
	// Copies. What is not told by the call's name is told by the addresses.
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
	// What a wait is for is told by events.
	GPU_CALL_EVENT_RECORD,  // event, stream
	GPU_CALL_EVENT_WAIT,    // stream, event: no thread waits
	GPU_CALL_EVENT_DESTROY, // event
	// Memory. What is made is known at the exit.
	GPU_CALL_INIT,        // cuInit: from here on all of a process's memory is known
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
	// Code.
	GPU_CALL_GET_FUNCTION,        // where to put the handle, module or library, name
	GPU_CALL_KERNEL_GET_FUNCTION, // where to put the handle, kernel
	GPU_CALL_MODULE_LOAD,         // all that load code, for the time it takes
	GPU_CALL_MODULE_UNLOAD,       // module or library
	// Graphs.
	GPU_CALL_CAPTURE_BEGIN,      // stream
	GPU_CALL_CAPTURE_TO_GRAPH,   // stream, graph
	GPU_CALL_CAPTURE_END,        // stream, where to put the graph
	GPU_CALL_STREAM_DESTROY,     // stream
	GPU_CALL_GRAPH_CREATE,       // where to put the graph
	GPU_CALL_GRAPH_CLONE,        // where to put the graph, the other one
	GPU_CALL_GRAPH_ADD_CHILD,    // where to put the node, graph; as its size: the child
	GPU_CALL_GRAPH_ADD_KERNEL,   // likewise: CUDA_KERNEL_NODE_PARAMS
	GPU_CALL_GRAPH_ADD_NODE,     // likewise: CUgraphNodeParams
	GPU_CALL_GRAPH_INSTANTIATE,  // where to put the executable graph, graph
	GPU_CALL_GRAPH_EXEC_UPDATE,  // executable graph, graph
	GPU_CALL_GRAPH_DESTROY,      // graph
	GPU_CALL_GRAPH_EXEC_DESTROY, // executable graph
	GPU_CALL_CAPTURED,           // launches that are captured: no function is of this kind
	// NCCL.
	GPU_CALL_NCCL_COLLECTIVE,    // all that move data: count, type, communicator
	GPU_CALL_NCCL_GROUP,         // ncclGroupEnd: what was called in the group is done now
	GPU_CALL_NCCL_INIT,          // where to put the communicator, ranks, [id], rank
	GPU_CALL_NCCL_INIT_SCALABLE, // where to put the communicator, ranks, rank, number of ids, ids
	GPU_CALL_NCCL_INIT_ALL,      // where to put the communicators, ranks
	GPU_CALL_NCCL_SPLIT,         // communicator, color, key, where to put the new one
	GPU_CALL_NCCL_SHRINK, // communicator, ranks that go, how many, where to put the new one
	GPU_CALL_NCCL_GROW,   // communicator, ranks, id, rank, where to put the new one
	GPU_CALL_NCCL_RANK,   // communicator, where to put the rank
	GPU_CALL_NCCL_RANKS,  // communicator, where to put the number of ranks
	GPU_CALL_NCCL_END,    // communicator
	// The CUPTI helper's.
	GPU_CALL_TOLD_LAUNCH, // number, weight, name
	// For when the GPU is idle.
	GPU_CALL_ENQUEUE,      // what puts something on a stream, and is counted nowhere else
	GPU_CALL_CONTEXT,      // context, of the thread from now on
	GPU_CALL_CONTEXT_MADE, // where to put the context, of the thread from now on
	GPU_CALL_COUNT
};

/* Calls that are not seen singly but kept account of: each matters. */
#define GPU_CALL_STEADY_FIRST GPU_CALL_INIT
#define GPU_CALL_STEADY_LAST  GPU_CALL_MEM_UNMAP

/* What an NCCL call does: the label "collective". */
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

/* enum gpu_call_flag: bits of a cookie's flags. */
enum gpu_call_flag {
	GPU_CALL_ASYNC = 1 << 0,        // returns before the work is done
	GPU_CALL_PER_THREAD = 1 << 1,   // its default stream is the thread's own (_ptsz, _ptds)
	GPU_CALL_SIZE_SHIFT_1 = 1 << 2, // the size is in units of 1 << (bits 2 and 3) bytes
	GPU_CALL_SIZE_SHIFT_2 = 1 << 3,
	GPU_CALL_WINDOWED = 1 << 4, // only what comes in a window counts: struct gpu_window
	// Of probes that are always there, but for GPU_CALL_STEADY_FIRST to _LAST: which of two this one is.
	GPU_CALL_GENERATION = 1 << 5,
	GPU_CALL_CAPTURES = 1 << 6, // of launches: only what is captured into a graph counts
};

/*
 * When probes with GPU_CALL_WINDOWED count, by bpf_ktime_get_ns(): from begin_ns on, until before end_ns.
 * A call then stands for @weight calls.
 */
struct gpu_window {
	__u64 begin_ns;
	__u64 end_ns;
	__u32 weight;
	__u32 sees_all; // that is put on streams: no kind of call is left out for good
};

/* Where an argument lies. */
#define GPU_ARGUMENT_NONE 15 // there is none; 0 to 5: in this register of those that pass arguments

/* A cookie: call in bits 0 to 15, flags in 16 to 31, places of the size and the stream in 4 each. */
#define GPU_COOKIE(call, flags, size_at, stream_at) \
	((__u64)(call) | (__u64)(flags) << 16 | (__u64)(size_at) << 32 | (__u64)(stream_at) << 36)

/* The first argument that is passed on the stack of x86-64. */
#define GPU_ARGUMENT_STACK 6

/* Of an NCCL call: places of count and communicator above; that of the type in bits 40 to 43, what it does from 44. */
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

/* A unit's bytes as a power of two: cuMemsetD32's count is of 4 bytes. */
static inline __u32 gpu_cookie_size_shift(__u64 cookie)
{
	return cookie >> 18 & 3;
}

/* ---- what the programs keep of a process's GPU ------------------------------------------------- */

/* A handle, or an address, of a process: what the maps below are kept by. */
struct gpu_key {
	struct process_key process;
	__u64 handle;
	__u64 kind; // enum gpu_handle
};

enum gpu_handle {
	GPU_HANDLE_FUNCTION = 1, // CUfunction or CUkernel
	GPU_HANDLE_MEMORY = 2,   // the address of an allocation
	GPU_HANDLE_PHYSICAL = 3, // CUmemGenericAllocationHandle
	GPU_HANDLE_MAPPING = 4,  // the address that such memory is mapped at
	GPU_HANDLE_GRAPH = 5,
	GPU_HANDLE_GRAPH_EXEC = 6,
	GPU_HANDLE_COMMUNICATOR = 7,
	GPU_HANDLE_TOLD = 8, // the number of a launch that the CUPTI helper has told of
	GPU_HANDLE_MODULE = 9,
	GPU_HANDLE_CAPTURE = 10, // a stream: what is put on it becomes a graph
	GPU_HANDLE_EVENT = 11,
};

/* A stack that outlives its moment: who allocated, who captured. Hashed: no padding. */
struct gpu_owner {
	struct process_key process;
	char thread_name[THREAD_NAME_BYTES];
	struct stack_hash user; // zero: there were too many to take all stacks
	struct raw_frame leaf;
};

_Static_assert(sizeof(struct gpu_owner) == 64, "no padding: it is a map's key");

/*
 * A graph, or an executable one: who captured it, and what. A number stands for what a graph launches: that does not
 * change once something was made of it, so a graph that is added to has another number then.
 */
struct gpu_graph {
	struct gpu_owner owner; // zero: nobody has captured it
	__u64 number;           // 0: its launches are not known
	__u64 flags;            // enum gpu_graph_flag
};

enum gpu_graph_flag {
	GPU_GRAPH_SEALED = 1 << 0, // something was made of it
	// What it had before the first that was seen is not known: it is captured just now, or older than us.
	GPU_GRAPH_PARTIAL = 1 << 1,
};

/* Launches of a kernel by a stack, in a graph. Hashed: no padding. */
struct gpu_graph_kernel {
	__u64 graph; // its number
	struct gpu_owner owner;
};

/* A graph that is within another one, whose number is higher. */
struct gpu_graph_part {
	__u64 graph;
	__u64 part;
};

_Static_assert(sizeof(struct gpu_graph_kernel) == 72, "no padding: it is a map's key");

/* In the place of how often a graph was launched: not all that was captured was seen. */
#define GPU_GRAPH_NOT_KNOWN (~0ULL)

/* A function of the device. */
struct gpu_function {
	__u64 name;    // its hash
	__u64 module;  // or library, that it is of
	__u64 unloads; // of that handle before
};

/* A launch that the CUPTI helper has told of. */
struct gpu_told_launch {
	struct gpu_owner owner;
	__u64 slot;
	__u64 weight; // launches that it stands for
};

struct gpu_allocation {
	__u64 bytes;
	__u64 mappings; // of physical memory: where it is mapped
	__u64 released; // it goes with its last mapping
	struct gpu_owner owner;
};

/* What is allocated, by owner. */
struct gpu_live {
	__u64 bytes;
	__u64 allocations;
};

/* The name of a function of the device; a map keeps them by their hash, for all processes. */
#define GPU_NAME_BYTES 512

struct gpu_name {
	char text[GPU_NAME_BYTES];
};

/* What a probe has read of a call. Kept for tests, which compare it with what they passed. */
struct gpu_call_record {
	__u32 call;     // enum gpu_call
	__u32 flags;    // enum gpu_call_flag
	__u64 handle;   // the function that is launched, the event or executable graph
	__u64 stream;   // 0 also where the call has none
	__u64 bytes;    // copied, set or allocated
	__u64 to, from; // of a copy; of other calls on memory its address is `to`
	__u32 grid[3];  // blocks
	__u32 block[3]; // threads
};
