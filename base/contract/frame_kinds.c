// SPDX-License-Identifier: Apache-2.0
#include "base/contract/frame_kinds.h"

static const char *const names[FRAME_KIND_COUNT] = {
	[FRAME_KIND_UNKNOWN] = "unknown", [FRAME_KIND_NATIVE] = "native",
	[FRAME_KIND_KERNEL] = "kernel",   [FRAME_KIND_PYTHON] = "python",
	[FRAME_KIND_JIT] = "jit",
};

const char *frame_kind_name(enum frame_kind kind)
{
	return (unsigned int)kind < FRAME_KIND_COUNT ? names[kind] : names[FRAME_KIND_UNKNOWN];
}
