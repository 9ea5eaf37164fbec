// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu/gpu_calls.h"

#include <string.h>

#include "base/cleanup.h"
#include "helper/cupti_shared.h"

/* Where an argument is passed, by its position. */
enum { RDI, RSI, RDX, RCX, R8, R9, STACK = GPU_ARGUMENT_STACK, NONE = GPU_ARGUMENT_NONE };

enum {
	ASYNC = GPU_CALL_ASYNC,
	OWN = GPU_CALL_PER_THREAD,
	UNIT_2 = GPU_CALL_SIZE_SHIFT_1,
	UNIT_4 = GPU_CALL_SIZE_SHIFT_2,
};

#define ROW(name, of_library, of_tier, exit, call, flags, size_at, stream_at)                    \
	{                                                                                        \
		.symbol = name, .library = GPU_LIBRARY_##of_library, .tier = GPU_TIER_##of_tier, \
		.cookie = GPU_COOKIE(GPU_CALL_##call, flags, size_at, stream_at),                \
		.wants_exit = exit                                                               \
	}

/* A function of the driver: alone, or with its variant for per-thread default streams. */
#define ONE(name, tier, exit, call, flags, size_at, stream_at) \
	ROW(name, CUDA, tier, exit, call, flags, size_at, stream_at)
#define PTSZ(name, tier, exit, call, flags, size_at, stream_at)       \
	ROW(name, CUDA, tier, exit, call, flags, size_at, stream_at), \
		ROW(name "_ptsz", CUDA, tier, exit, call, (flags) | OWN, size_at, stream_at)
#define PTDS(name, tier, exit, call, flags, size_at, stream_at)       \
	ROW(name, CUDA, tier, exit, call, flags, size_at, stream_at), \
		ROW(name "_ptds", CUDA, tier, exit, call, (flags) | OWN, size_at, stream_at)

/* A function of NCCL, probed at its return, too. */
#define NCCL_ROW(name, call, collective, count_at, type_at, communicator_at)                 \
	{                                                                                    \
		.symbol = name, .library = GPU_LIBRARY_NCCL, .tier = GPU_TIER_RARE,          \
		.cookie = NCCL_COOKIE(GPU_CALL_##call, NCCL_##collective, count_at, type_at, \
				      communicator_at),                                      \
		.wants_exit = true                                                           \
	}
#define MOVES(name, collective, count_at, type_at, communicator_at) \
	NCCL_ROW(name, NCCL_COLLECTIVE, collective, count_at, type_at, communicator_at)
/* With its variant of NCCL 2.32, which has one more argument. */
#define COLLECTIVE(name, collective, count_at, type_at, communicator_at) \
	MOVES(name, collective, count_at, type_at, communicator_at),     \
		MOVES(name "Config", collective, count_at, type_at, communicator_at)
#define NCCL(name, call, collective) NCCL_ROW(name, call, collective, NONE, NONE, NONE)

static const struct gpu_call_symbol symbols[] = {
	// Launches. CPU samples show how long the calls take: no return probes.
	PTSZ("cuLaunchKernel", LAUNCHES, false, LAUNCH, ASYNC, NONE, NONE),
	PTSZ("cuLaunchCooperativeKernel", LAUNCHES, false, LAUNCH, ASYNC, NONE, NONE),
	PTSZ("cuLaunchKernelEx", LAUNCHES, false, LAUNCH_EX, ASYNC, NONE, NONE),
	PTSZ("cuLaunchHostFunc", RARE, false, LAUNCH_HOST_FUNC, ASYNC, NONE, RDI),
	PTSZ("cuLaunchHostFunc_v2", RARE, false, LAUNCH_HOST_FUNC, ASYNC, NONE, RDI),
	PTSZ("cuGraphLaunch", RARE, false, GRAPH_LAUNCH, ASYNC, NONE, RSI),

	// Copies. cuMemcpyHtoD and the like without "_v2" take 32-bit addresses: nobody calls them.
	PTDS("cuMemcpyHtoD_v2", WAITS, true, COPY_HTOD, 0, RDX, NONE),
	PTDS("cuMemcpyDtoH_v2", WAITS, true, COPY_DTOH, 0, RDX, NONE),
	PTDS("cuMemcpyDtoD_v2", RARE, false, COPY_DTOD, ASYNC, RDX, NONE),
	PTDS("cuMemcpy", WAITS, true, COPY_ANY, 0, RDX, NONE),
	PTDS("cuMemcpyPeer", RARE, false, COPY_PEER, ASYNC, R8, NONE),
	PTDS("cuMemcpy2D_v2", WAITS, true, COPY_2D, 0, NONE, NONE),
	PTDS("cuMemcpy2DUnaligned_v2", WAITS, true, COPY_2D, 0, NONE, NONE),
	PTDS("cuMemcpy3D_v2", WAITS, true, COPY_3D, 0, NONE, NONE),
	PTDS("cuMemcpy3DPeer", WAITS, true, COPY_3D, 0, NONE, NONE),
	// With pageable memory "Async" copies may block, too (NVIDIA's "API synchronization behavior").
	PTSZ("cuMemcpyHtoDAsync_v2", RARE, true, COPY_HTOD, ASYNC, RDX, RCX),
	PTSZ("cuMemcpyDtoHAsync_v2", RARE, true, COPY_DTOH, ASYNC, RDX, RCX),
	PTSZ("cuMemcpyDtoDAsync_v2", RARE, false, COPY_DTOD, ASYNC, RDX, RCX),
	PTSZ("cuMemcpyAsync", RARE, true, COPY_ANY, ASYNC, RDX, RCX),
	PTSZ("cuMemcpyPeerAsync", RARE, false, COPY_PEER, ASYNC, R8, R9),
	PTSZ("cuMemcpy2DAsync_v2", RARE, true, COPY_2D, ASYNC, NONE, RSI),
	PTSZ("cuMemcpy3DAsync_v2", RARE, true, COPY_3D, ASYNC, NONE, RSI),
	PTSZ("cuMemcpy3DPeerAsync", RARE, true, COPY_3D, ASYNC, NONE, RSI),
	PTSZ("cuMemcpyBatchAsync", RARE, true, COPY_BATCH, ASYNC, RCX, NONE),
	PTSZ("cuMemcpyBatchAsync_v2", RARE, true, COPY_BATCH, ASYNC, RCX, NONE),
	PTSZ("cuMemcpyWithAttributesAsync", RARE, true, COPY_ANY, ASYNC, RDX, R8),
	PTDS("cuMemsetD8_v2", RARE, false, MEMSET, ASYNC, RDX, NONE),
	PTDS("cuMemsetD16_v2", RARE, false, MEMSET, ASYNC | UNIT_2, RDX, NONE),
	PTDS("cuMemsetD32_v2", RARE, false, MEMSET, ASYNC | UNIT_4, RDX, NONE),
	PTSZ("cuMemsetD8Async", RARE, false, MEMSET, ASYNC, RDX, RCX),
	PTSZ("cuMemsetD16Async", RARE, false, MEMSET, ASYNC | UNIT_2, RDX, RCX),
	PTSZ("cuMemsetD32Async", RARE, false, MEMSET, ASYNC | UNIT_4, RDX, RCX),

	// Waits. cuStreamWaitEvent makes a stream wait, not a thread.
	PTSZ("cuStreamSynchronize", WAITS, true, SYNC_STREAM, 0, NONE, RDI),
	ONE("cuEventSynchronize", WAITS, true, SYNC_EVENT, 0, NONE, NONE),
	ONE("cuCtxSynchronize", WAITS, true, SYNC_CONTEXT, 0, NONE, NONE),
	ONE("cuCtxSynchronize_v2", WAITS, true, SYNC_CONTEXT, 0, NONE, NONE),
	PTSZ("cuEventRecord", RARE, false, EVENT_RECORD, ASYNC, NONE, RSI),
	PTSZ("cuEventRecordWithFlags", RARE, false, EVENT_RECORD, ASYNC, NONE, RSI),
	PTSZ("cuStreamWaitEvent", RARE, false, EVENT_WAIT, ASYNC, NONE, RDI),
	ONE("cuEventDestroy", RARE, false, EVENT_DESTROY, 0, NONE, NONE),
	ONE("cuEventDestroy_v2", RARE, false, EVENT_DESTROY, 0, NONE, NONE),

	// Memory.
	ONE("cuInit", RARE, true, INIT, 0, NONE, NONE),
	ONE("cuMemAlloc_v2", RARE, true, ALLOC, 0, RSI, NONE),
	ONE("cuMemAllocManaged", RARE, true, ALLOC, 0, RSI, NONE),
	ONE("cuMemAllocPitch_v2", RARE, true, ALLOC_PITCH, 0, RDX, NONE),
	PTSZ("cuMemAllocAsync", RARE, true, ALLOC, ASYNC, RSI, RDX),
	PTSZ("cuMemAllocFromPoolAsync", RARE, true, ALLOC, ASYNC, RSI, RCX),
	ONE("cuMemFree_v2", RARE, true, FREE, 0, NONE, NONE), // waits for the whole device
	PTSZ("cuMemFreeAsync", RARE, false, FREE, ASYNC, NONE, RSI),
	ONE("cuMemHostAlloc", RARE, true, HOST_ALLOC, 0, RSI, NONE),
	ONE("cuMemAllocHost_v2", RARE, true, HOST_ALLOC, 0, RSI, NONE),
	ONE("cuMemFreeHost", RARE, false, HOST_FREE, 0, NONE, NONE),
	ONE("cuMemHostRegister_v2", RARE, true, HOST_REGISTER, 0, RSI, NONE),
	ONE("cuMemHostUnregister", RARE, false, HOST_UNREGISTER, 0, NONE, NONE),
	ONE("cuMemCreate", RARE, true, MEM_CREATE, 0, RSI, NONE),
	ONE("cuMemRelease", RARE, false, MEM_RELEASE, 0, NONE, NONE),
	ONE("cuMemMap", RARE, true, MEM_MAP, 0, RSI, NONE),
	ONE("cuMemUnmap", RARE, false, MEM_UNMAP, 0, RSI, NONE),

	// Modules and GPU kernels.
	ONE("cuModuleLoad", RARE, true, MODULE_LOAD, 0, NONE, NONE),
	ONE("cuModuleLoadData", RARE, true, MODULE_LOAD, 0, NONE, NONE),
	ONE("cuModuleLoadDataEx", RARE, true, MODULE_LOAD, 0, NONE, NONE),
	ONE("cuModuleLoadFatBinary", RARE, true, MODULE_LOAD, 0, NONE, NONE),
	ONE("cuLibraryLoadData", RARE, true, MODULE_LOAD, 0, NONE, NONE),
	ONE("cuLibraryLoadFromFile", RARE, true, MODULE_LOAD, 0, NONE, NONE),
	ONE("cuModuleGetFunction", RARE, true, GET_FUNCTION, 0, NONE, NONE),
	ONE("cuLibraryGetKernel", RARE, true, GET_FUNCTION, 0, NONE, NONE),
	ONE("cuKernelGetFunction", RARE, true, KERNEL_GET_FUNCTION, 0, NONE, NONE),
	ONE("cuModuleUnload", RARE, false, MODULE_UNLOAD, 0, NONE, NONE),
	ONE("cuLibraryUnload", RARE, false, MODULE_UNLOAD, 0, NONE, NONE),

	// CUDA graphs. The first version of cuStreamBeginCapture has no mode; the stream is the same.
	PTSZ("cuStreamBeginCapture", RARE, true, CAPTURE_BEGIN, 0, NONE, RDI),
	PTSZ("cuStreamBeginCapture_v2", RARE, true, CAPTURE_BEGIN, 0, NONE, RDI),
	PTSZ("cuStreamBeginCaptureToGraph", RARE, true, CAPTURE_TO_GRAPH, 0, NONE, RDI),
	PTSZ("cuStreamEndCapture", RARE, true, CAPTURE_END, 0, NONE, RDI),
	ONE("cuStreamDestroy", RARE, false, STREAM_DESTROY, 0, NONE, NONE),
	ONE("cuStreamDestroy_v2", RARE, false, STREAM_DESTROY, 0, NONE, NONE),
	ONE("cuGraphCreate", RARE, true, GRAPH_CREATE, 0, NONE, NONE),
	ONE("cuGraphClone", RARE, true, GRAPH_CLONE, 0, NONE, NONE),
	// The size's place has what is added; cuGraphAddNode_v2 has one more argument before it.
	ONE("cuGraphAddChildGraphNode", RARE, true, GRAPH_ADD_CHILD, 0, R8, NONE),
	ONE("cuGraphAddKernelNode", RARE, true, GRAPH_ADD_KERNEL, 0, R8, NONE),
	ONE("cuGraphAddKernelNode_v2", RARE, true, GRAPH_ADD_KERNEL, 0, R8, NONE),
	ONE("cuGraphAddNode", RARE, true, GRAPH_ADD_NODE, 0, R8, NONE),
	ONE("cuGraphAddNode_v2", RARE, true, GRAPH_ADD_NODE, 0, R9, NONE),
	ONE("cuGraphInstantiate", RARE, true, GRAPH_INSTANTIATE, 0, NONE, NONE),
	ONE("cuGraphInstantiate_v2", RARE, true, GRAPH_INSTANTIATE, 0, NONE, NONE),
	ONE("cuGraphInstantiateWithFlags", RARE, true, GRAPH_INSTANTIATE, 0, NONE, NONE),
	PTSZ("cuGraphInstantiateWithParams", RARE, true, GRAPH_INSTANTIATE, 0, NONE, NONE),
	ONE("cuGraphExecUpdate", RARE, true, GRAPH_EXEC_UPDATE, 0, NONE, NONE),
	ONE("cuGraphExecUpdate_v2", RARE, true, GRAPH_EXEC_UPDATE, 0, NONE, NONE),
	ONE("cuGraphDestroy", RARE, false, GRAPH_DESTROY, 0, NONE, NONE),
	ONE("cuGraphExecDestroy", RARE, false, GRAPH_EXEC_DESTROY, 0, NONE, NONE),

	// Calls that enqueue work and are counted nowhere: a GPU with such work is not idle. NONE as stream:
	// the work may be on any.
	PTSZ("cuMemsetD2D8Async", RARE, false, ENQUEUE, ASYNC, NONE, R9),
	PTSZ("cuMemsetD2D16Async", RARE, false, ENQUEUE, ASYNC, NONE, R9),
	PTSZ("cuMemsetD2D32Async", RARE, false, ENQUEUE, ASYNC, NONE, R9),
	PTDS("cuMemsetD2D8_v2", RARE, false, ENQUEUE, 0, NONE, NONE),
	PTDS("cuMemsetD2D16_v2", RARE, false, ENQUEUE, 0, NONE, NONE),
	PTDS("cuMemsetD2D32_v2", RARE, false, ENQUEUE, 0, NONE, NONE),
	PTSZ("cuMemPrefetchAsync", RARE, false, ENQUEUE, ASYNC, NONE, RCX),
	PTSZ("cuMemPrefetchAsync_v2", RARE, false, ENQUEUE, ASYNC, NONE, NONE),
	PTSZ("cuMemPrefetchBatchAsync", RARE, false, ENQUEUE, ASYNC, NONE, NONE),
	PTSZ("cuMemDiscardBatchAsync", RARE, false, ENQUEUE, ASYNC, NONE, R8),
	PTSZ("cuMemDiscardAndPrefetchBatchAsync", RARE, false, ENQUEUE, ASYNC, NONE, NONE),
	PTSZ("cuMemcpy3DWithAttributesAsync", RARE, false, ENQUEUE, ASYNC, NONE, RDX),
	PTSZ("cuMemcpy3DBatchAsync", RARE, false, ENQUEUE, ASYNC, NONE, NONE),
	PTSZ("cuMemcpy3DBatchAsync_v2", RARE, false, ENQUEUE, ASYNC, NONE, NONE),
	PTDS("cuMemcpyDtoA_v2", RARE, false, ENQUEUE, 0, NONE, NONE),
	PTDS("cuMemcpyAtoD_v2", RARE, false, ENQUEUE, 0, NONE, NONE),
	PTDS("cuMemcpyHtoA_v2", RARE, false, ENQUEUE, 0, NONE, NONE),
	PTDS("cuMemcpyAtoH_v2", RARE, false, ENQUEUE, 0, NONE, NONE),
	PTDS("cuMemcpyAtoA_v2", RARE, false, ENQUEUE, 0, NONE, NONE),
	PTSZ("cuMemcpyHtoAAsync_v2", RARE, false, ENQUEUE, ASYNC, NONE, NONE),
	PTSZ("cuMemcpyAtoHAsync_v2", RARE, false, ENQUEUE, ASYNC, NONE, NONE),
	PTSZ("cuGraphUpload", RARE, false, ENQUEUE, ASYNC, NONE, RSI),
	PTSZ("cuStreamWriteValue32", RARE, false, ENQUEUE, ASYNC, NONE, RDI),
	PTSZ("cuStreamWriteValue32_v2", RARE, false, ENQUEUE, ASYNC, NONE, RDI),
	PTSZ("cuStreamWriteValue64", RARE, false, ENQUEUE, ASYNC, NONE, RDI),
	PTSZ("cuStreamWriteValue64_v2", RARE, false, ENQUEUE, ASYNC, NONE, RDI),
	PTSZ("cuStreamWaitValue32", RARE, false, ENQUEUE, ASYNC, NONE, RDI),
	PTSZ("cuStreamWaitValue32_v2", RARE, false, ENQUEUE, ASYNC, NONE, RDI),
	PTSZ("cuStreamWaitValue64", RARE, false, ENQUEUE, ASYNC, NONE, RDI),
	PTSZ("cuStreamWaitValue64_v2", RARE, false, ENQUEUE, ASYNC, NONE, RDI),
	PTSZ("cuStreamBatchMemOp", RARE, false, ENQUEUE, ASYNC, NONE, RDI),
	PTSZ("cuStreamBatchMemOp_v2", RARE, false, ENQUEUE, ASYNC, NONE, RDI),
	PTSZ("cuStreamAddCallback", RARE, false, ENQUEUE, ASYNC, NONE, RDI),
	PTSZ("cuSignalExternalSemaphoresAsync", RARE, false, ENQUEUE, ASYNC, NONE, RCX),
	PTSZ("cuWaitExternalSemaphoresAsync", RARE, false, ENQUEUE, ASYNC, NONE, RCX),
	ONE("cuLaunch", RARE, false, ENQUEUE, 0, NONE, NONE),
	ONE("cuLaunchGrid", RARE, false, ENQUEUE, 0, NONE, NONE),
	ONE("cuLaunchGridAsync", RARE, false, ENQUEUE, ASYNC, NONE, RCX),
	ONE("cuLaunchCooperativeKernelMultiDevice", RARE, false, ENQUEUE, ASYNC, NONE, NONE),
	// Contexts: cuCtxSynchronize waits for the streams of the current context only.
	ONE("cuCtxSetCurrent", RARE, false, CONTEXT, 0, NONE, NONE),
	ONE("cuCtxPushCurrent_v2", RARE, false, CONTEXT, 0, NONE, NONE),
	ONE("cuCtxCreate_v2", RARE, true, CONTEXT_MADE, 0, NONE, NONE),
	ONE("cuCtxCreate_v3", RARE, true, CONTEXT_MADE, 0, NONE, NONE),
	ONE("cuCtxCreate_v4", RARE, true, CONTEXT_MADE, 0, NONE, NONE),

	// NCCL: calls that move data, with the places of count, type and communicator. pncclAllReduce and the
	// like are other names of the same code; ncclBcast calls ncclBroadcast.
	COLLECTIVE("ncclAllReduce", ALL_REDUCE, RDX, RCX, R9),
	COLLECTIVE("ncclBroadcast", BROADCAST, RDX, RCX, R9),
	COLLECTIVE("ncclReduce", REDUCE, RDX, RCX, STACK),
	COLLECTIVE("ncclAllGather", ALL_GATHER, RDX, RCX, R8),
	COLLECTIVE("ncclReduceScatter", REDUCE_SCATTER, RDX, RCX, R9),
	COLLECTIVE("ncclAlltoAll", ALL_TO_ALL, RDX, RCX, R8),
	COLLECTIVE("ncclGather", GATHER, RDX, RCX, R9),
	COLLECTIVE("ncclScatter", SCATTER, RDX, RCX, R9),
	MOVES("ncclSend", SEND, RSI, RDX, R8),
	MOVES("ncclRecv", RECEIVE, RSI, RDX, R8),
	NCCL("ncclGroupEnd", NCCL_GROUP, GROUP),
	// Communicators. ncclGroupStart does nothing but count: not probed.
	NCCL("ncclCommInitRank", NCCL_INIT, INIT),
	NCCL("ncclCommInitRankConfig", NCCL_INIT, INIT),
	NCCL("ncclCommInitRankScalable", NCCL_INIT_SCALABLE, INIT),
	NCCL("ncclCommInitAll", NCCL_INIT_ALL, INIT),
	NCCL("ncclCommSplit", NCCL_SPLIT, INIT),
	NCCL("ncclCommShrink", NCCL_SHRINK, INIT),
	NCCL("ncclCommGrow", NCCL_GROW, INIT),
	NCCL("ncclCommUserRank", NCCL_RANK, OTHER),
	NCCL("ncclCommCount", NCCL_RANKS, OTHER),
	NCCL("ncclCommDestroy", NCCL_END, DESTROY),
	NCCL("ncclCommAbort", NCCL_END, DESTROY),

	// Launches that the CUPTI helper samples in a session.
	ROW(CUPTI_PROBE_NAME, HELPER, RARE, false, SAMPLED_LAUNCH, 0, NONE, NONE),
};

const struct gpu_call_symbol *gpu_calls(size_t *ret_count)
{
	*ret_count = ARRAY_SIZE(symbols);
	return symbols;
}

const struct gpu_call_symbol *gpu_calls_find(const char *symbol)
{
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
		if (strcmp(symbols[i].symbol, symbol) == 0)
			return &symbols[i];
	}
	return NULL;
}
