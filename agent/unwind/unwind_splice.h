// SPDX-License-Identifier: Apache-2.0
// A table with the rules of a few more functions, which are found by following their code: reading a
// large library's call frame information again for them takes seven times as long.
#pragma once

#include "base/error.h"
#include "agent/elf/elf.h"
#include "agent/unwind/unwind_table_build.h"

/**
 * Another table with what @before has, which is of the same file, and the rules of the functions in
 * @marks, which all say MARK_ANALYZE. As if it had been built with them, but that functions that were
 * followed before are not looked at again.
 * Returns as unwind_table_build(); -ERANGE if code to follow lies at the table's ends or beyond, or
 * rows are not as that writes them: then it is to be built.
 */
int unwind_table_splice(const struct elf *elf, const struct unwind_table *before,
			const struct unwind_mark *marks, uint32_t mark_count,
			struct unwind_table **ret_table, struct error *err);
