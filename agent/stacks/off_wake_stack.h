// SPDX-License-Identifier: Apache-2.0
// Off-wake stacks, as bcc's offwaketime draws them: a blocked stack with its waker's stack on top. From the
// root: the blocked thread's functions down to its wait site, a waker frame, then the waker's functions
// upside down, from the one that woke the thread to the waker's first. One thread.
#pragma once

#include <stdint.h>

#include "agent/stacks/stack_parts.h"
#include "base/profile/profile.h"
#include "bpf/sample.h"

/**
 * Join the two stacks of @record, whose stack traces are in @stacks as of @now_ns. Too many frames: the
 * waker's first functions are left out. Call it while the processes live: their code is resolved now.
 * Returns 0; -ENOENT: a stack trace has not come; -ENOMEM.
 */
int off_wake_stack_join(const struct frame_resolver *resolver, struct stack_table *stacks,
			const struct wake_record *record, uint64_t now_ns,
			struct joined_stack *ret_stack);

/** The part of an off-wake stack of @profile below its waker frame. A stack without one comes back whole. */
struct stack off_wake_stack_blocked_part(const struct profile *profile, const struct stack *stack);
