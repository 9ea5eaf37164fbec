// SPDX-License-Identifier: Apache-2.0
// Rules of Go code from Go's own function table: stripped programs have it, too, and it knows where the runtime switches
// stacks.
#pragma once

#include "base/error.h"
#include "agent/elf/elf.h"
#include "agent/unwind/unwind_rows.h"

/**
 * Add a range for each Go function. Call it before cfi_read(): of ranges that start alike the first added wins. Returns
 * 0, also for other programs and broken tables, of which the valid part is used; -ENOMEM; -errno. Limits show in
 * @rows->rc.
 */
int unwind_go_add(const struct elf *elf, struct unwind_rows *rows, struct error *err);
