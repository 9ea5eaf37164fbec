// SPDX-License-Identifier: Apache-2.0
// The stack definitions that the collector has acknowledged, within a limit. A full set is emptied: then
// definitions are sent once more.
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
/** Without memory, the id is not added. */
void stack_set_add(struct stack_set *set, struct id128 id);
bool stack_set_has(const struct stack_set *set, struct id128 id);
