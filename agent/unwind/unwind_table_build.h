// SPDX-License-Identifier: Apache-2.0
// Compiling a file's unwind table: from its call frame information, Go's function table and its instructions.
#pragma once

#include "agent/elf/elf.h"
#include "agent/unwind/unwind_table.h"
#include "base/error.h"

/**
 * Compile the file's .eh_frame, or .debug_frame where that is all there is. A file without either
 * gives a table of no blocks. At most @rows_max rows are held, 7 bytes each, and as many words.
 * Returns 0; -ENOEXEC (broken beyond use; @err says where); -E2BIG past that or a limit above; -ENOMEM;
 * -errno when reading fails.
 */
int unwind_table_build(const struct elf *elf, const struct unwind_mark *marks, uint32_t mark_count,
		       uint32_t rows_max, struct unwind_table **ret_table, struct error *err);
