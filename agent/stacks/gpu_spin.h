// SPDX-License-Identifier: Apache-2.0
// GPU busy-wait: by default the CUDA driver polls the device in a loop, so a thread that waits for the GPU
// looks busy. A CPU sample is a busy-wait if its stack has one of the driver's blocking calls, named by
// agent/symbols/cuda_symbols.h.
#pragma once

#include <stdbool.h>

#include "base/profile/profile.h"

/** Is the CPU time of this stack a busy-wait for a GPU? */
bool gpu_spin_is(const struct profile *profile, const struct stack *stack);
