// SPDX-License-Identifier: Apache-2.0
// Unwind rows for code without call frame information, by following its instructions.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "elf_symbols.h"
#include "unwind_rows.h"

/**
 * Add ranges to @rows for the @size bytes of @code at virtual address @address, but not over those that
 * @rows has got from number @first_taken up to @taken_limit. Functions begin where @symbols say,
 * and where they call each other. Does nothing for another machine than x86-64, and for more code than
 * is worth it. Returns 0 or -ENOMEM.
 */
int code_flow_rows_add(const struct elf_symbols *symbols, uint64_t address, const uint8_t *code,
		       size_t size, uint32_t first_taken, uint32_t taken_limit,
		       struct unwind_rows *rows);
