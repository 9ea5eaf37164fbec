// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/symbol_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "agent/symbols/cuda_symbols.h"
#include "agent/elf/go_pclntab.h"

enum { READ_SYMBOLS = 2048 }; // per pread(): 48 KiB

/* Worse than any rank of a symbol table. */
enum { RANK_GO = 8, RANK_CUDA = 9 };

/* One file while it is read. Its code is where the executable's segments are. */
struct reading {
	struct symbol_list *list;
	const struct elf *code;
	const struct elf *elf; // the same, or the debug file
	Elf64_Shdr *sections;
	uint32_t section_count;
};

void symbol_list_deinit(struct symbol_list *list)
{
	free(list->symbols);
	*list = (struct symbol_list){ 0 };
}

static uint64_t lowest_code_offset(const struct elf *elf)
{
	uint64_t lowest = UINT64_MAX;

	for (uint32_t i = 0; i < elf->load_count; i++)
		if ((elf->loads[i].p_flags & PF_X) && elf->loads[i].p_offset < lowest)
			lowest = elf->loads[i].p_offset;
	return lowest;
}

static int append(struct symbol_list *list, const struct listed_symbol *symbol)
{
	int rc = array_reserve(&list->symbols, sizeof(*list->symbols), &list->capacity, list->count,
			       1, LISTED_SYMBOLS_MAX);

	if (rc)
		return rc == -E2BIG ? 0 : rc; // the rest is left out
	list->symbols[list->count++] = *symbol;
	return 0;
}

/* ---- symbol tables ------------------------------------------------------------------------- */

static bool is_function(const Elf64_Sym *symbol)
{
	switch (ELF64_ST_TYPE(symbol->st_info)) {
	case STT_FUNC:
	case STT_GNU_IFUNC:
		return true;
	case STT_NOTYPE: // assembly; without a size it is a label in a function
		return symbol->st_size != 0;
	default:
		return false;
	}
}

/* The end of the symbol's section if that is known, else of its segment. */
static uint64_t code_limit(const struct reading *reading, const Elf64_Phdr *segment,
			   const Elf64_Sym *symbol)
{
	uint64_t limit = segment->p_vaddr + segment->p_filesz;

	if (symbol->st_shndx < reading->section_count) {
		const Elf64_Shdr *section = &reading->sections[symbol->st_shndx];
		uint64_t end = section->sh_addr + section->sh_size;

		if (end > symbol->st_value && end < limit)
			limit = end;
	}
	return limit;
}

static uint8_t rank_of(const Elf64_Sym *symbol)
{
	uint8_t rank;

	switch (ELF64_ST_BIND(symbol->st_info)) {
	case STB_GLOBAL:
		rank = 0;
		break;
	case STB_LOCAL:
		rank = 1;
		break;
	default:
		rank = 2;
	}
	// A symbol without a size or type may be a label.
	if (!symbol->st_size || ELF64_ST_TYPE(symbol->st_info) == STT_NOTYPE)
		rank += 4;
	return rank;
}

static int add_symbol(const struct reading *reading, const Elf64_Sym *symbol, enum name_pool pool)
{
	struct symbol_list *list = reading->list;

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS || !is_function(symbol) ||
	    !symbol->st_name || symbol->st_name >= list->pools[pool].size)
		return 0;
	const Elf64_Phdr *segment = elf_find_code(reading->code, symbol->st_value);
	if (!segment)
		return 0;

	uint64_t offset = elf_file_offset(segment, symbol->st_value) - list->base;
	uint64_t space = code_limit(reading, segment, symbol) - symbol->st_value;
	uint64_t size = symbol->st_size && symbol->st_size < space ? symbol->st_size : space;

	if (offset > UINT32_MAX) // 4 GiB of code: no linker's output reaches that far
		return 0;
	const struct listed_symbol listed = {
		.offset = (uint32_t)offset,
		.size = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX,
		.name = symbol->st_name | (uint32_t)pool << NAME_OFFSET_BITS,
		.rank = rank_of(symbol),
		.sized = symbol->st_size != 0,
	};
	return append(list, &listed);
}

/* The string table of @section's symbols. False: none. */
static bool find_names(const struct reading *reading, const Elf64_Shdr *section,
		       struct name_pool_range *ret_range)
{
	if (section->sh_entsize != sizeof(Elf64_Sym) || section->sh_link >= reading->section_count)
		return false;

	const Elf64_Shdr *strings = &reading->sections[section->sh_link];
	uint64_t file_size = reading->elf->size;
	if (strings->sh_type != SHT_STRTAB || strings->sh_offset >= file_size)
		return false;
	uint64_t size = file_size - strings->sh_offset;
	if (strings->sh_size < size)
		size = strings->sh_size;
	if (size > NAME_OFFSET_MAX)
		size = NAME_OFFSET_MAX;
	*ret_range = (struct name_pool_range){ strings->sh_offset, size };
	return true;
}

static int add_section(const struct reading *reading, const Elf64_Shdr *section,
		       enum name_pool pool)
{
	struct symbol_list *list = reading->list;

	if (!find_names(reading, section, &list->pools[pool]))
		return 0;

	_cleanup_free_ Elf64_Sym *symbols = malloc(READ_SYMBOLS * sizeof(*symbols));
	if (!symbols)
		return -ENOMEM;
	uint64_t left = section->sh_size / sizeof(*symbols);
	uint64_t offset = section->sh_offset;
	if (left > LISTED_SYMBOLS_MAX)
		left = LISTED_SYMBOLS_MAX;
	while (left) {
		uint64_t count = left < READ_SYMBOLS ? left : READ_SYMBOLS;
		int rc = elf_read(reading->elf, offset, symbols, count * sizeof(*symbols));

		if (rc) // truncated: what was read so far is good
			return rc == -ENOEXEC ? 0 : rc;
		for (uint64_t i = 0; i < count; i++) {
			rc = add_symbol(reading, &symbols[i], pool);
			if (rc)
				return rc;
		}
		offset += count * sizeof(*symbols);
		left -= count;
	}
	return 0;
}

/* Only the first section of a type: a hostile file could repeat it endlessly. */
static int add_first(const struct reading *reading, uint32_t type, enum name_pool pool)
{
	for (uint32_t i = 0; i < reading->section_count; i++)
		if (reading->sections[i].sh_type == type)
			return add_section(reading, &reading->sections[i], pool);
	return 0;
}

static int read_sections(struct reading *reading)
{
	// A file without section headers, or with broken ones, has no symbols.
	int rc = elf_read_sections(reading->elf, &reading->sections, &reading->section_count);

	return rc == -ENOENT || rc == -ENOEXEC || rc == -E2BIG ? 0 : rc;
}

static int add_elf(struct symbol_list *list, const struct elf *code, const struct elf *elf)
{
	struct reading reading = { .list = list, .code = code, .elf = elf };
	uint32_t before = list->count;
	int rc = read_sections(&reading);

	if (!rc)
		rc = add_first(&reading, SHT_SYMTAB,
			       elf == code ? NAME_POOL_SYMTAB : NAME_POOL_DEBUG);
	list->complete |= list->count > before;
	if (!rc && elf == code)
		rc = add_first(&reading, SHT_DYNSYM, NAME_POOL_DYNSYM);
	free(reading.sections);
	return rc;
}

/* ---- other tables -------------------------------------------------------------------------- */

static int add_address(struct symbol_list *list, const struct elf *elf, uint64_t address,
		       uint64_t size, uint32_t name, uint8_t rank)
{
	const Elf64_Phdr *segment = elf_find_code(elf, address);

	if (!segment)
		return 0;
	uint64_t offset = elf_file_offset(segment, address) - list->base;
	uint64_t space = segment->p_vaddr + segment->p_filesz - address;
	bool sized = size && size <= space;
	if (!sized)
		size = space;
	if (offset > UINT32_MAX)
		return 0;
	const struct listed_symbol listed = {
		.offset = (uint32_t)offset,
		.size = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX,
		.name = name,
		.rank = rank,
		.sized = sized,
	};
	return append(list, &listed);
}

static int add_go(struct symbol_list *list, const struct elf *elf)
{
	_cleanup_(go_pclntab_closep) struct go_pclntab *table = NULL;
	uint64_t names = UINT64_MAX;
	int rc = go_pclntab_open(elf, &table);

	if (rc)
		return rc == -ENOMEM ? rc : 0;
	for (uint32_t i = 0; i < go_pclntab_count(table); i++) {
		struct go_function function;

		if (go_pclntab_function(table, i, &function))
			break; // what was read so far is good
		if (names == UINT64_MAX) {
			names = go_pclntab_names_offset(table);
			list->pools[NAME_POOL_GO] =
				(struct name_pool_range){ names, elf->size - names < NAME_OFFSET_MAX
									 ? elf->size - names
									 : NAME_OFFSET_MAX };
		}
		if (function.name_offset - names >= list->pools[NAME_POOL_GO].size)
			continue;
		rc = add_address(list, elf, function.address, function.limit - function.address,
				 (uint32_t)(function.name_offset - names) |
					 (uint32_t)NAME_POOL_GO << NAME_OFFSET_BITS,
				 RANK_GO);
		if (rc)
			return rc;
	}
	return 0;
}

struct cuda_context {
	struct symbol_list *list;
	const struct elf *elf;
};

static int add_cuda_symbol(void *context, const struct cuda_symbol *symbol)
{
	const struct cuda_context *cuda = context;
	const struct name_pool_range *names = &cuda->list->pools[NAME_POOL_DYNSYM];
	uint64_t offset = symbol->name_offset - names->offset;

	if (symbol->name_offset < names->offset || offset >= names->size)
		return 0;
	return add_address(cuda->list, cuda->elf, symbol->address, symbol->size,
			   (uint32_t)offset | (uint32_t)NAME_POOL_DYNSYM << NAME_OFFSET_BITS,
			   RANK_CUDA);
}

int symbol_list_read(const struct symbol_sources *sources, struct symbol_list *ret_list)
{
	struct symbol_list *list = ret_list;
	const struct elf *elf = sources->elf;

	*list = (struct symbol_list){ .base = lowest_code_offset(elf) };
	int rc = add_elf(list, elf, elf);
	if (!rc && sources->debug)
		rc = add_elf(list, elf, sources->debug);
	if (!rc && !list->complete)
		rc = add_go(list, elf);
	if (!rc && sources->is_cuda_driver) {
		struct cuda_context cuda = { .list = list, .elf = elf };

		rc = cuda_symbols_read(elf, add_cuda_symbol, &cuda);
		if (rc != -ENOMEM)
			rc = 0; // an unknown driver version
	}
	return rc;
}
