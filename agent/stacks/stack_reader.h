// SPDX-License-Identifier: Apache-2.0
// Stack traces as they arrive from the BPF programs: each frame gets its location while its process
// lives, and what the unwinder lacked (a table, rules for a function) is requested. One thread.
#pragma once

#include <stdint.h>

#include "agent/stacks/frame_resolver.h"
#include "agent/publish/process_unwind.h"
#include "agent/stacks/off_wake_stack.h"
#include "agent/stacks/stack_table.h"
#include "agent/stacks/unsymbolized_stacks.h"
#include "bpf/sample.h"

/** What it uses is the caller's and outlives it. */
struct stack_reader {
	struct frame_resolver frames;
	struct executable_table *executables;
	struct stack_table *stacks;
	struct process_unwinds *unwinds;         // NULL: the unwinder gets nothing new
	struct unsymbolized_stacks unsymbolized; // its own: unsymbolized_stacks_deinit() it
	uint32_t locations[STACK_DEPTH_MAX];     // of the stack trace being read
	struct joined_stack joined;              // the off-wake stack being joined
};

/**
 * Add a stack trace to the stack table. Returns 0; -ENOMEM; -ENOSPC at STACKS_MAX: evict it from the kernel
 * programs' map then, so that they send it again when it is captured again.
 */
int stack_reader_add(struct stack_reader *reader, const struct stack_record *record);

/** The same for an off-wake stack. -ENOENT: one of its stack traces has not come. */
int stack_reader_add_off_wake(struct stack_reader *reader, const struct wake_record *record);
