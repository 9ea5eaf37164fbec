// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/go_text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#if defined(__x86_64__)
#define RELATIVE R_X86_64_RELATIVE
#elif defined(__aarch64__)
#define RELATIVE R_AARCH64_RELATIVE
#endif

enum {
	TEXT_START_AT = 24,         // in the header: after magic, nfunc and nfiles
	MODULE_TEXT_AT = 22 * 8,    // moduledata.text, 1.16 to 1.26 (src/runtime/symtab.go)
	MODULE_FUNCTAB_AT = 16 * 8, // moduledata.ftab, a part of the table too
	READ_BYTES = 64 << 10,
	RELOCATIONS_BYTES_MAX = 64 << 20,
	MODULE_BYTES_MAX = 16 << 20, // of the section that is searched for moduledata
};

static bool is_code(const struct elf *elf, uint64_t address)
{
	return address && elf_find_code(elf, address) != NULL;
}

/* ---- position-independent programs: the words are in relocations -------------------------------- */

/* Words that the dynamic linker writes, found by address or by value. */
struct relocation_search {
	bool by_value;
	uint64_t key;
	uint64_t found;
};

static bool matches(struct relocation_search *search, const Elf64_Rela *relocation)
{
	if (ELF64_R_TYPE(relocation->r_info) != RELATIVE)
		return false;
	uint64_t value = (uint64_t)relocation->r_addend;
	if ((search->by_value ? value : relocation->r_offset) != search->key)
		return false;
	search->found = search->by_value ? relocation->r_offset : value;
	return true;
}

static int search_section(const struct elf *elf, const Elf64_Shdr *section,
			  struct relocation_search *search)
{
	_cleanup_free_ Elf64_Rela *relocations = malloc(READ_BYTES);
	uint64_t left =
		section->sh_size < RELOCATIONS_BYTES_MAX ? section->sh_size : RELOCATIONS_BYTES_MAX;
	uint64_t offset = section->sh_offset;

	if (!relocations)
		return -ENOMEM;
	for (left -= left % sizeof(*relocations); left;) {
		size_t whole = READ_BYTES - READ_BYTES % sizeof(*relocations);
		size_t size = left < whole ? left : whole;
		int rc = elf_read(elf, offset, relocations, size);

		if (rc)
			return rc == -ENOEXEC ? -ENOENT : rc;
		for (size_t i = 0; i < size / sizeof(*relocations); i++)
			if (matches(search, &relocations[i]))
				return 0;
		offset += size;
		left -= size;
	}
	return -ENOENT;
}

static int search_relocations(const struct elf *elf, struct relocation_search search,
			      uint64_t *ret_found)
{
	static const char *const names[] = { ".rela.dyn", ".rela" };
	Elf64_Shdr section;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		int rc = elf_find_section(elf, names[i], &section);
		if (!rc)
			rc = search_section(elf, &section, &search);
		if (!rc) {
			*ret_found = search.found;
			return 0;
		}
		if (rc == -ENOMEM)
			return rc;
	}
	return -ENOENT;
}

static int find_by_relocations(const struct elf *elf, uint64_t table_address, uint64_t *ret_text)
{
	uint64_t module;
	int rc = search_relocations(
		elf, (struct relocation_search){ .key = table_address + TEXT_START_AT }, ret_text);

	if (rc != -ENOENT)
		return rc;
	rc = search_relocations(
		elf, (struct relocation_search){ .by_value = true, .key = table_address }, &module);
	if (rc)
		return rc;
	return search_relocations(elf, (struct relocation_search){ .key = module + MODULE_TEXT_AT },
				  ret_text);
}

/* ---- programs at fixed addresses: moduledata is in the file --------------------------------------- */

/* Moduledata starts with the table's address; its other pointers into the table are higher. */
static bool is_module(const uint8_t *bytes, uint64_t table_address)
{
	uint64_t first, functab;

	memcpy(&first, bytes, sizeof(first));
	memcpy(&functab, bytes + MODULE_FUNCTAB_AT, sizeof(functab));
	return first == table_address && functab >= table_address &&
	       functab - table_address < (uint64_t)1 << 32;
}

static int find_in_section(const struct elf *elf, const char *name, uint64_t table_address,
			   uint64_t *ret_text)
{
	Elf64_Shdr section;
	int rc = elf_find_section(elf, name, &section);

	if (rc)
		return -ENOENT;
	uint64_t size = section.sh_size < MODULE_BYTES_MAX ? section.sh_size : MODULE_BYTES_MAX;
	if (section.sh_type == SHT_NOBITS || size < MODULE_TEXT_AT + 8 ||
	    section.sh_offset > elf->size || size > elf->size - section.sh_offset)
		return -ENOENT;
	_cleanup_free_ uint8_t *bytes = malloc(size);
	if (!bytes)
		return -ENOMEM;
	rc = elf_read(elf, section.sh_offset, bytes, size);
	if (rc)
		return rc;
	for (uint64_t at = 0; at + MODULE_TEXT_AT + 8 <= size; at += 8)
		if (is_module(bytes + at, table_address)) {
			memcpy(ret_text, bytes + at + MODULE_TEXT_AT, sizeof(*ret_text));
			return 0;
		}
	return -ENOENT;
}

static int find_by_module(const struct elf *elf, uint64_t table_address, uint64_t *ret_text)
{
	static const char *const names[] = { ".go.module", ".noptrdata", ".data" };
	int rc = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(names) && rc == -ENOENT; i++)
		rc = find_in_section(elf, names[i], table_address, ret_text);
	return rc;
}

int go_text_find(const struct elf *elf, uint64_t table_offset, uint64_t table_address,
		 uint64_t *ret_address)
{
	Elf64_Shdr section;
	uint64_t address;

	int rc = elf_read(elf, table_offset + TEXT_START_AT, &address, sizeof(address));
	if (rc || !is_code(elf, address))
		rc = find_by_module(elf, table_address, &address);
	if (rc || !is_code(elf, address))
		rc = find_by_relocations(elf, table_address, &address);
	if (rc && rc != -ENOMEM) { // Go's own linker puts nothing before Go's code
		rc = elf_find_section(elf, ".text", &section);
		address = rc ? 0 : section.sh_addr;
	}
	if (rc == -ENOMEM)
		return rc;
	if (!is_code(elf, address))
		return -ENOENT;
	*ret_address = address;
	return 0;
}
