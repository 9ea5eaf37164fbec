// SPDX-License-Identifier: Apache-2.0
// Functions whose CFA hangs on rbx, which is followed no further than the leaf: the dynamic linker's
// trampolines for lazy binding align the stack and keep its former place there. Those whom they call have
// saved it at a place that their own unwind information tells: while one of them runs, it is found there.
#pragma once

#include "base/error.h"
#include "agent/elf/elf.h"
#include "agent/unwind/unwind_rows.h"

/**
 * Give the calls in such functions, of the sorted @rows, rules that read rbx where the callee has saved it.
 * In a callee's first instructions, before it has done so, that leads to a wrong or to no caller. Large files
 * are left alone: reading them again takes longer than the few such functions of theirs are worth.
 * Returns 0; -ENOMEM; otherwise as cfi_read().
 */
int callee_saved_add(const struct elf *elf, struct unwind_rows *rows, struct error *err);
