// SPDX-License-Identifier: Apache-2.0
// A CUPTI session with stacks: runs the in-process profiler, whose probe captures the stacks of launches, and prints the
// stacks of each GPU kernel.
#pragma once

#include <stdio.h>
#include <sys/types.h>

#include "agent/gpu/cupti_session.h"
#include "base/error.h"
#include "base/profile/profile.h"

/**
 * Run a session in process @pid. *ret_profile has the time of GPU kernels whose launch was seen, as
 * PROFILE_TYPE_GPU_KERNEL. Returns 0 or a negative errno.
 */
int gpu_kernel_stacks_measure(pid_t pid, const struct cupti_session_options *options,
			      struct cupti_result *ret_result, struct profile **ret_profile,
			      struct error *err);

/** Print the stacks with the most time of the GPU kernel @kernel, a frame's name. */
void gpu_kernel_stacks_print(const struct profile *profile, const char *kernel, FILE *stream);

/** Time of all GPU kernels in @profile, weighted. */
int64_t gpu_kernel_stacks_sum(const struct profile *profile);
