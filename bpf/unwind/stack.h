/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Stack traces, as BPF programs and agent exchange them.
#pragma once

#include <linux/types.h>

#include "base/contract/frame_kinds.h"
#include "base/contract/stack_ends.h"

/*
 * Frames of a stack, leaf included. 512 takes 8 KiB of per-CPU memory and covers Python over C++ recursion.
 */
#define STACK_DEPTH_MAX  512
#define KERNEL_DEPTH_MAX 127 // default of kernel.perf_event_max_stack

/* Stacks that both sides keep at a time. */
#define SENT_STACKS_MAX 65536

enum frame_tag {
	FRAME_TAG_NATIVE = FRAME_KIND_NATIVE, // address; of a caller: the call's last byte
	FRAME_TAG_KERNEL = FRAME_KIND_KERNEL, // address: kernel text
	FRAME_TAG_PYTHON = FRAME_KIND_PYTHON, // address: code object; detail: PYTHON_DETAIL()
	FRAME_TAG_JIT = FRAME_KIND_JIT,       // as native, in JIT code
	FRAME_TAG_GPU = FRAME_KIND_COUNT, // address: hash of its name; if detail is 1, its handle
};

struct raw_frame {
	__u64 address;
	__u32 tag;    // enum frame_tag
	__u32 detail; // by tag; 0 for native and kernel
};

/* Identifies a process, safe against pid reuse and exec. */
struct process_key {
	__u32 pid;      // the kernel's tgid, in the root pid namespace
	__u32 exec_id;  // low 32 bits of the leader's self_exec_id
	__u64 start_ns; // the leader's start_boottime
};

struct stack_hash {
	__u64 high;
	__u64 low; // {0, 0}: no stack
};

/*
 * The callers of a stack, sent when their hash is new. frames[0] is the leaf's caller. The leaf is part of the
 * count's key instead: a hot loop with many leaf addresses has one stack trace.
 */
struct stack_trace {
	struct stack_hash hash;
	struct process_key process; // zero for kernel stacks
	__u32 end;                  // enum stack_end
	__u32 frame_count;
	struct raw_frame frames[]; // frame_count of them
};

_Static_assert(STACK_DEPTH_MAX >= 256, "whole stacks of deep programs");
_Static_assert(sizeof(struct raw_frame) == 16, "one block of the stack's hash");
_Static_assert(sizeof(struct process_key) == 16, "no padding: it is a part of a map's key");
_Static_assert(sizeof(struct stack_trace) == 40, "header of a ring record");
