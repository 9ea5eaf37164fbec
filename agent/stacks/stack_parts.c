// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/stack_parts.h"

#include <errno.h>

#include "bpf/unwind/stack_hash.h"

_Static_assert(STACK_DEPTH_MAX + KERNEL_DEPTH_MAX + 2 < STACK_FRAMES_MAX,
	       "leaf and callers of both parts fit");

static int add(struct joined_stack *stack, uint32_t location)
{
	if (location == HASH_TABLE_NONE)
		return -ENOMEM;
	if (stack->count == STACK_FRAMES_MAX)
		return -E2BIG;
	stack->locations[stack->count++] = location;
	return 0;
}

static int add_callers(struct joined_stack *joined, struct stack_table *stacks,
		       const struct stack_hash *hash, uint64_t now_ns, enum stack_end *ret_end)
{
	int rc = 0;

	if (stack_hash_is_not_sampled(hash)) {
		*ret_end = STACK_END_NOT_SAMPLED;
		return 0;
	}
	const struct known_stack *stack = stack_table_find(stacks, hash, now_ns);
	if (!stack) {
		joined->lost_parts++;
		*ret_end = STACK_END_LOST;
		return 0;
	}
	for (uint32_t i = 0; i < stack->count && !rc; i++)
		rc = add(joined, stack->locations[i]);
	*ret_end = stack->end;
	return rc;
}

int stack_parts_join(const struct stack_parts *parts, const struct frame_resolver *resolver,
		     struct stack_table *stacks, uint64_t now_ns, struct joined_stack *ret_stack)
{
	const struct raw_frame kernel_leaf = { .address = parts->kernel_leaf,
					       .tag = FRAME_TAG_KERNEL };
	enum stack_end kernel_end = STACK_END_COMPLETE, end = STACK_END_COMPLETE;
	int rc = 0;

	ret_stack->count = ret_stack->lost_parts = 0;
	if (stack_hash_is_set(&parts->kernel)) {
		if (parts->kernel_leaf)
			rc = add(ret_stack, frame_resolve_leaf(resolver, NULL, &kernel_leaf));
		if (!rc)
			rc = add_callers(ret_stack, stacks, &parts->kernel, now_ns, &kernel_end);
	}
	if (!rc && stack_hash_is_set(&parts->user)) {
		if (parts->user_leaf.tag)
			rc = add(ret_stack,
				 frame_resolve_leaf(resolver, parts->process, &parts->user_leaf));
		if (!rc)
			rc = add_callers(ret_stack, stacks, &parts->user, now_ns, &end);
	}
	// The end is the root's, in the user part. If that is whole, it shows a gap in the middle.
	ret_stack->end = end == STACK_END_COMPLETE ? kernel_end : end;
	return rc;
}
