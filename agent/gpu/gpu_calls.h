// SPDX-License-Identifier: Apache-2.0
// The functions of the CUDA driver and of NCCL that are probed: each symbol with what the kernel
// programs must know of it. Prototypes are those of the CUDA driver API reference (12.x and 13.x) and
// of nccl.h; every variant of a function is a row, for each has an address of its own.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/gpu/gpu_call.h"

enum gpu_library {
	GPU_LIBRARY_CUDA,   // libcuda.so.1
	GPU_LIBRARY_NCCL,   // libnccl.so.2, or linked into another library
	GPU_LIBRARY_HELPER, // libcairn_cupti.so
};

/** When a symbol is probed. */
enum gpu_tier {
	GPU_TIER_RARE,     // always: called seldom
	GPU_TIER_WAITS,    // always: takes time anyway
	GPU_TIER_LAUNCHES, // in windows: called as often as 100,000 times a second
};

struct gpu_call_symbol {
	const char *symbol;
	enum gpu_library library;
	enum gpu_tier tier;
	uint64_t cookie; // of its probes, GPU_COOKIE()
	bool wants_exit; // it has a probe at its return, too
};

/** All of them; those that a library does not have are not missed. */
const struct gpu_call_symbol *gpu_calls(size_t *ret_count);

/** The one of this name, or NULL. */
const struct gpu_call_symbol *gpu_calls_find(const char *symbol);
