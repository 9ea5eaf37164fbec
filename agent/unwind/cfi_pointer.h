// SPDX-License-Identifier: Apache-2.0
// Encoded addresses of .eh_frame: an encoding byte says how wide they are and what they are relative to (Linux Standard
// Base, "DWARF Exception Header Encoding").
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
	CFI_POINTER_TO_PC = 0x10,  // relative to the pointer's own address
	CFI_POINTER_TO_DATA = 0x30,
	CFI_POINTER_ALIGNED = 0x50,
	CFI_POINTER_BASE = 0x70, // mask of the base
	CFI_POINTER_INDIRECT = 0x80,
	CFI_POINTER_OMITTED = 0xff,
};

/**
 * Read a pointer at virtual address @address. @data_base: base of data-relative ones, or 0. Returns false if the
 * encoding is invalid or needs a running program; a truncated pointer marks the cursor.
 */
bool cfi_pointer_read(struct byte_cursor *cursor, uint8_t encoding, uint64_t address,
		      uint64_t data_base, uint64_t *ret_value);

/** Skip a pointer. As above, but its base does not matter. */
bool cfi_pointer_skip(struct byte_cursor *cursor, uint8_t encoding, uint64_t address);
