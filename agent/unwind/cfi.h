// SPDX-License-Identifier: Apache-2.0
// Call frame information of an ELF file: the functions of .eh_frame and .debug_frame, and the rules of their programs.
// Linux Standard Base, "Exception Frames"; DWARF 5, section 6.4.1.
#pragma once

#include "base/error.h"
#include "agent/elf/elf.h"
#include "agent/unwind/unwind_rows.h"

/**
 * Add the rows of .eh_frame, then those of .debug_frame, to @rows. Code outside of executable segments is ignored. A
 * truncated section is read as far as it is valid; that and unknown entries count as unsupported.
 * Returns 0, also without either section; -ENOEXEC if headers are broken; -E2BIG past a limit; -ENOMEM; -errno.
 */
int cfi_read(const struct elf *elf, struct unwind_rows *rows, struct error *err);

/**
 * The same for the functions of .eh_frame that start at the sorted @addresses, with register @number in the place of
 * the frame pointer.
 */
int cfi_read_functions(const struct elf *elf, const uint64_t *addresses, uint32_t count,
		       uint8_t number, struct unwind_rows *rows, struct error *err);
