// SPDX-License-Identifier: Apache-2.0
// The table of probed functions of the CUDA driver, NCCL and the CUPTI helper. Each symbol has a row with
// the cookie that its BPF programs get; each variant of a function (_v2, _ptsz) has its own address and so
// its own row. Prototypes: CUDA driver API reference 12.x and 13.x, nccl.h.
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
	GPU_TIER_RARE,     // always: called rarely
	GPU_TIER_WAITS,    // always: the call blocks anyway
	GPU_TIER_LAUNCHES, // duty-cycled: up to 100,000 calls a second
};

struct gpu_call_symbol {
	const char *symbol;
	enum gpu_library library;
	enum gpu_tier tier;
	uint64_t cookie; // of its probes: GPU_COOKIE() or NCCL_COOKIE()
	bool wants_exit; // probed at its return as well
};

/** Descriptors of BPF programs by kind of call; kinds share programs. -1: none. Not owned. */
struct gpu_call_programs {
	int entry_fds[GPU_CALL_COUNT];
	int return_fds[GPU_CALL_COUNT];
};

/** All rows. No library has all of these functions. */
const struct gpu_call_symbol *gpu_calls(size_t *ret_count);

/** The row of this symbol, or NULL. */
const struct gpu_call_symbol *gpu_calls_find(const char *symbol);
