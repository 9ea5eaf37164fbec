// SPDX-License-Identifier: Apache-2.0
#include "agent/python/python_frame_linkage.h"

#include <stdbool.h>
#include <string.h>

enum {
	STATE_FRAME = 0x18,       // PyThreadState.frame, 3.6 to 3.9
	PROLOGUE_BYTES_MAX = 256, // until the frame is linked; compilers need some 70
	RETURN_BYTES_MAX = 48,    // of an epilogue
	REGISTER_SP = 4,
	REX = 0x40,
	REX_W = 8,
	REX_B = 1,
	CALL_BYTES = 5,
};

/* An instruction "mov %value,0x18(%base)". */
struct store {
	uint8_t base;
	uint8_t size; // of the instruction
};

/* Intel SDM, volume 2: REX.W 89 /r with a displacement of 8 bits; r12 as base takes a SIB byte. */
static bool read_store(const uint8_t *code, size_t left, struct store *ret_store)
{
	uint8_t modrm, base;
	bool has_sib;

	if (left < 5 || (code[0] & 0xf0) != REX || !(code[0] & REX_W) || code[1] != 0x89)
		return false;
	modrm = code[2];
	has_sib = (modrm & 7) == REGISTER_SP;
	base = (modrm & 7) | (code[0] & REX_B ? 8 : 0);
	if (modrm >> 6 != 1 || base == REGISTER_SP || (has_sib && code[3] != 0x24) ||
	    code[has_sib ? 4 : 3] != STATE_FRAME)
		return false;
	*ret_store = (struct store){ .base = base, .size = has_sib ? 5 : 4 };
	return true;
}

/* Is an epilogue at @at: stack pointer moved back, registers popped? Returns its end, or 0. */
static size_t find_return(const uint8_t *code, size_t size, size_t at)
{
	size_t limit = at + RETURN_BYTES_MAX < size ? at + RETURN_BYTES_MAX : size;

	if (at + 4 <= limit && code[at] == 0x48 && code[at + 1] == 0x83 && code[at + 2] == 0xc4)
		at += 4; // add $imm8,%rsp
	else if (at + 7 <= limit && code[at] == 0x48 && code[at + 1] == 0x81 &&
		 code[at + 2] == 0xc4)
		at += 7; // add $imm32,%rsp
	for (; at < limit; at++) {
		if (code[at] == 0xc3)
			return at + 1;
		if (code[at] != 0x41 && code[at] != 0xc9 && (code[at] & 0xf8) != 0x58)
			return 0; // neither pop nor leave
	}
	return 0;
}

/* The target of a jump at @at; @at without one, or if it leaves the function. */
static size_t follow_jump(const uint8_t *code, size_t size, size_t at, size_t *ret_jump_size)
{
	int64_t target = (int64_t)at;
	int32_t distance;

	*ret_jump_size = 0;
	if (at + 2 <= size && code[at] == 0xeb) {
		*ret_jump_size = 2;
		target += 2 + (int8_t)code[at + 1];
	} else if (at + 5 <= size && code[at] == 0xe9) {
		memcpy(&distance, &code[at + 1], sizeof(distance));
		*ret_jump_size = 5;
		target += 5 + (int64_t)distance;
	}
	return target >= 0 && (uint64_t)target < size ? (size_t)target : at;
}

/*
 * Does the store that ends at @at unlink the frame? Then a call that checks the result and the return follow. Adds
 * the ranges of these.
 */
static uint32_t find_tail(const uint8_t *code, size_t size, size_t at, uint64_t start,
			  struct python_unlinked *ranges)
{
	size_t next = at, jump_size, target, end;

	if (next + CALL_BYTES <= size && code[next] == 0xe8)
		next += CALL_BYTES;
	target = follow_jump(code, size, next, &jump_size);
	end = find_return(code, size, target);
	if (!end)
		return 0;
	if (!jump_size) {
		ranges[0] = (struct python_unlinked){ start + at, start + end };
		return 1;
	}
	ranges[0] = (struct python_unlinked){ start + at, start + next + jump_size };
	ranges[1] = (struct python_unlinked){ start + target, start + end };
	return 2;
}

uint32_t python_frame_linkage_find(const uint8_t *code, size_t size, uint64_t start,
				   struct python_unlinked ranges[PYTHON_UNLINKED_MAX])
{
	struct store link = { 0 }, store;
	size_t at = 0;

	while (at < size && at < PROLOGUE_BYTES_MAX && !read_store(code + at, size - at, &link))
		at++;
	if (!link.size)
		return 0;
	at += link.size;
	ranges[0] = (struct python_unlinked){ start, start + at };
	for (; at < size; at++) {
		uint32_t tail;

		if (!read_store(code + at, size - at, &store) || store.base != link.base)
			continue;
		tail = find_tail(code, size, at + store.size, start, &ranges[1]);
		if (tail)
			return 1 + tail;
	}
	return 1;
}
