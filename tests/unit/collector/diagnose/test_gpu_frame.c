// SPDX-License-Identifier: Apache-2.0
#include "collector/diagnose/gpu_frame.h"

#include "tests/test.h"

#define DRIVER "/usr/lib/x86_64-linux-gnu/libcuda.so.535.309.01"
#define TORCH  "libtorch_python.so"

static const struct {
	const char *name, *module;
	unsigned int marks;
} frames[] = {
	{ "cuLaunchKernelEx_ptsz", DRIVER, GPU_MARK_DRIVER | GPU_MARK_LAUNCH },
	{ "cuGraphLaunch", DRIVER, GPU_MARK_DRIVER | GPU_MARK_LAUNCH | GPU_MARK_GRAPH },
	{ "cudaLaunchKernel", "libtorch_cuda.so", GPU_MARK_DRIVER | GPU_MARK_LAUNCH },
	{ "cuMemcpyHtoDAsync_v2", DRIVER, GPU_MARK_DRIVER | GPU_MARK_COPY_IN },
	{ "cuMemcpyDtoH_v2_ptds", DRIVER, GPU_MARK_DRIVER | GPU_MARK_IMPLICIT },
	{ "cuMemcpyDtoD_v2", DRIVER, GPU_MARK_DRIVER },
	{ "cuMemFree_v2", DRIVER, GPU_MARK_DRIVER | GPU_MARK_ALLOCATION },
	{ "cudaFreeHost", "libcudart.so.12", GPU_MARK_DRIVER | GPU_MARK_ALLOCATION },
	{ "cuStreamSynchronize", DRIVER, GPU_MARK_DRIVER },
	{ "libcuda.so.1+0x1234", DRIVER, GPU_MARK_DRIVER },
	{ "ncclAllReduce", "libnccl.so.2", GPU_MARK_COLLECTIVE },
	{ "c10d::ProcessGroupNCCL::WorkNCCL::synchronizeStream", "libtorch_cuda.so",
	  GPU_MARK_COLLECTIVE },
	{ "at::native::_local_scalar_dense_cuda", "libtorch_cuda.so", GPU_MARK_IMPLICIT },
	{ "at::(anonymous namespace)::wrapper_CUDA___local_scalar_dense", "libtorch_cuda.so",
	  GPU_MARK_IMPLICIT },
	{ "torch::autograd::THPVariable_item", TORCH, GPU_MARK_IMPLICIT },
	{ "torch::autograd::THPVariable_item [clone .cold]", TORCH, GPU_MARK_IMPLICIT },
	{ "torch::autograd::THPVariable_cpu", TORCH, GPU_MARK_IMPLICIT },
	{ "torch::autograd::THPVariable_is_nonzero", TORCH, GPU_MARK_IMPLICIT },
	{ "at::native::nonzero_cuda", "libtorch_cuda.so", GPU_MARK_IMPLICIT },
	{ "at::native::masked_select_out_cuda_impl", "libtorch_cuda.so", GPU_MARK_IMPLICIT },
	// Similar names.
	{ "torch::autograd::THPVariable_nonzero_static", TORCH, 0 },
	{ "torch::autograd::THPVariable_get_itemsize", TORCH, 0 },
	{ "at::native::count_nonzero_cuda", "libtorch_cpu.so", 0 },
	{ "item (shop.py:7)", "shop", 0 },
	{ "my_cuMemFree", "app", 0 },
	{ "cudnn_launch", "libcudnn.so.9", 0 },
	{ "cublasGemmEx", "libcublas.so.12", 0 },
	{ "", "", 0 },
};

TEST(names_mark_what_frames_do)
{
	for EACH (f, frames)
		EXPECT_EQ(f->marks, gpu_frame_marks(f->name, f->module), f->name);
}

RUN_TESTS(cmocka_unit_test(names_mark_what_frames_do))
