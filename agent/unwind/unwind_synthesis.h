// SPDX-License-Identifier: Apache-2.0
// Rules for code that no call frame information describes, but whose shape is known: where threads
// begin, entries of a PLT, returns from signal handlers. Only code that looks as expected, byte for
// byte, gets a rule.
#pragma once

#include "base/error.h"
#include "agent/elf/elf.h"
#include "agent/unwind/unwind_rows.h"

/**
 * Add ranges to the sorted @rows for code that they do not cover, and make the program's entry the
 * end of the stack. Returns 0; -ENOMEM; -E2BIG; -errno when reading fails.
 */
int unwind_synthesis_add(const struct elf *elf, struct unwind_rows *rows, struct error *err);
