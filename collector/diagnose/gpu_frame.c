// SPDX-License-Identifier: Apache-2.0
#include "collector/diagnose/gpu_frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"

/*
 * Beginnings of names: variants end in _v2, _ptsz, _ptds, "Async". Exports of libcuda and libcudart (CUDA
 * 13 API references), and NCCL's calls.
 */
static const struct {
	const char *begins;
	unsigned int marks;
} calls[] = {
	{ "cuLaunchKernel", GPU_MARK_DRIVER | GPU_MARK_LAUNCH },
	{ "cuLaunchCooperativeKernel", GPU_MARK_DRIVER | GPU_MARK_LAUNCH },
	{ "cuGraphLaunch", GPU_MARK_DRIVER | GPU_MARK_LAUNCH | GPU_MARK_GRAPH },
	{ "cudaLaunchKernel", GPU_MARK_DRIVER | GPU_MARK_LAUNCH },
	{ "cudaLaunchCooperativeKernel", GPU_MARK_DRIVER | GPU_MARK_LAUNCH },
	{ "cudaGraphLaunch", GPU_MARK_DRIVER | GPU_MARK_LAUNCH | GPU_MARK_GRAPH },
	{ "cuMemcpyHtoD", GPU_MARK_DRIVER | GPU_MARK_COPY_IN },
	{ "cuMemcpyHtoA", GPU_MARK_DRIVER | GPU_MARK_COPY_IN },
	{ "cuMemcpyDtoH", GPU_MARK_DRIVER | GPU_MARK_IMPLICIT },
	{ "cuMemcpyAtoH", GPU_MARK_DRIVER | GPU_MARK_IMPLICIT },
	{ "cuMemAlloc", GPU_MARK_DRIVER | GPU_MARK_ALLOCATION },
	{ "cuMemFree", GPU_MARK_DRIVER | GPU_MARK_ALLOCATION },
	{ "cuMemHostAlloc", GPU_MARK_DRIVER | GPU_MARK_ALLOCATION },
	{ "cuMemHostRegister", GPU_MARK_DRIVER | GPU_MARK_ALLOCATION },
	{ "cuMemHostUnregister", GPU_MARK_DRIVER | GPU_MARK_ALLOCATION },
	{ "cuMemCreate", GPU_MARK_DRIVER | GPU_MARK_ALLOCATION },
	{ "cuMemRelease", GPU_MARK_DRIVER | GPU_MARK_ALLOCATION },
	{ "cuMemMap", GPU_MARK_DRIVER | GPU_MARK_ALLOCATION },
	{ "cuMemUnmap", GPU_MARK_DRIVER | GPU_MARK_ALLOCATION },
	{ "cudaMalloc", GPU_MARK_DRIVER | GPU_MARK_ALLOCATION },
	{ "cudaFree", GPU_MARK_DRIVER | GPU_MARK_ALLOCATION },
	{ "nccl", GPU_MARK_COLLECTIVE },
	{ "pnccl", GPU_MARK_COLLECTIVE },
	{ "c10d::ProcessGroupNCCL", GPU_MARK_COLLECTIVE },
};

/*
 * Methods of PyTorch's tensors that need a result on the host, as their bindings are called (torch 2.15:
 * torch/csrc/autograd/generated/python_variable_methods.cpp). Whole names: nonzero_static does not wait.
 */
#define TORCH_METHOD "torch::autograd::THPVariable_"
static const char *const implicit_methods[] = {
	"item",        "tolist",       "cpu",          "nonzero",         "is_nonzero",
	"bool_scalar", "float_scalar", "index_scalar", "integral_scalar",
};

/* Anywhere in a name: C++ puts namespaces, templates and suffixes around them. count_nonzero_cuda does not wait. */
static const char *const implicit_parts[] = {
	"_local_scalar_dense",  "::nonzero_cuda",           "::nonzero_out_cuda",
	"::masked_select_cuda", "::masked_select_out_cuda",
};

static bool is_implicit(const char *name)
{
	if (text_begins_with(name, TORCH_METHOD)) {
		const char *method = name + strlen(TORCH_METHOD);
		// What follows may be " [clone .cold]".
		size_t size = strcspn(method, " .");

		for (size_t i = 0; i < ARRAY_SIZE(implicit_methods); i++) {
			if (strlen(implicit_methods[i]) == size &&
			    text_begins_with(method, implicit_methods[i]))
				return true;
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(implicit_parts); i++) {
		if (strstr(name, implicit_parts[i]))
			return true;
	}
	return false;
}

static bool is_driver(const char *module)
{
	const char *name = path_base_name(module);

	return text_begins_with(name, "libcuda.so") || text_begins_with(name, "libcudart");
}

unsigned int gpu_frame_marks(const char *name, const char *module)
{
	unsigned int marks = is_driver(module) ? GPU_MARK_DRIVER : 0;

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		if (text_begins_with(name, calls[i].begins))
			return marks | calls[i].marks;
	}
	return is_implicit(name) ? marks | GPU_MARK_IMPLICIT : marks;
}
