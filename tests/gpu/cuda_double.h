// SPDX-License-Identifier: Apache-2.0
// Test equipment: the part of the driver API that the double of libcuda.so.1 has, and the double's own functions for tests.
// Types and values: CUDA driver API reference 12.x. Never installed.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef unsigned long long CUdeviceptr;
typedef struct stream *CUstream;
typedef struct event *CUevent;
typedef struct function *CUfunction;
typedef struct function *CUkernel; // cuLaunchKernel() takes it as a CUfunction, too
typedef struct module *CUmodule;
typedef struct module *CUlibrary;
typedef struct context *CUcontext;
typedef struct graph *CUgraph;
typedef struct graph_exec *CUgraphExec;
typedef struct graph_node *CUgraphNode; // opaque
typedef unsigned long long CUmemGenericAllocationHandle;

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_INVALID_HANDLE = 400,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_NOT_SUPPORTED = 801,
	CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
	CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
	CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
	CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910,
};

/* How a waiting thread waits: cuCtxCreate()'s flags. */
enum { CU_CTX_SCHED_SPIN = 1, CU_CTX_SCHED_YIELD = 2, CU_CTX_SCHED_BLOCKING_SYNC = 4 };

/* cuStreamCreate()'s flag: such a stream and the legacy default one do not wait for each other. */
enum { CU_STREAM_NON_BLOCKING = 1 };

/* cuGetProcAddress_v2()'s flags. */
enum {
	CU_GET_PROC_ADDRESS_DEFAULT = 0,
	CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1,
	CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2,
};

/* 56 bytes, the stream at 32: measured with NVIDIA's headers. */
typedef struct {
	unsigned int grid[3], block[3], shared_bytes;
	CUstream stream;
	void *attributes;
	unsigned int attribute_count;
} CUlaunchConfig;

_Static_assert(offsetof(CUlaunchConfig, stream) == 32 && sizeof(CUlaunchConfig) == 56,
	       "CUlaunchConfig");

/* One side of CUDA_MEMCPY2D, at 0 and 56 of 128 bytes; sizes follow, and in CUDA_MEMCPY3D depths too. */
typedef struct {
	size_t x, y;
	unsigned int type; // 1: host, 2: device, 4: unified
	void *host;
	CUdeviceptr device;
	void *array;
	size_t pitch;
} CUmemcpySide2D;

typedef struct {
	CUmemcpySide2D from, to;
	size_t width, height;
} CUDA_MEMCPY2D;

typedef struct {
	size_t x, y, z, level;
	unsigned int type;
	void *host;
	CUdeviceptr device;
	void *array, *reserved;
	size_t pitch, height;
} CUmemcpySide3D;

typedef struct {
	CUmemcpySide3D from, to;
	size_t width, height, depth;
} CUDA_MEMCPY3D;

_Static_assert(offsetof(CUDA_MEMCPY2D, to.type) == 72 && offsetof(CUDA_MEMCPY2D, width) == 112,
	       "CUDA_MEMCPY2D");
_Static_assert(offsetof(CUDA_MEMCPY3D, to.type) == 120 && offsetof(CUDA_MEMCPY3D, depth) == 192,
	       "CUDA_MEMCPY3D");

/* Of a graph node, second version: a CUkernel may replace the function. */
typedef struct {
	CUfunction function;
	unsigned int grid[3], block[3], shared_bytes;
	void **parameters, **extra;
	CUkernel kernel;
	CUcontext context;
} CUDA_KERNEL_NODE_PARAMS;

_Static_assert(offsetof(CUDA_KERNEL_NODE_PARAMS, kernel) == 56, "CUDA_KERNEL_NODE_PARAMS");

enum { CU_GRAPH_NODE_TYPE_KERNEL = 0, CU_GRAPH_NODE_TYPE_GRAPH = 4 };

typedef struct {
	unsigned int type;
	int reserved[3];
	union {
		long long words[29];
		CUDA_KERNEL_NODE_PARAMS kernel;
		CUgraph child;
	};
	long long more;
} CUgraphNodeParams;

_Static_assert(offsetof(CUgraphNodeParams, kernel) == 16 && sizeof(CUgraphNodeParams) == 256,
	       "CUgraphNodeParams");

typedef struct {
	unsigned long long flags;
	CUstream upload;
	CUgraphNode failed;
	int result;
} CUDA_GRAPH_INSTANTIATE_PARAMS;

enum { CU_GRAPH_EXEC_UPDATE_SUCCESS = 0, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED = 2 };

typedef struct {
	int result;
	CUgraphNode failed, failed_from;
} CUgraphExecUpdateResultInfo;

#define DOUBLE_DEVICE_BYTES      (16ULL << 30)     // of the one device
#define DOUBLE_DEVICE_BASE       0x7f0000000000ULL // its memory's addresses
#define DOUBLE_COPY_BYTES_PER_NS 8                 // 8 GB/s, pinned or not
#define DOUBLE_KERNEL_NS         10000ULL          // of a kernel with a grid of one block
