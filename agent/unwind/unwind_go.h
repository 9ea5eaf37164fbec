// SPDX-License-Identifier: Apache-2.0
// Rules for Go code from Go's own table, which is there in stripped programs, too, and knows where
// the runtime switches stacks.
#pragma once

#include "base/error.h"
#include "agent/elf/elf.h"
#include "agent/unwind/unwind_rows.h"

/**
 * Add a range for each Go function. Of ranges that begin alike the first added counts: this comes
 * before the call frame information. Returns 0, also for what is no Go program or has a broken
 * table (what was read is kept); -ENOMEM; -errno when reading fails. Limits are left in @rows' rc.
 */
int unwind_go_add(const struct elf *elf, struct unwind_rows *rows, struct error *err);
