// SPDX-License-Identifier: Apache-2.0
#include "agent/avx512_size.h"

#include <stdbool.h>

// The length of an instruction whose ModRM byte is at @size, with @immediate bytes behind it; 0: cut short.
static uint32_t size_from_modrm(const uint8_t *code, size_t left, uint32_t size, uint32_t immediate)
{
	uint8_t mode = code[size] >> 6, memory = code[size] & 7;

	size++;
	if (mode != 3 && memory == 4) { // a SIB byte
		if (size >= left)
			return 0;
		immediate += mode == 0 && (code[size] & 7) == 5 ? 4 : 0;
		size++;
	}
	if (mode == 1)
		size += 1;
	else if (mode == 2 || (mode == 0 && memory == 5))
		size += 4;
	size += immediate;
	return size <= left ? size : 0;
}

/*
 * The length of an AVX-512 instruction; 0: it is none. (Intel SDM volume 2, 2.7: EVEX is four bytes; then
 * come opcode, ModRM, SIB, displacement and immediate.)
 */
static uint32_t evex_size(const uint8_t *code, size_t left)
{
	if (left < 7 || code[0] != 0x62)
		return 0;
	uint8_t map = code[1] & 7, opcode = code[4];
	// An immediate: all of map 0F3A; of 0F shifts, comparisons and shuffles.
	bool has_immediate =
		map == 3 || (map == 1 && ((opcode >= 0x70 && opcode <= 0x73) || opcode == 0xc2 ||
					  (opcode >= 0xc4 && opcode <= 0xc6)));

	return size_from_modrm(code, left, 5, has_immediate);
}

// Likewise of mask registers, by which AVX-512 chooses elements: their moves and arithmetic, by VEX.
static uint32_t mask_size(const uint8_t *code, size_t left)
{
	uint32_t at = code[0] == 0xc4 ? 3 : 2; // the opcode
	uint8_t map = code[0] == 0xc4 ? code[1] & 31 : 1, opcode;

	if (left < at + 2 || (code[0] != 0xc4 && code[0] != 0xc5))
		return 0;
	opcode = code[at];
	if (map == 3 && opcode >= 0x30 && opcode <= 0x33)
		return size_from_modrm(code, left, at + 1, 1);
	// KMOV to a general register, which may be sp or fp
	if (map == 1 && opcode == 0x93 && code[1] & 0x80 && (code[at + 1] >> 3 & 6) == 4)
		return 0;
	if (map == 1 && ((opcode >= 0x41 && opcode <= 0x4b) || (opcode >= 0x90 && opcode <= 0x93) ||
			 opcode == 0x98 || opcode == 0x99))
		return size_from_modrm(code, left, at + 1, 0);
	return 0;
}

uint32_t avx512_size(const uint8_t *code, size_t left)
{
	uint32_t size = evex_size(code, left);

	return size ? size : mask_size(code, left);
}
