// SPDX-License-Identifier: Apache-2.0
// Addresses as .eh_frame writes them: an encoding byte says how wide they are and what they are
// relative to (Linux Standard Base, "DWARF Exception Header Encoding").
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/byte_cursor.h"

enum {
	CFI_POINTER_ABSOLUTE = 0x00,
	CFI_POINTER_ULEB = 0x01,
	CFI_POINTER_U16 = 0x02,
	CFI_POINTER_U32 = 0x03,
	CFI_POINTER_U64 = 0x04,
	CFI_POINTER_SLEB = 0x09,
	CFI_POINTER_S16 = 0x0a,
	CFI_POINTER_S32 = 0x0b,
	CFI_POINTER_S64 = 0x0c,
	CFI_POINTER_FORMAT = 0x0f, // mask of the above
	CFI_POINTER_TO_PC = 0x10,  // relative to where the pointer itself lies
	CFI_POINTER_TO_DATA = 0x30,
	CFI_POINTER_ALIGNED = 0x50,
	CFI_POINTER_BASE = 0x70, // mask of what it is relative to
	CFI_POINTER_INDIRECT = 0x80,
	CFI_POINTER_OMITTED = 0xff,
};

/**
 * Read a pointer that lies at the virtual address @address. @data_base is what data-relative ones
 * are relative to, or 0 where these have no meaning. Returns false if the encoding needs what only a
 * running program has, or is none; a cut pointer leaves its mark on the cursor.
 */
bool cfi_pointer_read(struct byte_cursor *cursor, uint8_t encoding, uint64_t address,
		      uint64_t data_base, uint64_t *ret_value);

/** Pass over a pointer that is of no interest. The same, but what it is relative to does not matter. */
bool cfi_pointer_skip(struct byte_cursor *cursor, uint8_t encoding, uint64_t address);
