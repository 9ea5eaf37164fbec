// SPDX-License-Identifier: Apache-2.0
// glibc's clone() and clone3() on aarch64: they return to their caller, and on the new thread's stack, where lr still has the
// caller's return address. glibc's call frame information describes both alike (sysdeps/unix/sysv/linux/aarch64/clone.S).
#pragma once

#include "agent/elf/elf.h"
#include "agent/unwind/unwind_rows.h"

/**
 * Mark the rules of the sorted @rows from such a system call on with RULE_CLONED: the new thread has no caller. The function
 * is known by its bytes, and by the one behind it, which it jumps to and which begins a thread. Failures stay in @rows->rc.
 */
void cloned_threads_mark(const struct elf *elf, struct unwind_rows *rows);
