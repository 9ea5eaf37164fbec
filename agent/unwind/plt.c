// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/plt.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

enum {
	PLT_LOOK_BYTES = 48, // the head and an entry
	PLT_ENTRY_BYTES = 16,
	ANY = -1, // matches any byte: part of an address or a number
};

/*
 * From @offset on: CFA_PLT with @threshold, else CFA = sp + cfa_offset. On aarch64 the return address is in lr until
 * something is pushed.
 */
struct plt_row {
	uint16_t offset;
	uint8_t threshold; // 0: none
	uint8_t cfa_offset;
};

enum { PLT_ROWS_MAX = 4, PLT_SHAPE_BYTES = 32 };

/* A section's first bytes and the rows of its shape. */
struct plt_shape {
	uint16_t machine;
	uint8_t size; // of `bytes` in use
	int16_t bytes[PLT_SHAPE_BYTES];
	uint8_t row_count;
	struct plt_row rows[PLT_ROWS_MAX];
};

#define ANY4 ANY, ANY, ANY, ANY
#define ANY8 ANY4, ANY4

static const struct plt_shape shapes[] = {
	// GNU ld, lld: push GOT+8; jmp *GOT+16; nop. Entries: jmp *GOT; push number (11 bytes); jmp.
	{ EM_X86_64,
	  23,
	  { 0xff, 0x35, ANY4, 0xff, 0x25, ANY8, 0xff, 0x25, ANY4, 0x68 },
	  3,
	  { { 0, 0, 16 }, { 6, 0, 24 }, { 16, 11, 0 } } },
	// With branch tracking: the entries are endbr64; push number (9 bytes); jmp.
	{ EM_X86_64,
	  21,
	  { 0xff, 0x35, ANY8, ANY4, ANY, ANY, 0xf3, 0x0f, 0x1e, 0xfa, 0x68 },
	  3,
	  { { 0, 0, 16 }, { 6, 0, 24 }, { 16, 9, 0 } } },
	// With bounds registers: push number (5 bytes); bnd jmp.
	{ EM_X86_64,
	  17,
	  { 0xff, 0x35, ANY8, ANY4, ANY, ANY, 0x68 },
	  3,
	  { { 0, 0, 16 }, { 6, 0, 24 }, { 16, 5, 0 } } },
	// mold: endbr64; push %r11; push GOT+8; jmp *GOT+16. Entries: endbr64; mov number, %r11d; jmp.
	{ EM_X86_64,
	  8,
	  { 0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x53, 0xff, 0x35 },
	  4,
	  { { 0, 0, 8 }, { 6, 0, 16 }, { 12, 0, 24 }, { 32, 0, 8 } } },
	// lld's .iplt: lazy entries without a head.
	{ EM_X86_64, 12, { 0xff, 0x25, ANY4, 0x68, ANY4, 0xe9 }, 1, { { 0, 11, 0 } } },
	// .plt.got: jmp *GOT and padding.
	{ EM_X86_64, 8, { 0xff, 0x25, ANY4, 0x66, 0x90 }, 1, { { 0, 0, 8 } } },
	// .plt.sec: endbr64; jmp *GOT, with or without bnd.
	{ EM_X86_64, 6, { 0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25 }, 1, { { 0, 0, 8 } } },
	{ EM_X86_64, 7, { 0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25 }, 1, { { 0, 0, 8 } } },
	{ EM_X86_64, 3, { 0xf2, 0xff, 0x25 }, 1, { { 0, 0, 8 } } },
	// stp x16, x30, [sp, #-16]!; then entries that leave the stack alone.
	{ EM_AARCH64,
	  4,
	  { 0xf0, 0x7b, 0xbf, 0xa9 },
	  3,
	  { { 0, 0, 0 }, { 4, 0, 16 }, { 32, 0, 0 } } },
	// The same after bti c.
	{ EM_AARCH64,
	  8,
	  { 0x5f, 0x24, 0x03, 0xd5, 0xf0, 0x7b, 0xbf, 0xa9 },
	  3,
	  { { 0, 0, 0 }, { 8, 0, 16 }, { 32, 0, 0 } } },
};

static const char *const names[] = { ".plt", ".plt.got", ".plt.sec", ".plt.bnd", ".iplt" };

static bool has_shape(const struct plt_shape *shape, const uint8_t *bytes, size_t size)
{
	if (size < shape->size)
		return false;
	for (size_t i = 0; i < shape->size; i++) {
		if (shape->bytes[i] != ANY && shape->bytes[i] != bytes[i])
			return false;
	}
	return true;
}

static const struct plt_shape *find_shape(uint16_t machine, const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		if (shapes[i].machine == machine && has_shape(&shapes[i], bytes, size))
			return &shapes[i];
	}
	return NULL;
}

static struct unwind_rule rule_of(uint16_t machine, const struct plt_row *row)
{
	if (machine == EM_AARCH64)
		return (struct unwind_rule){
			.cfa = CFA_REGISTER,
			.cfa_register = ARM64_REGISTER_SP,
			.cfa_offset = row->cfa_offset,
			.saved = row->cfa_offset ? SAVED_AT_CFA << 4 : SAVED_SAME,
			.return_offset = row->cfa_offset ? -8 : 0,
		};
	return (struct unwind_rule){
		.cfa = row->threshold ? CFA_PLT : CFA_REGISTER,
		.cfa_register = X86_REGISTER_SP,
		.cfa_offset = row->threshold ? row->threshold : row->cfa_offset,
		.saved = SAVED_AT_CFA << 4,
		.return_offset = -8,
	};
}

/* Is the section uncovered? */
static bool is_free(const struct unwind_rows *rows, const Elf64_Shdr *section)
{
	uint32_t index = unwind_rows_find(rows, section->sh_addr);

	return index == rows->sorted_count ||
	       rows->ranges[index].start >= section->sh_addr + section->sh_size;
}

static void add_section(const struct elf *elf, struct unwind_rows *rows, const Elf64_Shdr *section)
{
	const Elf64_Phdr *load = elf_find_code(elf, section->sh_addr);
	uint8_t bytes[PLT_LOOK_BYTES];
	size_t size = section->sh_size < sizeof(bytes) ? section->sh_size : sizeof(bytes);

	if (!load || section->sh_size > load->p_vaddr + load->p_filesz - section->sh_addr ||
	    elf_read(elf, elf_file_offset(load, section->sh_addr), bytes, size))
		return;

	const struct plt_shape *shape = find_shape(elf->header.e_machine, bytes, size);
	if (!shape || !is_free(rows, section))
		return;
	unwind_rows_begin(rows, section->sh_addr, section->sh_size);
	for (uint8_t i = 0; i < shape->row_count; i++) {
		struct unwind_rule rule = rule_of(elf->header.e_machine, &shape->rows[i]);

		if (shape->rows[i].offset < section->sh_size)
			unwind_rows_add(rows, shape->rows[i].offset, &rule);
	}
	unwind_rows_end(rows);
}

int plt_add(const struct elf *elf, struct unwind_rows *rows, struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		Elf64_Shdr section;
		int rc = elf_find_section(elf, names[i], &section);

		if (rc == 0 && section.sh_type == SHT_PROGBITS && section.sh_size)
			add_section(elf, rows, &section);
		else if (rc && rc != -ENOENT && rc != -ENOEXEC && rc != -E2BIG)
			return error_set(err, rc, "section headers cannot be read");
	}
	return 0;
}
