// SPDX-License-Identifier: Apache-2.0
// Functions whose CFA is in rbx, which the unwinder knows in the leaf only: the dynamic linker's trampolines for lazy
// binding align the stack and keep the old sp there. Their callees have saved rbx, and unwind information says where.
#pragma once

#include "base/error.h"
#include "agent/elf/elf.h"
#include "agent/unwind/unwind_rows.h"

/**
 * Give calls in such functions of the sorted @rows rules that read rbx where the callee saved it. Before the callee has
 * saved it, in its first instructions, such a rule finds a wrong caller or none. Large files are skipped: reading them
 * twice costs more than these few functions are worth. Returns 0; -ENOMEM; else as cfi_read().
 */
int callee_saved_add(const struct elf *elf, struct unwind_rows *rows, struct error *err);
