// SPDX-License-Identifier: Apache-2.0
// DWARF expressions in call frame information, in the shapes that compilers and linkers write: register plus offset,
// memory there, and the staircase of PLT entries. DWARF 5, section 2.5.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum cfi_value_kind {
	CFI_VALUE_UNSUPPORTED,
	CFI_VALUE_CONSTANT, // offset
	CFI_VALUE_CFA,      // CFA + offset
	CFI_VALUE_REGISTER, // base + offset
	CFI_VALUE_DEREF,    // *(base + offset) + deref_offset
	CFI_VALUE_PLT,      // sp + 8, and 8 more where pc % 16 >= offset
};

struct cfi_value {
	uint8_t kind; // enum cfi_value_kind
	uint8_t base; // register by its DWARF number
	int64_t offset;
	int64_t deref_offset;
};

/**
 * Evaluate an expression for @machine (EM_...), with or without the CFA on the stack at the start. Unknown shapes are
 * CFI_VALUE_UNSUPPORTED.
 */
struct cfi_value cfi_expression_evaluate(uint16_t machine, const uint8_t *bytes, size_t size,
					 int starts_with_cfa);
