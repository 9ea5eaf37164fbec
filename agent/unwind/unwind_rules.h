// SPDX-License-Identifier: Apache-2.0
// The rules that all unwind tables in the kernel share: each once, under a number, for as long as
// any table refers to it. One thread.
#pragma once

#include <stdint.h>

#include "bpf/unwind/table_layout.h"

struct unwind_rules;

/** @shared are UNWIND_RULES_MAX rules that programs read, all zero. NULL when out of memory. */
struct unwind_rules *unwind_rules_new(struct unwind_rule *shared);
void unwind_rules_free(struct unwind_rules *rules);

/**
 * The numbers of @count rules, each of which is then referred to once more. A rule is written before
 * its number is returned. Returns 0; -ENOSPC if too many are taken; -ENOMEM. On failure nothing is
 * referred to.
 */
int unwind_rules_add(struct unwind_rules *rules, const struct unwind_rule *wanted, uint32_t count,
		     uint16_t *ret_numbers);

/** Undo one unwind_rules_add(), once no program reads a table that refers to them. */
void unwind_rules_remove(struct unwind_rules *rules, const uint16_t *numbers, uint32_t count);

/** Distinct rules now. */
uint32_t unwind_rules_count(const struct unwind_rules *rules);
