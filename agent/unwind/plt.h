// SPDX-License-Identifier: Apache-2.0
// Procedure linkage tables: some linkers write them without call frame information. The bytes of the first two entries
// identify the linker's shape, which says how all of the section unwinds.
#pragma once

#include "base/error.h"
#include "agent/elf/elf.h"
#include "agent/unwind/unwind_rows.h"

/**
 * Add a range for each PLT section of a known shape that the sorted @rows do not cover. Returns 0; -ENOMEM; -errno.
 */
int plt_add(const struct elf *elf, struct unwind_rows *rows, struct error *err);
