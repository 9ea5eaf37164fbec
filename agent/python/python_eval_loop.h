// SPDX-License-Identifier: Apache-2.0
// CPython's interpreter loop in an executable: the code whose native frames stand for Python frames. It may have
// several pieces: hot and cold parts, or (3.14) a function per opcode. The file is hostile.
#pragma once

#include <stdint.h>

#include "agent/elf/elf.h"
#include "agent/unwind/unwind_table.h"

/**
 * The pieces of the loop, sorted, without overlaps, with RULE_PYTHON_EVAL. @marks has room for UNWIND_MARKS_MAX.
 * Returns 0, with *ret_count 0 for a file that is no interpreter; -ENOMEM; -errno when reading fails.
 */
int python_eval_loop_marks(const struct elf *elf, struct unwind_mark *marks, uint32_t *ret_count);
