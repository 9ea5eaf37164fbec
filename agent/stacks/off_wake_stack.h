// SPDX-License-Identifier: Apache-2.0
// A blocked stack with its waker's on top: from the thread's first function to where it was blocked,
// then a frame that says who woke it, then the waker's functions from the one that woke up to the
// waker's first. So the two meet in the middle. One thread.
#pragma once

#include <stdint.h>

#include "agent/stacks/frame_resolver.h"
#include "agent/stacks/stack_table.h"
#include "base/profile.h"
#include "bpf/sample.h"

/** The locations of both, the leaf first: that is the waker's first function. */
struct off_wake_stack_frames {
	uint32_t locations[STACK_FRAMES_MAX];
	uint32_t count;
	enum stack_end end; // of the blocked part: that is where the root is
};

/**
 * Join the two stacks of @record, whose bodies are in @stacks as of @now_ns. What does not fit is left
 * out at the waker's first functions. Call it while the processes live. Returns 0; -ENOENT: a body
 * is not there; -ENOMEM.
 */
int off_wake_stack_join(const struct frame_resolver *locator, struct stack_table *stacks,
			const struct wake_record *record, uint64_t now_ns,
			struct off_wake_stack_frames *ret_frames);

/**
 * The blocked part of a stack of @profile that was joined: all that lies below the frame that says who
 * woke it. A stack without one is returned as it is.
 */
struct stack off_wake_stack_blocked_part(const struct profile *profile, const struct stack *stack);
