// SPDX-License-Identifier: Apache-2.0
#include "symbol_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "executable.h"

enum {
	READ_SYMBOLS = 2048, // per pread(): 48 KiB
	ENCLOSING_LOOKS =
		32, // how many earlier symbols may lie between an address and the one around it
	NAME_IN_DYNSTR = 1U << 31, // in symbol.name: which string table it is in
};

struct entry {
	uint32_t offset; // from table->base
	uint32_t size;
	uint32_t name; // place in its string table, and NAME_IN_DYNSTR
};

/* Before sorting. */
struct candidate {
	struct entry entry; // without a size of its own: size is the space up to the section's end
	uint8_t rank;       // lower is the better name for one address
	bool sized;
};

struct string_section {
	uint64_t offset;
	uint64_t size;
};

struct symbol_table {
	uint64_t base;                  // file offset of the lowest executable segment
	struct string_section names[2]; // .strtab, .dynstr
	uint32_t count;
	struct entry entries[];
};

struct gathering {
	const struct elf *elf;
	const Elf64_Shdr *sections;
	uint32_t section_count;
	uint64_t base;
	struct string_section names[2];
	struct candidate *candidates;
	uint32_t count;
	uint32_t capacity;
};

static void free_candidates(struct gathering *gathering)
{
	free(gathering->candidates);
}

void symbol_table_free(struct symbol_table *table)
{
	free(table);
}

static uint64_t lowest_code_offset(const struct elf *elf)
{
	uint64_t lowest = UINT64_MAX;

	for (uint32_t i = 0; i < elf->load_count; i++)
		if ((elf->loads[i].p_flags & PF_X) && elf->loads[i].p_offset < lowest)
			lowest = elf->loads[i].p_offset;
	return lowest;
}

static bool is_function(const Elf64_Sym *symbol)
{
	switch (ELF64_ST_TYPE(symbol->st_info)) {
	case STT_FUNC:
	case STT_GNU_IFUNC:
		return true;
	case STT_NOTYPE: // assembly; without a size they are labels within functions
		return symbol->st_size != 0;
	default:
		return false;
	}
}

/* Where code at @address must end: with its section if that is known, else with its segment. */
static uint64_t code_limit(const struct gathering *gathering, const Elf64_Phdr *segment,
			   const Elf64_Sym *symbol)
{
	uint64_t limit = segment->p_vaddr + segment->p_filesz;

	if (symbol->st_shndx < gathering->section_count) {
		const Elf64_Shdr *section = &gathering->sections[symbol->st_shndx];
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
	// A name without size, or of no type, says less about what is there.
	if (!symbol->st_size || ELF64_ST_TYPE(symbol->st_info) == STT_NOTYPE)
		rank += 4;
	return rank;
}

static int append_candidate(struct gathering *gathering, const struct candidate *candidate)
{
	if (gathering->count == EXECUTABLE_SYMBOLS_MAX)
		return 0;
	if (gathering->count == gathering->capacity) {
		uint32_t capacity = gathering->capacity ? gathering->capacity * 2 : 512;
		struct candidate *candidates =
			reallocarray(gathering->candidates, capacity, sizeof(*candidates));
		if (!candidates)
			return -ENOMEM;
		gathering->candidates = candidates;
		gathering->capacity = capacity;
	}
	gathering->candidates[gathering->count++] = *candidate;
	return 0;
}

static int add_symbol(struct gathering *gathering, const Elf64_Sym *symbol, bool dynamic)
{
	const struct elf *elf = gathering->elf;

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS || !is_function(symbol) ||
	    !symbol->st_name || symbol->st_name >= gathering->names[dynamic].size)
		return 0;
	const Elf64_Phdr *segment = elf_find_code(elf, symbol->st_value);
	if (!segment)
		return 0;

	uint64_t offset = elf_file_offset(segment, symbol->st_value) - gathering->base;
	uint64_t space = code_limit(gathering, segment, symbol) - symbol->st_value;
	uint64_t size = symbol->st_size && symbol->st_size < space ? symbol->st_size : space;

	if (offset > UINT32_MAX) // 4 GiB of code: no linker's output reaches that far
		return 0;
	struct candidate candidate = {
		.entry = {
			.offset = (uint32_t)offset,
			.size = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX,
			.name = symbol->st_name | (dynamic ? NAME_IN_DYNSTR : 0),
		},
		.rank = rank_of(symbol),
		.sized = symbol->st_size != 0,
	};
	return append_candidate(gathering, &candidate);
}

static int add_section(struct gathering *gathering, const Elf64_Shdr *section, bool dynamic)
{
	if (section->sh_entsize != sizeof(Elf64_Sym) ||
	    section->sh_link >= gathering->section_count)
		return 0;

	const Elf64_Shdr *strings = &gathering->sections[section->sh_link];
	uint64_t file_size = gathering->elf->size;
	if (strings->sh_type != SHT_STRTAB || strings->sh_offset >= file_size)
		return 0;
	uint64_t size = file_size - strings->sh_offset;
	if (strings->sh_size < size)
		size = strings->sh_size;
	if (size > NAME_IN_DYNSTR)
		size = NAME_IN_DYNSTR;
	gathering->names[dynamic] = (struct string_section){ strings->sh_offset, size };

	_cleanup_free_ Elf64_Sym *symbols = malloc(READ_SYMBOLS * sizeof(*symbols));
	if (!symbols)
		return -ENOMEM;
	uint64_t left = section->sh_size / sizeof(*symbols);
	uint64_t offset = section->sh_offset;
	if (left > EXECUTABLE_SYMBOLS_MAX)
		left = EXECUTABLE_SYMBOLS_MAX;
	while (left) {
		uint64_t count = left < READ_SYMBOLS ? left : READ_SYMBOLS;
		int rc = elf_read(gathering->elf, offset, symbols, count * sizeof(*symbols));

		if (rc) // cut short: what was read so far is still good
			return rc == -ENOEXEC ? 0 : rc;
		for (uint64_t i = 0; i < count; i++) {
			rc = add_symbol(gathering, &symbols[i], dynamic);
			if (rc)
				return rc;
		}
		offset += count * sizeof(*symbols);
		left -= count;
	}
	return 0;
}

static int gather(struct gathering *gathering)
{
	// The first of each: a file has at most one, and repeats could make us read for ever.
	bool seen[2] = { false, false };

	for (uint32_t i = 0; i < gathering->section_count; i++) {
		const Elf64_Shdr *section = &gathering->sections[i];
		bool dynamic = section->sh_type == SHT_DYNSYM;

		if ((!dynamic && section->sh_type != SHT_SYMTAB) || seen[dynamic])
			continue;
		seen[dynamic] = true;
		int rc = add_section(gathering, section, dynamic);
		if (rc)
			return rc;
	}
	return 0;
}

static int compare_candidates(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;

	if (a->entry.offset != b->entry.offset)
		return a->entry.offset < b->entry.offset ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	// With this NAME_IN_DYNSTR puts .symtab's names first.
	return (a->entry.name > b->entry.name) - (a->entry.name < b->entry.name);
}

/* One entry per address, the best; entries without size reach to the next one. */
static struct symbol_table *build(const struct gathering *gathering)
{
	struct candidate *candidates = gathering->candidates;
	uint32_t kept = 0;

	if (gathering->count)
		qsort(candidates, gathering->count, sizeof(*candidates), compare_candidates);
	for (uint32_t i = 0; i < gathering->count; i++)
		if (i == 0 || candidates[i].entry.offset != candidates[kept - 1].entry.offset)
			candidates[kept++] = candidates[i];

	struct symbol_table *table = malloc(sizeof(*table) + kept * sizeof(struct entry));
	if (!table)
		return NULL;
	table->base = gathering->base;
	memcpy(table->names, gathering->names, sizeof(table->names));
	table->count = kept;
	for (uint32_t i = 0; i < kept; i++) {
		struct entry *entry = &table->entries[i];

		*entry = candidates[i].entry;
		if (!candidates[i].sized && i + 1 < kept &&
		    entry->size > candidates[i + 1].entry.offset - entry->offset)
			entry->size = candidates[i + 1].entry.offset - entry->offset;
	}
	return table;
}

int symbol_table_read(const struct elf *elf, struct symbol_table **ret_table)
{
	_cleanup_free_ Elf64_Shdr *sections = NULL;
	_cleanup_(free_candidates) struct gathering gathering = {
		.elf = elf,
		.base = lowest_code_offset(elf),
	};

	// Without section headers, or with broken ones, there are no symbols: that is no failure.
	int rc = elf_read_sections(elf, &sections, &gathering.section_count);
	if (rc && rc != -ENOENT && rc != -ENOEXEC && rc != -E2BIG)
		return rc;
	gathering.sections = sections;
	rc = gather(&gathering);
	if (rc)
		return rc;

	struct symbol_table *table = build(&gathering);
	if (!table)
		return -ENOMEM;
	*ret_table = table;
	return 0;
}

/* How many entries begin at or before @offset. */
static uint32_t count_up_to(const struct symbol_table *table, uint32_t offset)
{
	uint32_t low = 0, high = table->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (table->entries[middle].offset <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int symbol_table_find(const struct symbol_table *table, uint64_t offset,
		      struct symbol_range *ret_range)
{
	if (offset < table->base || offset - table->base > UINT32_MAX)
		return -ENOENT;

	uint32_t target = (uint32_t)(offset - table->base);
	uint32_t index = count_up_to(table, target);
	for (uint32_t looks = 0; index-- && looks < ENCLOSING_LOOKS; looks++) {
		const struct entry *entry = &table->entries[index];

		if (target - entry->offset >= entry->size)
			continue;
		*ret_range = (struct symbol_range){
			.start_offset = table->base + entry->offset,
			.size = entry->size,
			.index = index,
		};
		return 0;
	}
	return -ENOENT;
}

int symbol_table_read_name(const struct symbol_table *table, int fd, uint32_t index,
			   char ret_name[SYMBOL_NAME_BYTES])
{
	const struct entry *entry = &table->entries[index];
	const struct string_section *names = &table->names[!!(entry->name & NAME_IN_DYNSTR)];
	uint32_t place = entry->name & ~NAME_IN_DYNSTR;
	uint64_t space = names->size - place; // place is within: checked by add_symbol()
	size_t size = space < SYMBOL_NAME_BYTES - 1 ? space : SYMBOL_NAME_BYTES - 1;
	ssize_t count;

	// Most names are short: a second read for the few long ones is cheaper than 4 KiB for each.
	size_t first = size < 256 ? size : 256;
	do
		count = pread(fd, ret_name, first, (off_t)(names->offset + place));
	while (count < 0 && errno == EINTR);
	if (count == (ssize_t)first && first < size && !memchr(ret_name, 0, first))
		count = pread(fd, ret_name, size, (off_t)(names->offset + place));
	if (count < 0)
		return -errno;
	ret_name[count] = '\0';
	return ret_name[0] ? 0 : -ENOENT;
}

uint32_t symbol_table_count(const struct symbol_table *table)
{
	return table->count;
}

size_t symbol_table_bytes(const struct symbol_table *table)
{
	return sizeof(*table) + table->count * sizeof(struct entry);
}
