// SPDX-License-Identifier: Apache-2.0
// Symbols of an ELF file by name: exported ones through the file's own hash table, in a few small
// reads however large the file is; all of them in one pass. The file is hostile. (For addresses to
// names see symbol_table.h.)
#pragma once

#include <stdbool.h>

#include "agent/elf/elf.h"

enum {
	ELF_SYMBOL_NAME_BYTES_MAX = 256,         // of a name asked for
	ELF_SYMBOL_STRING_BYTES_MAX = 256 << 20, // a string table beyond this is not read
	ELF_SYMBOL_CHAIN_MAX = 4096,             // symbols compared for one name
	ELF_SYMBOLS_MAX = 4 << 20, // of one table: Chromium, unstripped, has 1.5 million
};

/** Borrows @elf. */
struct elf_symbols {
	const struct elf *elf;
	Elf64_Shdr *sections; // owned
	uint32_t section_count;
};

/** Returns 0 (also for a file without sections); -ENOEXEC; -ENOMEM; -errno when reading fails. */
int elf_symbols_init(struct elf_symbols *symbols, const struct elf *elf);
void elf_symbols_deinit(struct elf_symbols *symbols);

/** Does it export or import anything by name? Static executables do not. */
bool elf_symbols_has_exported(const struct elf_symbols *symbols);

/**
 * The exported, defined symbol @name. Returns 0; -ENOENT; -ENOEXEC if the file contradicts itself;
 * -errno when reading fails.
 */
int elf_symbols_find_exported(const struct elf_symbols *symbols, const char *name,
			      Elf64_Sym *ret_symbol);

/** The section @name, or NULL. */
const Elf64_Shdr *elf_symbols_find_section(const struct elf_symbols *symbols, const char *name);

/** Called with each defined symbol; @name is valid during the call. Returns false to end it. */
typedef bool elf_symbol_visit(void *context, const char *name, const Elf64_Sym *symbol);

/**
 * All of .symtab, or where there is none, of .dynsym. Returns 0; -ENOENT if the file has neither;
 * -ENOEXEC; -E2BIG past a limit; -ENOMEM; -errno when reading fails.
 */
int elf_symbols_each(const struct elf_symbols *symbols, elf_symbol_visit *visit, void *context);

/**
 * The same without names: @name is NULL. The string table, which is most of what is to be read, stays
 * where it is: libtorch's is 78 MB.
 */
int elf_symbols_each_unnamed(const struct elf_symbols *symbols, elf_symbol_visit *visit,
			     void *context);

/** Has a symbol, of those that each visits, one of the names? No, where it cannot be read. */
bool elf_symbols_is_named(const struct elf_symbols *symbols, const Elf64_Sym *symbol,
			  const char *const *names, size_t name_count);
