// SPDX-License-Identifier: Apache-2.0
// Rules for code without call frame information that is known by its bytes: thread entries, PLT entries, returns from
// signal handlers.
#pragma once

#include "base/error.h"
#include "agent/elf/elf.h"
#include "agent/unwind/unwind_rows.h"

/**
 * Add ranges to the sorted @rows for such code that they do not cover, and end the stack at the program's entry. Returns
 * 0; -ENOMEM; -E2BIG; -errno.
 */
int unwind_synthesis_add(const struct elf *elf, struct unwind_rows *rows, struct error *err);
