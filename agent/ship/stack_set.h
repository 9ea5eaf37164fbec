// SPDX-License-Identifier: Apache-2.0
// A bounded set of ids: which definitions of stacks the collector has acknowledged. Forgetting is always
// safe, the definitions just travel once more; so a full set starts again from empty.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "base/id128.h"

/** A zeroed struct with a count_max is a valid empty set. One thread at a time. */
struct stack_set {
	struct hash_table index;
	struct id128 *ids;
	uint32_t count;
	uint32_t capacity;
	uint32_t count_max;
};

void stack_set_deinit(struct stack_set *set);
void stack_set_clear(struct stack_set *set);
/** What there is no memory for is not remembered. */
void stack_set_add(struct stack_set *set, struct id128 id);
bool stack_set_has(const struct stack_set *set, struct id128 id);
