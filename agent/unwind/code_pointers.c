// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/code_pointers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

enum {
	ENTRY_BYTES_MAX = 64,
	RELOCATIONS_AT_ONCE = 512,
	CODE_BYTES_AT_ONCE = 256 << 10,
	REFERENCE_BYTES = 7, // the longest that names code
	FUNCTION_ALIGNMENT = 16,
};

struct search {
	const struct elf *elf;
	const struct code_extent *extents;
	uint32_t extent_count;
	struct function_starts *starts;
	int rc;
};

static void add(struct search *search, uint64_t address, bool is_guess)
{
	struct function_starts *starts = search->starts;

	if (search->rc || starts->count == CODE_POINTERS_MAX ||
	    !code_extents_contain(search->extents, search->extent_count, address))
		return;
	search->rc = array_reserve(&starts->starts, sizeof(*starts->starts), &starts->capacity,
				   starts->count, 1, CODE_POINTERS_MAX);
	if (!search->rc)
		starts->starts[starts->count++] =
			(struct function_start){ .address = address, .is_guess = is_guess };
}

/* ---- the entry ------------------------------------------------------------------------------ */

/*
 * The address that the instruction at @bytes calls, or passes as the first argument; 0: neither. glibc's entry passes main()
 * (sysdeps/x86_64/start.S), musl's calls a function that does (crt/crt1.c).
 */
static uint64_t named_by(const uint8_t *bytes, uint64_t address)
{
	static const struct {
		uint8_t size; // of the opcode; a 32-bit number follows
		uint8_t opcode[3];
		bool is_relative; // to the next instruction
	} forms[] = {
		{ 1, { 0xe8 }, true },              // call
		{ 3, { 0x48, 0x8d, 0x3d }, true },  // lea distance(%rip), %rdi
		{ 3, { 0x48, 0xc7, 0xc7 }, false }, // mov $address, %rdi
		{ 1, { 0xbf }, false },             // mov $address, %edi
	};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		int32_t number;

		if (memcmp(bytes, forms[i].opcode, forms[i].size) != 0)
			continue;
		memcpy(&number, bytes + forms[i].size, sizeof(number));
		return forms[i].is_relative ? address + forms[i].size + sizeof(number) +
						      (uint64_t)(int64_t)number
					    : (uint32_t)number;
	}
	return 0;
}

static void search_entry(struct search *search)
{
	uint64_t entry = search->elf->header.e_entry;
	uint8_t bytes[ENTRY_BYTES_MAX + 8] = { 0 };

	if (!entry || elf_read_address(search->elf, entry, bytes, ENTRY_BYTES_MAX))
		return;
	for (size_t at = 0; at < ENTRY_BYTES_MAX; at++)
		add(search, named_by(bytes + at, entry + at), false);
}

/* ---- data ----------------------------------------------------------------------------------- */

/* Constants with addresses lie in segments that are written to, when the program is relocated. */
static void search_data(struct search *search, const Elf64_Phdr *load)
{
	size_t size = load->p_filesz < CODE_POINTERS_DATA_BYTES_MAX ? load->p_filesz
								    : CODE_POINTERS_DATA_BYTES_MAX;
	_cleanup_free_ uint64_t *words = malloc(size + 1);

	if (!words)
		search->rc = -ENOMEM;
	else if (elf_read(search->elf, load->p_offset, words, size))
		return;
	for (size_t i = 0; !search->rc && i < size / sizeof(*words); i++)
		add(search, words[i], true);
}

/* What a file that can be loaded anywhere will have in its data: R_X86_64_RELATIVE. */
static void search_relocations(struct search *search, const Elf64_Shdr *section)
{
	uint64_t count = section->sh_size / sizeof(Elf64_Rela);
	Elf64_Rela some[RELOCATIONS_AT_ONCE];

	if (count > CODE_POINTERS_RELOCATIONS_MAX)
		count = CODE_POINTERS_RELOCATIONS_MAX;
	for (uint64_t at = 0; at < count && !search->rc;) {
		size_t batch = count - at < ARRAY_SIZE(some) ? count - at : ARRAY_SIZE(some);

		if (elf_read(search->elf, section->sh_offset + at * sizeof(*some), some,
			     batch * sizeof(*some)))
			return;
		for (size_t i = 0; i < batch; i++)
			if (ELF64_R_TYPE(some[i].r_info) == R_X86_64_RELATIVE)
				add(search, (uint64_t)some[i].r_addend, true);
		at += batch;
	}
}

/* ---- code ------------------------------------------------------------------------------------ */

enum { OPCODE_CALL = 0xe8, OPCODE_JUMP = 0xe9 };

/* Where the instruction at @bytes calls or jumps, or the address that it computes from its own; 0: none of them. */
static uint64_t referred_to(const uint8_t *bytes, uint64_t address)
{
	// lea distance(%rip) to one of 16 registers
	bool is_lea = (bytes[0] & 0xfb) == 0x48 && bytes[1] == 0x8d && (bytes[2] & 0xc7) == 5;
	uint8_t opcode_bytes = is_lea ? 3 : 1;
	int32_t distance;

	if (!is_lea && bytes[0] != OPCODE_CALL && bytes[0] != OPCODE_JUMP)
		return 0;
	memcpy(&distance, bytes + opcode_bytes, sizeof(distance));
	return address + opcode_bytes + sizeof(distance) + (uint64_t)(int64_t)distance;
}

/* Functions are aligned; before one are a return, or padding: int3, nop, or the zeros of a long nop. */
static bool looks_like_start(const struct search *search, uint64_t address)
{
	static const uint8_t before[] = { 0xc3, 0xcc, 0x90, 0 };
	uint8_t byte;

	return address % FUNCTION_ALIGNMENT == 0 &&
	       elf_read_address(search->elf, address - 1, &byte, 1) == 0 &&
	       memchr(before, byte, sizeof(before));
}

/* A function may end with a jump to another. Jumps within one lead to its labels. */
static bool is_tail_call(const struct search *search, uint64_t from, uint64_t to)
{
	return !code_extents_contain(search->extents, search->extent_count, from) &&
	       looks_like_start(search, to);
}

/* Any byte may begin an instruction: guesses. */
static void search_bytes(struct search *search, const uint8_t *bytes, size_t size, uint64_t address)
{
	uint64_t start = search->extents[0].start;
	uint64_t length = search->extents[search->extent_count - 1].limit - start;

	for (size_t at = 0; at + REFERENCE_BYTES <= size && !search->rc; at++) {
		uint64_t target = referred_to(bytes + at, address + at);

		if (target && target - start < length &&
		    (bytes[at] != OPCODE_JUMP || is_tail_call(search, address + at, target)))
			add(search, target, true);
	}
}

/* Functions that are called, or passed on, by code with unwind information. */
static void search_code(struct search *search, const Elf64_Phdr *load)
{
	_cleanup_free_ uint8_t *bytes = malloc(CODE_BYTES_AT_ONCE);
	uint64_t limit = load->p_filesz < CODE_POINTERS_CODE_BYTES_MAX
				 ? load->p_filesz
				 : CODE_POINTERS_CODE_BYTES_MAX;

	if (!bytes)
		search->rc = -ENOMEM;
	for (uint64_t at = 0; at + REFERENCE_BYTES <= limit && !search->rc;) {
		size_t size = limit - at < CODE_BYTES_AT_ONCE ? limit - at : CODE_BYTES_AT_ONCE;

		if (elf_read(search->elf, load->p_offset + at, bytes, size))
			return;
		search_bytes(search, bytes, size, load->p_vaddr + at);
		at += size - REFERENCE_BYTES + 1; // an instruction may lie across the end
	}
}

/* ---- all ------------------------------------------------------------------------------------ */

/* What is known best comes first. */
static int compare_starts(const void *left, const void *right)
{
	const struct function_start *a = left, *b = right;

	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	if (a->is_guess != b->is_guess)
		return a->is_guess - b->is_guess;
	return b->never_returns - a->never_returns;
}

static void drop_duplicates(struct function_starts *starts)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < starts->count; i++)
		if (!kept || starts->starts[i].address != starts->starts[kept - 1].address)
			starts->starts[kept++] = starts->starts[i];
	starts->count = kept;
}

int code_pointers_read(const struct elf_symbols *symbols, const struct code_extent *extents,
		       uint32_t count, struct function_starts *starts)
{
	const struct elf *elf = symbols->elf;
	struct search search = { elf, extents, count, starts, 0 };
	_cleanup_free_ Elf64_Shdr *sections = NULL;
	uint32_t section_count = 0;

	if (elf->header.e_machine != EM_X86_64 || !count ||
	    elf_symbols_find_section(symbols, ".symtab"))
		return 0;
	search_entry(&search);
	for (uint32_t i = 0; i < elf->load_count; i++) {
		if (elf->loads[i].p_flags & PF_X)
			search_code(&search, &elf->loads[i]);
		else if (elf->loads[i].p_flags & PF_W)
			search_data(&search, &elf->loads[i]);
	}
	if (elf_read_sections(elf, &sections, &section_count) == 0)
		for (uint32_t i = 0; i < section_count; i++)
			if (sections[i].sh_type == SHT_RELA)
				search_relocations(&search, &sections[i]);
	if (starts->count)
		qsort(starts->starts, starts->count, sizeof(*starts->starts), compare_starts);
	drop_duplicates(starts);
	return search.rc;
}
