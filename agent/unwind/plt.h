// SPDX-License-Identifier: Apache-2.0
// Procedure linkage tables: linkers write them, some without call frame information. Each linker's
// first two entries are known by their bytes, and say how all of the section unwinds.
#pragma once

#include "base/error.h"
#include "agent/elf/elf.h"
#include "agent/unwind/unwind_rows.h"

/**
 * Add a range for each PLT section that the sorted @rows do not reach into and whose shape is known.
 * Returns 0; -ENOMEM; -errno when reading fails.
 */
int plt_add(const struct elf *elf, struct unwind_rows *rows, struct error *err);
