// SPDX-License-Identifier: Apache-2.0
// Rows packed to the words of a table (bpf/unwind/table_layout.h).
#pragma once

#include "agent/unwind/unwind_rows.h"
#include "agent/unwind/unwind_table.h"

/**
 * Write the words of @table, which says by first_address and block_count which code it is about; all
 * ranges of @rows that begin there end there. They are sorted. @marks are, too, and apart from each other.
 * Returns 0 and word_count and row_count; -ENOMEM; -E2BIG. The words are the table's in any case.
 */
int unwind_pack(struct unwind_rows *rows, const struct unwind_mark *marks, uint32_t mark_count,
		struct unwind_table *table);
