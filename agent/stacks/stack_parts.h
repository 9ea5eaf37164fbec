// SPDX-License-Identifier: Apache-2.0
// The kernel part and the user part of a captured stack, joined to one list of locations. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/stacks/frame_resolver.h"
#include "agent/stacks/stack_table.h"
#include "base/profile/profile.h"

/** How a BPF program identifies a stack: a leaf and the hash of its callers, for each part. */
struct stack_parts {
	uint64_t kernel_leaf;       // 0: none
	struct stack_hash kernel;   // {0, 0}: no kernel part
	struct raw_frame user_leaf; // tag 0: none
	struct stack_hash user;
	struct process *process; // of the user part
};

struct joined_stack {
	uint32_t locations[STACK_FRAMES_MAX]; // numbers of the location table, the leaf first
	uint32_t count;
	enum stack_end end;
	uint32_t lost_parts; // whose callers are not in the stack table; they end as STACK_END_LOST
};

static inline bool stack_hash_is_set(const struct stack_hash *hash)
{
	return hash->high || hash->low;
}

/** Kernel frames on top of user frames, with callers from @stacks as of @now_ns. Returns 0; -ENOMEM; -E2BIG past STACK_FRAMES_MAX. */
int stack_parts_join(const struct stack_parts *parts, const struct frame_resolver *resolver,
		     struct stack_table *stacks, uint64_t now_ns, struct joined_stack *ret_stack);
