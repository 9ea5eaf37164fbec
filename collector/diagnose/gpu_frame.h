// SPDX-License-Identifier: Apache-2.0
// What a frame does with the GPU, by its name: launch, copy, allocate, wait for other ranks, or synchronize implicitly. Knows exports
// of the driver, calls of the CUDA runtime, and functions of PyTorch that read a result on the host.
#pragma once

enum gpu_mark {
	GPU_MARK_DRIVER = 1 << 0, // the driver's code, or the runtime's above it
	GPU_MARK_LAUNCH = 1 << 1,
	GPU_MARK_COPY_IN = 1 << 2,
	GPU_MARK_IMPLICIT = 1 << 3, // reads a result: the wait is a consequence
	GPU_MARK_ALLOCATION = 1 << 4,
	GPU_MARK_COLLECTIVE = 1 << 5,
	GPU_MARK_GRAPH = 1 << 6, // launches many GPU kernels at once, with GPU_MARK_LAUNCH
};

/** Marks of a frame by its display name and its module's path. A stack has those of all its frames. */
unsigned int gpu_frame_marks(const char *name, const char *module);
