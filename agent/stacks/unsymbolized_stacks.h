// SPDX-License-Identifier: Apache-2.0
// Stacks that came with a frame without a name: JIT code that its process may list a moment later, or
// Python code that could not be read. The BPF programs send a stack trace once only, so such a stack is
// evicted there when its names may have come: then it is captured and sent again. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/process/process_table.h"
#include "bpf/unwind/stack.h"

enum {
	UNSYMBOLIZED_STACKS_MAX = 4096, // past it the oldest is dropped: it stays without names
};

struct unsymbolized_stack {
	struct stack_hash hash;
	struct process_key process;
	uint64_t jit_version; // process_table_jit_version() when it came
	bool is_python;
};

/** A zeroed struct is valid and empty. */
struct unsymbolized_stacks {
	struct unsymbolized_stack *stacks; // a ring
	uint32_t first;
	uint32_t count;
};

void unsymbolized_stacks_deinit(struct unsymbolized_stacks *stacks);

/** A stack with JIT code that has no name. Out of memory it stays so. */
void unsymbolized_stacks_add_jit(struct unsymbolized_stacks *stacks,
				 struct process_table *processes, const struct stack_hash *hash,
				 const struct process_key *process);

/** A stack with Python code that could not be read. */
void unsymbolized_stacks_add_python(struct unsymbolized_stacks *stacks,
				    const struct stack_hash *hash,
				    const struct process_key *process);

/**
 * Once per export interval: call @evict for stacks with Python code, and for those whose process has listed
 * more JIT code since. Stacks of unknown processes are dropped.
 */
void unsymbolized_stacks_retry(struct unsymbolized_stacks *stacks, struct process_table *processes,
			       void (*evict)(void *context, const struct stack_hash *hash),
			       void *context);
