// SPDX-License-Identifier: Apache-2.0
// The stacks whose bodies arrived, by the kernel side's hash: the mirror of its map of known stacks.
// A stack leaves both sides when it was not used for long, or when the table fills up. One thread.
#pragma once

#include <stdint.h>

#include "base/clock.h"
#include "base/hash_table.h"
#include "base/profile.h"
#include "bpf/unwind/stack.h"

struct stack_table;

enum {
	STACKS_MAX = SENT_STACKS_MAX,
	STACKS_COMFORT = STACKS_MAX / 4 * 3, // more than this, and the least recently used go
};
#define STACK_IDLE_NS (10 * 60 * NS_PER_SECOND)

/** The callers of one stack, named by location numbers. */
struct known_stack {
	uint32_t *locations; // numbers of the location table, the leaf's caller first
	uint32_t count;
	enum stack_end end;
};

struct stack_table *stack_table_new(void);
void stack_table_free(struct stack_table *table);

/**
 * Remember a body; one that is there already is replaced. @locations are copied.
 * Returns 0; -ENOMEM; -ENOSPC at STACKS_MAX.
 */
int stack_table_add(struct stack_table *table, const struct stack_hash *hash,
		    const uint32_t *locations, uint32_t count, enum stack_end end, uint64_t now_ns);

/** The stack with @hash, or NULL. It counts as used @now_ns. Valid until the next add or expire. */
const struct known_stack *stack_table_find(struct stack_table *table, const struct stack_hash *hash,
					   uint64_t now_ns);

/**
 * Once a window, after its counts were looked up: let go of what is idle. @forget is called for a
 * stack when it is to leave the kernel side, which may have counted with it until then; the stack
 * itself goes one window later, unless its body comes again.
 */
void stack_table_expire(struct stack_table *table, uint64_t now_ns,
			void (*forget)(void *context, const struct stack_hash *hash),
			void *context);

/** Call @fn for each stack. */
void stack_table_each(const struct stack_table *table,
		      void (*fn)(void *context, const struct known_stack *stack), void *context);

uint32_t stack_table_count(const struct stack_table *table);
