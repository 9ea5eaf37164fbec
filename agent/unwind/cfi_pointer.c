// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/cfi_pointer.h"

static bool read_number(struct byte_cursor *cursor, uint8_t encoding, uint64_t *ret_value)
{
	switch (encoding & CFI_POINTER_FORMAT) {
	case CFI_POINTER_ABSOLUTE:
	case CFI_POINTER_U64:
	case CFI_POINTER_S64:
		*ret_value = byte_cursor_number(cursor, 8);
		return true;
	case CFI_POINTER_ULEB:
		*ret_value = byte_cursor_uleb(cursor);
		return true;
	case CFI_POINTER_SLEB:
		*ret_value = (uint64_t)byte_cursor_sleb(cursor);
		return true;
	case CFI_POINTER_U16:
		*ret_value = byte_cursor_number(cursor, 2);
		return true;
	case CFI_POINTER_S16:
		*ret_value = (uint64_t)byte_cursor_signed(cursor, 2);
		return true;
	case CFI_POINTER_U32:
		*ret_value = byte_cursor_number(cursor, 4);
		return true;
	case CFI_POINTER_S32:
		*ret_value = (uint64_t)byte_cursor_signed(cursor, 4);
		return true;
	}
	return false;
}

bool cfi_pointer_read(struct byte_cursor *cursor, uint8_t encoding, uint64_t address,
		      uint64_t data_base, uint64_t *ret_value)
{
	uint64_t base = 0;

	switch (encoding & (CFI_POINTER_BASE | CFI_POINTER_INDIRECT)) {
	case 0:
		break;
	case CFI_POINTER_TO_PC:
		base = address;
		break;
	case CFI_POINTER_TO_DATA:
		if (!data_base)
			return false;
		base = data_base;
		break;
	default:
		return false;
	}
	if (!read_number(cursor, encoding, ret_value))
		return false;
	*ret_value += base;
	return true;
}

bool cfi_pointer_skip(struct byte_cursor *cursor, uint8_t encoding, uint64_t address)
{
	uint64_t ignored;

	if (encoding == CFI_POINTER_OMITTED)
		return true;
	if ((encoding & CFI_POINTER_BASE) == CFI_POINTER_ALIGNED)
		byte_cursor_take(cursor, -address & 7);
	return read_number(cursor, encoding, &ignored);
}
