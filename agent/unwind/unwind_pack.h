// SPDX-License-Identifier: Apache-2.0
// Packs rows into the words of a table (bpf/unwind/table_layout.h).
#pragma once

#include "agent/unwind/unwind_rows.h"
#include "agent/unwind/unwind_table.h"

/**
 * Write the words of @table, whose first_address and block_count are set. @rows are sorted; ranges that start in the
 * table end in it. @marks are sorted and disjoint. Returns 0 with word_count and row_count; -ENOMEM; -E2BIG. The table
 * owns the words in any case.
 */
int unwind_pack(struct unwind_rows *rows, const struct unwind_mark *marks, uint32_t mark_count,
		struct unwind_table *table);
