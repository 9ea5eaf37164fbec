// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/unnamed_stacks.h"

#include <stdlib.h>

static struct unnamed_stack *stack_at(const struct unnamed_stacks *unnamed, uint32_t at)
{
	return &unnamed->stacks[(unnamed->first + at) % UNNAMED_STACKS_MAX];
}

void unnamed_stacks_deinit(struct unnamed_stacks *unnamed)
{
	free(unnamed->stacks);
	*unnamed = (struct unnamed_stacks){ 0 };
}

static void add(struct unnamed_stacks *unnamed, const struct unnamed_stack *stack)
{
	if (!unnamed->stacks)
		unnamed->stacks = calloc(UNNAMED_STACKS_MAX, sizeof(*unnamed->stacks));
	if (!unnamed->stacks)
		return;
	if (unnamed->count == UNNAMED_STACKS_MAX) {
		unnamed->first = (unnamed->first + 1) % UNNAMED_STACKS_MAX;
		unnamed->count--;
	}
	*stack_at(unnamed, unnamed->count++) = *stack;
}

void unnamed_stacks_add(struct unnamed_stacks *unnamed, struct process_table *processes,
			const struct stack_hash *hash, const struct process_key *process)
{
	const struct unnamed_stack stack = {
		.hash = *hash,
		.process = *process,
		.names_version = process_table_jit_version(processes, process),
	};

	add(unnamed, &stack);
}

void unnamed_stacks_add_unread(struct unnamed_stacks *unnamed, const struct stack_hash *hash,
			       const struct process_key *process)
{
	const struct unnamed_stack stack = { .hash = *hash,
					     .process = *process,
					     .is_unread = true };

	add(unnamed, &stack);
}

void unnamed_stacks_settle(struct unnamed_stacks *unnamed, struct process_table *processes,
			   void (*forget)(void *context, const struct stack_hash *hash),
			   void *context)
{
	uint32_t kept = 0;

	for (uint32_t at = 0; at < unnamed->count; at++) {
		struct unnamed_stack stack = *stack_at(unnamed, at);

		if (stack.is_unread) {
			forget(context, &stack.hash);
			continue;
		}
		uint64_t version = process_table_jit_version(processes, &stack.process);

		if (version == PROCESS_JIT_UNKNOWN)
			continue;
		if (version != stack.names_version)
			forget(context, &stack.hash);
		else
			*stack_at(unnamed, kept++) = stack;
	}
	unnamed->count = kept;
}
