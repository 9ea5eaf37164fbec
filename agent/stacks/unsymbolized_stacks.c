// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/unsymbolized_stacks.h"

#include <stdlib.h>

static struct unsymbolized_stack *stack_at(const struct unsymbolized_stacks *unnamed, uint32_t at)
{
	return &unnamed->stacks[(unnamed->first + at) % UNSYMBOLIZED_STACKS_MAX];
}

void unsymbolized_stacks_deinit(struct unsymbolized_stacks *unnamed)
{
	free(unnamed->stacks);
	*unnamed = (struct unsymbolized_stacks){ 0 };
}

static void add(struct unsymbolized_stacks *unnamed, const struct unsymbolized_stack *stack)
{
	if (!unnamed->stacks)
		unnamed->stacks = calloc(UNSYMBOLIZED_STACKS_MAX, sizeof(*unnamed->stacks));
	if (!unnamed->stacks)
		return;
	if (unnamed->count == UNSYMBOLIZED_STACKS_MAX) {
		unnamed->first = (unnamed->first + 1) % UNSYMBOLIZED_STACKS_MAX;
		unnamed->count--;
	}
	*stack_at(unnamed, unnamed->count++) = *stack;
}

void unsymbolized_stacks_add(struct unsymbolized_stacks *unnamed, struct process_table *processes,
			     const struct stack_hash *hash, const struct process_key *process)
{
	const struct unsymbolized_stack stack = {
		.hash = *hash,
		.process = *process,
		.names_version = process_table_jit_version(processes, process),
	};

	add(unnamed, &stack);
}

void unsymbolized_stacks_add_unread(struct unsymbolized_stacks *unnamed,
				    const struct stack_hash *hash,
				    const struct process_key *process)
{
	const struct unsymbolized_stack stack = { .hash = *hash,
						  .process = *process,
						  .is_unread = true };

	add(unnamed, &stack);
}

void unsymbolized_stacks_settle(struct unsymbolized_stacks *unnamed,
				struct process_table *processes,
				void (*forget)(void *context, const struct stack_hash *hash),
				void *context)
{
	uint32_t kept = 0;

	for (uint32_t at = 0; at < unnamed->count; at++) {
		struct unsymbolized_stack stack = *stack_at(unnamed, at);

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
