// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/analysis/vector_size.h"

#include <stdbool.h>

/*
 * Intel SDM volume 2, 2.3 (VEX: two or three bytes) and 2.7 (EVEX: four): after the prefix come opcode, ModRM, SIB,
 * displacement and immediate, as usual.
 */
struct encoding {
	uint32_t prefix_bytes;
	uint8_t map;   // opcode map: 1 is 0F, 2 is 0F38, 3 is 0F3A; 5 and 6 are FP16's
	bool high_reg; // ModRM.reg is one of r8 to r15
};

// Returns false without such a prefix. Opcode and ModRM are present.
static bool read_prefix(const uint8_t *code, size_t left, struct encoding *ret_encoding)
{
	if (left < 2)
		return false;
	*ret_encoding = (struct encoding){ .high_reg = !(code[1] & 0x80) };
	switch (code[0]) {
	case 0xc5:
		ret_encoding->prefix_bytes = 2;
		ret_encoding->map = 1;
		break;
	case 0xc4:
		ret_encoding->prefix_bytes = 3;
		ret_encoding->map = code[1] & 31;
		break;
	case 0x62:
		ret_encoding->prefix_bytes = 4;
		ret_encoding->map = code[1] & 7;
		break;
	default:
		return false;
	}
	return left >= ret_encoding->prefix_bytes + 2;
}

// An immediate: all of map 0F3A; of 0F shifts, comparisons and shuffles.
static uint32_t immediate_bytes(uint8_t map, uint8_t opcode)
{
	return map == 3 || (map == 1 && ((opcode >= 0x70 && opcode <= 0x73) || opcode == 0xc2 ||
					 (opcode >= 0xc4 && opcode <= 0xc6)));
}

static bool is_between(uint8_t opcode, uint8_t first, uint8_t last)
{
	return opcode >= first && opcode <= last;
}

// Does it write to the general register of ModRM.reg? Conversions, MOVMSK, PEXTRW, KMOV.
static bool writes_reg(uint8_t map, uint8_t opcode)
{
	if (map == 5)
		return opcode == 0x2c || opcode == 0x2d || opcode == 0x6c || opcode == 0x6d ||
		       opcode == 0x78 || opcode == 0x79;
	return map == 1 && (opcode == 0x2c || opcode == 0x2d || opcode == 0x50 || opcode == 0x78 ||
			    opcode == 0x79 || opcode == 0x93 || opcode == 0xc5 || opcode == 0xd7);
}

// To that of ModRM.rm, if it is no memory? MOVD, PEXTR, EXTRACTPS.
static bool writes_rm(uint8_t map, uint8_t opcode)
{
	return ((map == 1 || map == 5) && opcode == 0x7e) ||
	       (map == 3 && is_between(opcode, 0x14, 0x17));
}

// sp is register 4, fp 5.
static bool is_stack_register(uint8_t number)
{
	return (number & 6) == 4;
}

static bool may_write_stack_register(const struct encoding *encoding, uint8_t opcode, uint8_t modrm)
{
	uint8_t map = encoding->map;

	if (writes_reg(map, opcode) && !encoding->high_reg && is_stack_register(modrm >> 3 & 7))
		return true;
	return writes_rm(map, opcode) && modrm >> 6 == 3 && is_stack_register(modrm & 7);
}

// Length of an instruction whose ModRM byte is at @size, with @immediate bytes after it; 0: truncated.
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

uint32_t vector_size(const uint8_t *code, size_t left)
{
	struct encoding encoding;

	if (!read_prefix(code, left, &encoding))
		return 0;
	uint8_t map = encoding.map, opcode = code[encoding.prefix_bytes];
	if (map == 0 || map == 4 || map > 6)
		return 0; // none, or general instructions (APX)
	if (map == 1 && opcode == 0x77)
		return encoding.prefix_bytes + 1; // VZEROUPPER has no ModRM
	if ((map == 2 && opcode >= 0xe0) || (map == 3 && opcode >= 0xf0))
		return 0; // general registers: CMPccXADD, BMI, RORX
	uint8_t modrm = code[encoding.prefix_bytes + 1];
	if (may_write_stack_register(&encoding, opcode, modrm))
		return 0;
	return size_from_modrm(code, left, encoding.prefix_bytes + 1, immediate_bytes(map, opcode));
}
