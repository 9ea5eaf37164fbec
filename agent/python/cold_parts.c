// SPDX-License-Identifier: Apache-2.0
#include "agent/python/cold_parts.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/elf/byte_cursor.h"
#include "agent/unwind/cfi_pointer.h"
#include "base/cleanup.h"

enum {
	ENTRIES_MAX = 4 << 20, // of .eh_frame_hdr's table; Chromium has 1 million
	ENTRY_BYTES = 64,      // of an FDE, up to its first instruction
	HEADER_BYTES = 12,     // of .eh_frame_hdr before its table, as linkers write it
	TARGETS_MAX = 256,     // FDEs that the function jumps into, cold parts or not
	POINTER_TO_PC_S32 = CFI_POINTER_TO_PC | CFI_POINTER_S32,
	POINTER_TO_DATA_S32 = CFI_POINTER_TO_DATA | CFI_POINTER_S32,
};

/* A row of .eh_frame_hdr's table, relative to its start. */
struct table_entry {
	int32_t code;
	int32_t entry;
};

/* .eh_frame_hdr: the FDEs of .eh_frame by address of their code. */
struct table {
	const struct elf *elf;
	uint64_t address;
	struct table_entry *entries; // owned, sorted by code
	uint32_t count;
};

/* An FDE: a function's entry in .eh_frame. */
struct entry {
	uint64_t start;
	uint64_t size;
	bool is_part; // its code begins with an established frame
};

static void table_deinit(struct table *table)
{
	free(table->entries);
}

/* ---- the table ---------------------------------------------------------------------------------- */

static int find_header(const struct elf *elf, Elf64_Phdr *ret_segment)
{
	for (uint32_t i = 0;; i++) {
		int rc = elf_read_segment(elf, i, ret_segment);

		if (rc || ret_segment->p_type == PT_GNU_EH_FRAME)
			return rc;
	}
}

static int read_table(const struct elf *elf, struct table *table)
{
	uint8_t header[HEADER_BYTES];
	Elf64_Phdr segment;
	int rc = find_header(elf, &segment);

	if (rc)
		return rc;
	rc = elf_read_address(elf, segment.p_vaddr, header, sizeof(header));
	if (rc)
		return rc;
	// Linux Standard Base, "DWARF Exception Header": version, encodings of what follows.
	if (header[0] != 1 || header[1] != POINTER_TO_PC_S32 || header[2] != CFI_POINTER_U32 ||
	    header[3] != POINTER_TO_DATA_S32)
		return -ENOENT;
	memcpy(&table->count, &header[8], sizeof(table->count));
	if (table->count > ENTRIES_MAX)
		return -E2BIG;
	if (table->count > segment.p_filesz / sizeof(*table->entries))
		return -ENOEXEC;
	table->elf = elf;
	table->address = segment.p_vaddr;
	table->entries = malloc(table->count * sizeof(*table->entries) + 1);
	if (!table->entries)
		return -ENOMEM;
	return elf_read_address(elf, segment.p_vaddr + sizeof(header), table->entries,
				table->count * sizeof(*table->entries));
}

/* The last row that begins at or before @address, or NULL. */
static const struct table_entry *find_entry(const struct table *table, uint64_t address)
{
	uint32_t low = 0, high = table->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (table->address + (uint64_t)(int64_t)table->entries[middle].code <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &table->entries[low - 1] : NULL;
}

/* ---- entries ------------------------------------------------------------------------------------ */

/* The encoding of code addresses, from the CIE: each letter of its augmentation stands for a piece of data. */
static int read_encoding(const struct elf *elf, uint64_t address, uint8_t *ret_encoding)
{
	uint8_t bytes[ENTRY_BYTES];
	struct byte_cursor cursor = byte_cursor_over(bytes, sizeof(bytes));
	const char *letters;
	uint8_t version;
	int rc = elf_read_address(elf, address, bytes, sizeof(bytes));

	if (rc)
		return rc;
	byte_cursor_take(&cursor, 8); // length, CIE id
	version = byte_cursor_byte(&cursor);
	letters = (const char *)cursor.at;
	while (byte_cursor_byte(&cursor))
		;
	byte_cursor_uleb(&cursor); // code alignment
	byte_cursor_sleb(&cursor); // data alignment
	if (version == 1)
		byte_cursor_byte(&cursor);
	else
		byte_cursor_uleb(&cursor); // return address register
	if (cursor.is_broken || letters[0] != 'z')
		return -ENOENT;
	byte_cursor_uleb(&cursor); // bytes of data
	for (letters++; *letters && *letters != 'R'; letters++) {
		if (*letters == 'L')
			byte_cursor_byte(&cursor);
		else if (*letters == 'P' &&
			 !cfi_pointer_skip(&cursor, byte_cursor_byte(&cursor), 0))
			return -ENOENT;
	}
	*ret_encoding = byte_cursor_byte(&cursor);
	return cursor.is_broken || *letters != 'R' ? -ENOENT : 0;
}

/*
 * A function begins with the CFA that its call left. Code that begins by defining the CFA or saved registers
 * continues a frame. DWARF 5, section 7.24.
 */
static bool begins_in_a_frame(uint8_t opcode)
{
	enum { OFFSET = 0x80, OFFSET_EXTENDED = 0x05, DEF_CFA = 0x0c, DEF_CFA_EXPRESSION = 0x0f };

	return (opcode & 0xc0) == OFFSET || opcode == OFFSET_EXTENDED ||
	       (opcode >= DEF_CFA && opcode <= DEF_CFA_EXPRESSION);
}

static int read_entry(const struct table *table, const struct table_entry *row,
		      struct entry *ret_entry)
{
	uint64_t address = table->address + (uint64_t)(int64_t)row->entry, data_base = 0;
	uint8_t bytes[ENTRY_BYTES], encoding, opcode;
	struct byte_cursor cursor = byte_cursor_over(bytes, sizeof(bytes));
	struct entry entry;
	uint32_t common;
	int rc = elf_read_address(table->elf, address, bytes, sizeof(bytes));

	if (rc)
		return rc;
	byte_cursor_number(&cursor, 4); // length
	common = (uint32_t)byte_cursor_number(&cursor, 4);
	rc = read_encoding(table->elf, address + 4 - common, &encoding);
	if (rc)
		return rc;
	if (!cfi_pointer_read(&cursor, encoding, address + 8, data_base, &entry.start) ||
	    !cfi_pointer_read(&cursor, encoding & CFI_POINTER_FORMAT, 0, data_base, &entry.size))
		return -ENOENT;
	byte_cursor_take(&cursor, byte_cursor_uleb(&cursor));
	opcode = byte_cursor_byte(&cursor);
	if (cursor.is_broken)
		return -ENOENT;
	entry.is_part = begins_in_a_frame(opcode);
	*ret_entry = entry;
	return 0;
}

/* ---- jumps -------------------------------------------------------------------------------------- */

/*
 * The target of a jump at @code, relative to it; 0: no jump. Code is not decoded from its start, so bytes within
 * another instruction may look like a jump: the caller checks the target.
 */
static int64_t jump_at(uint16_t machine, const uint8_t *code, size_t left)
{
	int32_t distance;
	uint32_t word;

	if (machine == EM_AARCH64) {
		if (left < 4)
			return 0;
		memcpy(&word, code, sizeof(word));
		if ((word & 0xfc000000) == 0x14000000) // b
			return (int64_t)((uint64_t)word << 38) >> 36;
		if ((word & 0xff000010) == 0x54000000) // b.cond
			return (int64_t)((uint64_t)(word >> 5) << 45) >> 43;
		return 0;
	}
	if (left >= 5 && code[0] == 0xe9) { // jmp rel32
		memcpy(&distance, &code[1], sizeof(distance));
		return (int64_t)distance + 5;
	}
	if (left >= 6 && code[0] == 0x0f && (code[1] & 0xf0) == 0x80) { // jcc rel32
		memcpy(&distance, &code[2], sizeof(distance));
		return (int64_t)distance + 6;
	}
	return 0;
}

struct targets {
	const struct table_entry *rows[TARGETS_MAX];
	uint32_t count;
};

static bool is_new(struct targets *targets, const struct table_entry *row)
{
	for (uint32_t i = 0; i < targets->count; i++) {
		if (targets->rows[i] == row)
			return false;
	}
	if (targets->count == TARGETS_MAX)
		return false;
	targets->rows[targets->count++] = row;
	return true;
}

/* The cold part around @address, if there is one. */
static bool find_part(const struct table *table, struct targets *targets, uint64_t address,
		      struct cold_part *ret_part)
{
	const struct table_entry *row;
	struct entry entry;

	if (!elf_find_code(table->elf, address))
		return false;
	row = find_entry(table, address);
	if (!row || !is_new(targets, row) || read_entry(table, row, &entry) || !entry.is_part ||
	    address < entry.start || address - entry.start >= entry.size)
		return false;
	*ret_part = (struct cold_part){ .start = entry.start, .size = entry.size };
	return true;
}

int cold_parts_find(const struct elf *elf, uint64_t start, uint64_t size,
		    struct cold_part parts[COLD_PARTS_MAX], uint32_t *ret_count)
{
	_cleanup_(table_deinit) struct table table = { 0 };
	_cleanup_free_ uint8_t *code = NULL;
	uint16_t machine = elf->header.e_machine;
	struct targets targets = { .count = 0 };
	uint32_t count = 0;
	int rc;

	*ret_count = 0;
	if (size > FUNCTION_BYTES_MAX)
		return -E2BIG;
	rc = read_table(elf, &table);
	if (rc)
		return rc == -ENOENT ? 0 : rc;
	code = malloc(size + 1);
	if (!code)
		return -ENOMEM;
	rc = elf_read_address(elf, start, code, size);
	for (uint64_t at = 0; !rc && at < size && count < COLD_PARTS_MAX;
	     at += machine == EM_AARCH64 ? 4 : 1) {
		int64_t distance = jump_at(machine, code + at, size - at);
		uint64_t target = start + at + (uint64_t)distance;

		if (!distance || (target >= start && target - start < size))
			continue;
		if (find_part(&table, &targets, target, &parts[count]))
			count++;
	}
	*ret_count = rc ? 0 : count;
	return rc;
}
