// SPDX-License-Identifier: Apache-2.0
// Call frame information of an ELF file: which functions .eh_frame and .debug_frame describe, and the
// rules that their programs come to. Linux Standard Base, "Exception Frames"; DWARF 5, section 6.4.1.
#pragma once

#include "base/error.h"
#include "agent/elf/elf.h"
#include "agent/unwind/unwind_rows.h"

/**
 * Add to @rows what the file says about its code: all of .eh_frame, then what .debug_frame says. Only
 * code in executable segments counts. Sections that break off are read as far as they are sound;
 * that, and entries of unknown kinds, is counted as unsupported.
 * Returns 0, also without either section; -ENOEXEC if the file cannot be read as its headers say;
 * -E2BIG past a limit; -ENOMEM; -errno when reading fails.
 */
int cfi_read(const struct elf *elf, struct unwind_rows *rows, struct error *err);

/**
 * Add to @rows what .eh_frame says about the functions that begin at one of the sorted @addresses, with the
 * register @number in the place of the frame pointer. Returns as cfi_read().
 */
int cfi_read_functions(const struct elf *elf, const uint64_t *addresses, uint32_t count,
		       uint8_t number, struct unwind_rows *rows, struct error *err);
