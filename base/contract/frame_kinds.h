/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// What kind of code a frame is. The BPF programs include this file, too.
#pragma once

/* Numbers are on the wire and in the store: append only. */
enum frame_kind {
	FRAME_KIND_UNKNOWN = 0,
	FRAME_KIND_NATIVE = 1,
	FRAME_KIND_KERNEL = 2,
	FRAME_KIND_PYTHON = 3,
	FRAME_KIND_JIT = 4,
	FRAME_KIND_COUNT,
};

/** "native", "kernel", "python", "jit"; "unknown" also of a number that this version does not know. */
const char *frame_kind_name(enum frame_kind kind);
