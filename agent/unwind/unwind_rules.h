// SPDX-License-Identifier: Apache-2.0
// The rules shared by all unwind tables in the kernel, each stored once with a number while some table refers to it. One
// thread.
#pragma once

#include <stdint.h>

#include "bpf/unwind/table_layout.h"

struct unwind_rules;

/** @shared: UNWIND_RULES_MAX zeroed rules that BPF programs read. NULL: out of memory. */
struct unwind_rules *unwind_rules_new(struct unwind_rule *shared);
void unwind_rules_free(struct unwind_rules *rules);

/**
 * Add a reference to each of @count rules and return their numbers. A new rule is written before its number is
 * returned. Returns 0; -ENOSPC if too many are in use; -ENOMEM. On failure no reference is added.
 */
int unwind_rules_add(struct unwind_rules *rules, const struct unwind_rule *wanted, uint32_t count,
		     uint16_t *ret_numbers);

/** Drop the references, when no program reads the table any more. */
void unwind_rules_remove(struct unwind_rules *rules, const uint16_t *numbers, uint32_t count);

/** Distinct rules in use. */
uint32_t unwind_rules_count(const struct unwind_rules *rules);
