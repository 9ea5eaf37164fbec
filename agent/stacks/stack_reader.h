// SPDX-License-Identifier: Apache-2.0
// Stacks as they arrive: each frame of a body is found its location while its process lives, and what
// the unwinder was missing there is asked for. One thread.
#pragma once

#include <stdint.h>

#include "agent/stacks/frame_resolver.h"
#include "agent/publish/process_unwind.h"
#include "agent/stacks/stack_table.h"
#include "agent/stacks/unsymbolized_stacks.h"
#include "agent/stacks/off_wake_stack.h"
#include "bpf/sample.h"

/** The profiler's, which outlive it. */
struct stack_reader {
	struct frame_resolver frames;
	struct executable_table *executables;
	struct stack_table *stacks;
	struct process_unwinds *unwinds;         // NULL: nothing is asked for
	struct unsymbolized_stacks unsymbolized; // its own: unsymbolized_stacks_deinit() it
	uint32_t locations[STACK_DEPTH_MAX];     // of the body in work
	struct off_wake_stack_frames joined;     // likewise, of two stacks
};

/**
 * Put a body into the table of stacks. Returns 0; -ENOMEM; -ENOSPC at STACKS_MAX: then the kernel
 * side is to forget it, and sends it again when it is seen again.
 */
int stack_reader_take(struct stack_reader *reader, const struct stack_record *record);

/** Likewise a stack of two whose bodies came before it; -ENOENT: one of them has not. */
int stack_reader_take_wake(struct stack_reader *reader, const struct wake_record *record);
