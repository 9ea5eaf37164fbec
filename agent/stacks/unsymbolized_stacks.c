// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/unsymbolized_stacks.h"

#include <stdlib.h>

static struct unsymbolized_stack *stack_at(const struct unsymbolized_stacks *stacks, uint32_t at)
{
	return &stacks->stacks[(stacks->first + at) % UNSYMBOLIZED_STACKS_MAX];
}

void unsymbolized_stacks_deinit(struct unsymbolized_stacks *stacks)
{
	free(stacks->stacks);
	*stacks = (struct unsymbolized_stacks){ 0 };
}

static void add(struct unsymbolized_stacks *stacks, const struct unsymbolized_stack *stack)
{
	if (!stacks->stacks)
		stacks->stacks = calloc(UNSYMBOLIZED_STACKS_MAX, sizeof(*stacks->stacks));
	if (!stacks->stacks)
		return;
	if (stacks->count == UNSYMBOLIZED_STACKS_MAX) {
		stacks->first = (stacks->first + 1) % UNSYMBOLIZED_STACKS_MAX;
		stacks->count--;
	}
	*stack_at(stacks, stacks->count++) = *stack;
}

void unsymbolized_stacks_add_jit(struct unsymbolized_stacks *stacks,
				 struct process_table *processes, const struct stack_hash *hash,
				 const struct process_key *process)
{
	const struct unsymbolized_stack stack = {
		.hash = *hash,
		.process = *process,
		.jit_version = process_table_jit_version(processes, process),
	};

	add(stacks, &stack);
}

void unsymbolized_stacks_add_python(struct unsymbolized_stacks *stacks,
				    const struct stack_hash *hash,
				    const struct process_key *process)
{
	const struct unsymbolized_stack stack = { .hash = *hash,
						  .process = *process,
						  .is_python = true };

	add(stacks, &stack);
}

void unsymbolized_stacks_retry(struct unsymbolized_stacks *stacks, struct process_table *processes,
			       void (*evict)(void *context, const struct stack_hash *hash),
			       void *context)
{
	uint32_t kept = 0;

	for (uint32_t at = 0; at < stacks->count; at++) {
		struct unsymbolized_stack stack = *stack_at(stacks, at);

		if (stack.is_python) {
			evict(context, &stack.hash);
			continue;
		}
		uint64_t version = process_table_jit_version(processes, &stack.process);

		if (version == PROCESS_JIT_UNKNOWN)
			continue;
		if (version != stack.jit_version)
			evict(context, &stack.hash);
		else
			*stack_at(stacks, kept++) = stack;
	}
	stacks->count = kept;
}
