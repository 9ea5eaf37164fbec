// SPDX-License-Identifier: Apache-2.0
// Functions that call a coroutine's first function on the stack of whoever resumed it first. Their callers' frames are
// another coroutine's: they may have been copied away, and what lies there says nothing of this one. So its stack ends here.
#pragma once

#include "agent/elf/elf.h"
#include "agent/unwind/unwind_rows.h"
#include "base/error.h"

/** Let stacks end in such functions of @elf. @rows are sorted, and stay so. Returns 0; -ENOMEM; -errno when reading fails. */
int coroutine_bases_end(const struct elf *elf, struct unwind_rows *rows, struct error *err);
