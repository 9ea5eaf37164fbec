// SPDX-License-Identifier: Apache-2.0
// Builds a file's unwind table from call frame information, Go's function table and code analysis. Files are hostile.
#pragma once

#include "agent/elf/elf.h"
#include "agent/unwind/unwind_table.h"
#include "base/error.h"

/**
 * Build the table. A file without unwind information gives a table of no blocks. Holds at most @rows_max rows, 7 bytes
 * each, and as many words. Returns 0; -ENOEXEC if the file is broken (@err says where); -E2BIG past that or a limit of
 * unwind_table.h; -ENOMEM; -errno.
 */
int unwind_table_build(const struct elf *elf, const struct unwind_mark *marks, uint32_t mark_count,
		       uint32_t rows_max, struct unwind_table **ret_table, struct error *err);
