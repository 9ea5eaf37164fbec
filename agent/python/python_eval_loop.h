// SPDX-License-Identifier: Apache-2.0
// Where in an executable CPython's interpreter loop is: the code whose frames on the native stack
// stand for Python frames. It may be in several pieces: a hot and a cold part, or (3.14) a function
// for each opcode. The file is hostile.
#pragma once

#include <stdint.h>

#include "agent/elf/elf.h"
#include "agent/unwind/unwind_table.h"

/**
 * The pieces of the loop: at most UNWIND_MARKS_MAX, sorted by start and not overlapping, with
 * RULE_PYTHON_EVAL. @marks has room for UNWIND_MARKS_MAX.
 * Returns 0 and their number, which is 0 for a file that is no interpreter; -ENOMEM; -errno when
 * reading fails.
 */
int python_eval_loop_marks(const struct elf *elf, struct unwind_mark *marks, uint32_t *ret_count);
