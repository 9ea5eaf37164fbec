// SPDX-License-Identifier: Apache-2.0
// The stack traces that arrived, by hash: the agent's mirror of the BPF programs' map of sent stacks. A
// stack is evicted from both when it is idle, or when the table fills up. One thread.
#pragma once

#include <stdint.h>

#include "base/clock.h"
#include "base/hash_table.h"
#include "base/profile/profile.h"
#include "bpf/unwind/stack.h"

struct stack_table;

enum {
	STACKS_MAX = SENT_STACKS_MAX,
	STACKS_KEPT = STACKS_MAX / 4 * 3, // past it the least recently used are evicted
};
#define STACK_IDLE_NS (10 * 60 * NS_PER_SECOND)

/** The callers of one stack. */
struct known_stack {
	uint32_t *locations; // numbers of the location table, the leaf's caller first
	uint32_t count;
	enum stack_end end;
};

struct stack_table *stack_table_new(void);
void stack_table_free(struct stack_table *table);

/**
 * Add a stack, or replace it. @locations are copied. Returns 0; -ENOMEM; -ENOSPC at STACKS_MAX.
 */
int stack_table_add(struct stack_table *table, const struct stack_hash *hash,
		    const uint32_t *locations, uint32_t count, enum stack_end end, uint64_t now_ns);

/** The stack with @hash, or NULL. It counts as used @now_ns. Valid until the next add or expire. */
const struct known_stack *stack_table_find(struct stack_table *table, const struct stack_hash *hash,
					   uint64_t now_ns);

/**
 * Once per export interval, after its counts were looked up: evict idle stacks. @evict removes a stack from
 * the BPF programs' map, which may have counted with it until then. So the stack itself goes one interval
 * later, unless its stack trace comes again.
 */
void stack_table_expire(struct stack_table *table, uint64_t now_ns,
			void (*evict)(void *context, const struct stack_hash *hash), void *context);

void stack_table_each(const struct stack_table *table,
		      void (*fn)(void *context, const struct known_stack *stack), void *context);

uint32_t stack_table_count(const struct stack_table *table);
