// SPDX-License-Identifier: Apache-2.0
// Landing pads: some compilers put a function's first instruction, endbr64, before what its call frame information
// describes, as in each public function of MKL. A sample there has its caller on top of the stack.
#pragma once

#include "agent/elf/elf.h"
#include "agent/unwind/unwind_rows.h"

/** Add a range to the sorted @rows for each that they do not cover. A failure stays in rows->rc. */
void landing_pads_add(const struct elf *elf, struct unwind_rows *rows);
