// SPDX-License-Identifier: Apache-2.0
// Stacks through code that had no name when they came: a process may list its generated code a moment
// later, and Python code that could not be read may be readable. The kernel side sends a body once only, so it is asked to send these again then. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/process/process_table.h"
#include "bpf/unwind/stack.h"

enum {
	UNSYMBOLIZED_STACKS_MAX = 4096, // the oldest is given up: it stays without names
};

struct unsymbolized_stack {
	struct stack_hash hash;
	struct process_key process;
	uint64_t names_version; // process_table_jit_version() when it came
	bool is_unread;         // through Python code that could not be read
};

/** A zeroed struct is valid and empty. */
struct unsymbolized_stacks {
	struct unsymbolized_stack *stacks; // a ring
	uint32_t first;
	uint32_t count;
};

void unsymbolized_stacks_deinit(struct unsymbolized_stacks *unnamed);

/** A stack has come in which generated code has no name. Out of memory it stays so. */
void unsymbolized_stacks_add(struct unsymbolized_stacks *unnamed, struct process_table *processes,
			     const struct stack_hash *hash, const struct process_key *process);

/** A stack has come with Python code in it that could not be read: to be tried once more. */
void unsymbolized_stacks_add_unread(struct unsymbolized_stacks *unnamed,
				    const struct stack_hash *hash,
				    const struct process_key *process);

/**
 * To be called once a window: hands those with unread code to @forget, and those whose process has listed more since to @forget, as they
 * may have names now, and lets go of those whose process is no longer known.
 */
void unsymbolized_stacks_settle(struct unsymbolized_stacks *unnamed,
				struct process_table *processes,
				void (*forget)(void *context, const struct stack_hash *hash),
				void *context);
