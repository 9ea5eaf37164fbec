// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/cloned_threads.h"

#include <string.h>

enum {
	CLONE_BYTES_MAX = 256,  // glibc's has 76
	CLONE_ROWS_MAX = 8,     // glibc's has one
	PADDING_BYTES_MAX = 64, // before the new thread's code: it is aligned
	THREADS_MAX = 64,       // of a file, that begin a thread; glibc has three
	INSTRUCTION_BYTES = 4,
};

/* svc #0; cmp x0, #0 */
static const uint8_t returning[] = { 0x01, 0, 0, 0xd4, 0x1f, 0, 0, 0xf1 };

/* b.eq, with its distance in instructions */
#define JUMP_IF_ZERO     0x54000000U
#define JUMP_MASK        0xff00001fU
#define JUMP_DISTANCE(x) ((int32_t)((x) << 8) >> 13)

static bool jumps_to(const uint8_t *code, uint64_t address, uint64_t target)
{
	uint32_t word = code[0] | code[1] << 8 | code[2] << 16 | (uint32_t)code[3] << 24;
	int64_t bytes = (int64_t)JUMP_DISTANCE(word) * INSTRUCTION_BYTES;

	return (word & JUMP_MASK) == JUMP_IF_ZERO && address + (uint64_t)bytes == target;
}

/*
 * Offset of the system call of @range that returns before a jump to @thread; 0: no such function. Its own bytes count, too: a
 * thread in a system call is looked up by the byte before its pc. Before the call x0 is not 0.
 */
static uint32_t find_call(const struct elf *elf, const struct unwind_range *range, uint64_t thread)
{
	const Elf64_Phdr *load = elf_find_code(elf, range->start);
	uint8_t code[CLONE_BYTES_MAX];
	uint32_t size = sizeof(returning) + INSTRUCTION_BYTES;

	if (!load || range->size > sizeof(code) ||
	    elf_read(elf, elf_file_offset(load, range->start), code, range->size))
		return 0;
	for (uint32_t at = 0; at + size <= range->size; at += INSTRUCTION_BYTES)
		if (memcmp(code + at, returning, sizeof(returning)) == 0 &&
		    jumps_to(code + at + sizeof(returning), range->start + at + sizeof(returning),
			     thread))
			return at;
	return 0;
}

/* Rows of a range, copied: adding some may move all. Returns their number; 0: too many. */
static uint32_t copy_rows(const struct unwind_rows *rows, const struct unwind_range *range,
			  struct unwind_row_cursor ret_rows[CLONE_ROWS_MAX])
{
	struct unwind_row_cursor cursor = unwind_rows_first(rows, range);
	uint32_t count = 0;

	do {
		if (count == CLONE_ROWS_MAX)
			return 0;
		ret_rows[count++] = cursor;
	} while (unwind_rows_next(&cursor));
	return count;
}

static void add_marked(struct unwind_rows *rows, uint32_t offset, uint32_t number)
{
	struct unwind_rule rule = rows->rules[number];

	rule.flags |= RULE_CLONED;
	unwind_rows_add(rows, offset, &rule);
}

/* Writes the rows of range @index again, those from offset @from on marked. */
static void mark_rows(struct unwind_rows *rows, uint32_t index, uint32_t from)
{
	struct unwind_row_cursor copies[CLONE_ROWS_MAX];
	const struct unwind_range range = rows->ranges[index];
	uint32_t count = copy_rows(rows, &range, copies);

	if (!count)
		return;
	unwind_rows_begin(rows, range.start, range.size);
	for (uint32_t i = 0; i < count && !rows->rc; i++) {
		uint32_t limit = i + 1 < count ? copies[i + 1].offset : range.size;

		if (copies[i].offset < from)
			unwind_rows_add_number(rows, copies[i].offset, copies[i].rule);
		if (limit > from)
			add_marked(rows, copies[i].offset > from ? copies[i].offset : from,
				   copies[i].rule);
	}
	unwind_rows_end(rows);
	unwind_rows_move_last(rows, index);
}

void cloned_threads_mark(const struct elf *elf, struct unwind_rows *rows)
{
	uint32_t looked_at = 0;

	if (elf->header.e_machine != EM_AARCH64)
		return;
	for (uint32_t i = 1; i < rows->sorted_count && looked_at < THREADS_MAX && !rows->rc; i++) {
		const struct unwind_range *thread = &rows->ranges[i], *clone = thread - 1;
		uint64_t padding = thread->start - clone->start - clone->size;

		if (unwind_rows_first(rows, thread).rule != RULE_END || padding > PADDING_BYTES_MAX)
			continue;
		looked_at++;
		uint32_t from = find_call(elf, clone, thread->start);
		if (from)
			mark_rows(rows, i - 1, from);
	}
}
