// SPDX-License-Identifier: Apache-2.0
// For tests: calls of the test driver under the real BPF programs, and what they count.
#pragma once

#include "agent/gpu/gpu_programs.h"

#include "tests/unit/agent/gpu/gpu_setting.h"

static struct {
	CUresult (*host_alloc)(void **, size_t, unsigned int);
	CUresult (*host_register)(void *, size_t, unsigned int);
	CUresult (*load)(CUmodule *, const void *);
	CUresult (*unload)(CUmodule);
	CUresult (*get)(CUfunction *, CUmodule, const char *);
	CUresult (*load_library)(CUlibrary *, const void *, int *, void **, unsigned int, int *,
				 void **, unsigned int);
	CUresult (*get_kernel)(CUkernel *, CUlibrary, const char *);
	CUresult (*function_of)(CUfunction *, CUkernel);
	CUresult (*launch)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
			   unsigned int, unsigned int, unsigned int, CUstream, void **, void **);
	CUresult (*launch_own)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
			       unsigned int, unsigned int, unsigned int, CUstream, void **,
			       void **);
	CUresult (*launch_together)(CUfunction, unsigned int, unsigned int, unsigned int,
				    unsigned int, unsigned int, unsigned int, unsigned int,
				    CUstream, void **);
	CUresult (*launch_ex)(const CUlaunchConfig *, CUfunction, void **, void **);
	CUresult (*stream)(CUstream *, unsigned int);
	CUresult (*event)(CUevent *, unsigned int);
	CUresult (*record)(CUevent, CUstream);
	CUresult (*wait_event)(CUstream, CUevent, unsigned int);
	CUresult (*copy)(CUdeviceptr, CUdeviceptr, size_t);
	CUresult (*copy_within)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
	CUresult (*copy_in)(CUdeviceptr, const void *, size_t, CUstream);
	CUresult (*copy_out)(void *, CUdeviceptr, size_t, CUstream);
	CUresult (*copy_peer)(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t);
	CUresult (*copy_batch)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *,
			       size_t, size_t *, CUstream);
	CUresult (*copy_2d)(const CUDA_MEMCPY2D *, CUstream);
	CUresult (*copy_3d)(const CUDA_MEMCPY3D *, CUstream);
	CUresult (*set)(CUdeviceptr, unsigned char, size_t);
	CUresult (*set_words)(CUdeviceptr, unsigned int, size_t, CUstream);
	CUresult (*begin)(CUstream, int);
	CUresult (*end)(CUstream, CUgraph *);
	CUresult (*make_graph)(CUgraph *, unsigned int);
	CUresult (*instantiate)(CUgraphExec *, CUgraph, unsigned long long);
	CUresult (*replay)(CUgraphExec, CUstream);
	CUresult (*begin_in)(CUstream, CUgraph, const CUgraphNode *, const void *, size_t, int);
	CUresult (*capture_info)(CUstream, int *, uint64_t *, CUgraph *, const CUgraphNode **,
				 size_t *);
	CUresult (*clone)(CUgraph *, CUgraph);
	CUresult (*add_child)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraph);
	CUresult (*add_kernel)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
			       const CUDA_KERNEL_NODE_PARAMS *);
	CUresult (*add_node)(CUgraphNode *, CUgraph, const CUgraphNode *, const void *, size_t,
			     const CUgraphNodeParams *);
	CUresult (*instantiate_first)(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
	CUresult (*instantiate_second)(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
	CUresult (*instantiate_as)(CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *);
	CUresult (*update)(CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo *);
	CUresult (*update_first)(CUgraphExec, CUgraph, CUgraphNode *, int *);
	CUresult (*end_stream)(CUstream);
	CUresult (*end_event)(CUevent);
	CUresult (*end_graph)(CUgraph);
	CUresult (*end_exec)(CUgraphExec);
} call;

static inline void load_calls(void)
{
	static const struct {
		const char *name;
		void *place;
	} names[] = {
		{ "cuMemHostAlloc", &call.host_alloc },
		{ "cuMemHostRegister_v2", &call.host_register },
		{ "cuModuleLoadData", &call.load },
		{ "cuModuleUnload", &call.unload },
		{ "cuModuleGetFunction", &call.get },
		{ "cuLibraryLoadData", &call.load_library },
		{ "cuLibraryGetKernel", &call.get_kernel },
		{ "cuKernelGetFunction", &call.function_of },
		{ "cuLaunchKernel", &call.launch },
		{ "cuLaunchKernel_ptsz", &call.launch_own },
		{ "cuLaunchCooperativeKernel", &call.launch_together },
		{ "cuLaunchKernelEx", &call.launch_ex },
		{ "cuStreamCreate", &call.stream },
		{ "cuEventCreate", &call.event },
		{ "cuEventRecord", &call.record },
		{ "cuStreamWaitEvent", &call.wait_event },
		{ "cuMemcpy", &call.copy },
		{ "cuMemcpyDtoDAsync_v2", &call.copy_within },
		{ "cuMemcpyHtoDAsync_v2", &call.copy_in },
		{ "cuMemcpyDtoHAsync_v2", &call.copy_out },
		{ "cuMemcpyPeer", &call.copy_peer },
		{ "cuMemcpyBatchAsync", &call.copy_batch },
		{ "cuMemcpy2DAsync_v2", &call.copy_2d },
		{ "cuMemcpy3DAsync_v2", &call.copy_3d },
		{ "cuMemsetD8_v2", &call.set },
		{ "cuMemsetD32Async", &call.set_words },
		{ "cuStreamBeginCapture_v2", &call.begin },
		{ "cuStreamEndCapture", &call.end },
		{ "cuGraphCreate", &call.make_graph },
		{ "cuGraphInstantiateWithFlags", &call.instantiate },
		{ "cuGraphLaunch", &call.replay },
		{ "cuStreamBeginCaptureToGraph", &call.begin_in },
		{ "cuStreamGetCaptureInfo_v2", &call.capture_info },
		{ "cuGraphClone", &call.clone },
		{ "cuGraphAddChildGraphNode", &call.add_child },
		{ "cuGraphAddKernelNode_v2", &call.add_kernel },
		{ "cuGraphAddNode_v2", &call.add_node },
		{ "cuGraphInstantiate", &call.instantiate_first },
		{ "cuGraphInstantiate_v2", &call.instantiate_second },
		{ "cuGraphInstantiateWithParams", &call.instantiate_as },
		{ "cuGraphExecUpdate_v2", &call.update },
		{ "cuGraphExecUpdate", &call.update_first },
		{ "cuStreamDestroy_v2", &call.end_stream },
		{ "cuEventDestroy_v2", &call.end_event },
		{ "cuGraphDestroy", &call.end_graph },
		{ "cuGraphExecDestroy", &call.end_exec },
	};

	for EACH (one, names) {
		void *function = dlsym(driver_library, one->name);

		if (!function)
			fail_msg("%s", one->name);
		memcpy(one->place, &function, sizeof(function));
	}
}

// By frame pointers: no unwind tables are published here.
static inline bool open_calls(struct setting *setting)
{
	if (!open_setting_at(setting, LOADER_LEVEL_FRAME_POINTER))
		return false;
	load_calls();
	begin_on_phase(setting);
	return true;
}

// ---- counts -----------------------------------------------------------------------------------

enum { ROWS_MAX = 256 };

struct row {
	struct count_key key;
	struct count count;
};

static struct {
	struct row rows[ROWS_MAX];
	uint32_t count;
} counted;

static inline int take_count(void *context, const struct count_key *key, const struct count *count)
{
	(void)context;
	assert_true(counted.count < ROWS_MAX);
	counted.rows[counted.count++] = (struct row){ *key, *count };
	return 0;
}

// All counts since the last call.
static inline void read_counts(const struct setting *setting)
{
	struct error err = { 0 };

	counted.count = 0;
	assert_int_equal(0, loader_swap_counts(setting->loader, &err));
	assert_int_equal(0, loader_drain_counts(setting->loader, take_count, NULL, &err));
}

static inline struct count sum_of(enum sample_kind kind)
{
	struct count sum = { 0 };

	for (uint32_t i = 0; i < counted.count; i++) {
		if (counted.rows[i].key.kind != kind)
			continue;
		sum.value += counted.rows[i].count.value;
		sum.samples += counted.rows[i].count.samples;
	}
	return sum;
}

// Launches of the GPU kernel of that name; NULL: of unnamed ones.
static inline uint64_t launches_of(const struct setting *setting, const char *name)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < counted.count; i++) {
		const struct count_key *key = &counted.rows[i].key;

		if (key->kind != SAMPLE_KIND_GPU_LAUNCH)
			continue;
		EXPECT_EQ(FRAME_TAG_GPU, key->user_leaf.tag, "the GPU kernel is the leaf");
		const char *known =
			key->user_leaf.detail
				? NULL
				: gpu_programs_name(setting->programs, key->user_leaf.address);
		if (name ? known && strcmp(known, name) == 0 : !known)
			sum += counted.rows[i].count.value;
	}
	return sum;
}

static inline CUfunction get_function(const char *name)
{
	CUmodule module = NULL;
	CUfunction function = NULL;

	assert_int_equal(0, call.load(&module, "image"));
	assert_int_equal(0, call.get(&function, module, name));
	return function;
}

static inline void launch(CUfunction function, CUstream stream)
{
	assert_int_equal(0, call.launch(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_make, folder_remove)
