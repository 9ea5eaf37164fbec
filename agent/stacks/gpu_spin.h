// SPDX-License-Identifier: Apache-2.0
// CPU time that is a wait for a GPU: by default the CUDA driver waits in a loop, so that a thread
// that waits for the device looks busy. A sample whose stack has one of the driver's waiting functions
// is such a wait; their names come from the driver's file alone (agent/symbols/cuda_symbols.h).
#pragma once

#include <stdbool.h>

#include "base/profile.h"

/** Did the CPU time of this stack go into waiting for a GPU? */
bool gpu_spin_is(const struct profile *profile, const struct stack *stack);
