// SPDX-License-Identifier: Apache-2.0
// Adds the rules of a few analyzed functions to a finished table: building a large library's table again takes seven
// times as long.
#pragma once

#include "base/error.h"
#include "agent/elf/elf.h"
#include "agent/unwind/unwind_table_build.h"

/**
 * A copy of @before with the rules of the functions in @marks, all MARK_ANALYZE. As unwind_table_build() with these
 * marks, except that functions analyzed before are not analyzed again. Returns as unwind_table_build(); -ERANGE if code
 * to analyze lies at the table's ends, or the rows have another shape: build the table then.
 */
int unwind_table_splice(const struct elf *elf, const struct unwind_table *before,
			const struct unwind_mark *marks, uint32_t mark_count,
			struct unwind_table **ret_table, struct error *err);
