// SPDX-License-Identifier: Apache-2.0
// Who launched a process's kernels: a window of the CUPTI helper beside the in-process profiler, whose probe takes
// the stacks of launches, and these stacks by kernel.
#pragma once

#include <stdio.h>
#include <sys/types.h>

#include "agent/gpu/cupti_session.h"
#include "base/error.h"
#include "base/profile.h"

/**
 * Open a window in process @pid and wait for its end: what it showed, and a profile with the time of the kernels
 * whose launch was seen, PROFILE_TYPE_GPU_KERNEL. Returns 0 or a negative errno.
 */
int kernel_stacks_measure(pid_t pid, const struct cupti_session_options *options,
			  struct cupti_result *ret_result, struct profile **ret_profile,
			  struct error *err);

/** Print the stacks with the most of the time of @kernel, a name as frames have it. */
void kernel_stacks_print(const struct profile *profile, const char *kernel, FILE *stream);

/** Time of all kernels in @profile, each told launch times what it stands for. */
int64_t kernel_stacks_sum(const struct profile *profile);
