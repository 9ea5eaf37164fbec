// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/elf_symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { SYMBOLS_PER_READ = 4096 };

/* The head of .gnu.hash; the layout is described by "GNU Hash ELF Sections" (Ali Bahrami, 2010). */
struct gnu_hash {
	uint32_t bucket_count;
	uint32_t first_symbol; // symbols before it are not hashed
	uint32_t bloom_count;  // words of 64 bits
	uint32_t bloom_shift;
};

int elf_symbols_init(struct elf_symbols *symbols, const struct elf *elf)
{
	*symbols = (struct elf_symbols){ .elf = elf };

	int rc = elf_read_sections(elf, &symbols->sections, &symbols->section_count);

	return rc == -ENOENT ? 0 : rc;
}

void elf_symbols_deinit(struct elf_symbols *symbols)
{
	free(symbols->sections);
	*symbols = (struct elf_symbols){ 0 };
}

static const Elf64_Shdr *find_type(const struct elf_symbols *symbols, uint32_t type)
{
	for (uint32_t i = 0; i < symbols->section_count; i++) {
		if (symbols->sections[i].sh_type == type)
			return &symbols->sections[i];
	}
	return NULL;
}

static const Elf64_Shdr *section_at(const struct elf_symbols *symbols, uint32_t at)
{
	return at < symbols->section_count ? &symbols->sections[at] : NULL;
}

/* Item @at of a section's array of @size bytes each. */
static int read_item(const struct elf_symbols *symbols, const Elf64_Shdr *section, uint64_t start,
		     uint64_t at, void *item, size_t size)
{
	uint64_t offset = start + at * size; // at is of 32 bits, so this cannot wrap

	if (offset > section->sh_size || size > section->sh_size - offset)
		return -ENOEXEC;
	return elf_read(symbols->elf, section->sh_offset + offset, item, size);
}

/* Is @name at @offset of the string table? */
static int compare_name(const struct elf_symbols *symbols, const Elf64_Shdr *strings,
			uint64_t offset, const char *name)
{
	char bytes[ELF_SYMBOL_NAME_BYTES_MAX];
	size_t size = strlen(name) + 1;

	if (offset > strings->sh_size || size > strings->sh_size - offset)
		return -ENOENT;

	int rc = elf_read(symbols->elf, strings->sh_offset + offset, bytes, size);

	if (rc)
		return rc;
	return memcmp(bytes, name, size) ? -ENOENT : 0;
}

static uint32_t gnu_hash_of(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (uint8_t)*name;
	return hash;
}

/* The Bloom filter: most lookups end after one word. */
static int check_bloom(const struct elf_symbols *symbols, const Elf64_Shdr *section,
		       const struct gnu_hash *head, uint32_t hash)
{
	uint64_t word, bits;
	int rc;

	if (!head->bloom_count || !head->bucket_count)
		return -ENOENT;
	rc = read_item(symbols, section, sizeof(*head), hash / 64 % head->bloom_count, &word,
		       sizeof(word));
	if (rc)
		return rc;
	bits = 1ULL << hash % 64 | 1ULL << (hash >> (head->bloom_shift & 31)) % 64;
	return (word & bits) == bits ? 0 : -ENOENT;
}

/* Is symbol @at of @table the defined @name? Returns 0; -ENOENT: no; otherwise as elf_read(). */
static int match_symbol(const struct elf_symbols *symbols, const Elf64_Shdr *table, uint32_t at,
			const char *name, Elf64_Sym *ret_symbol)
{
	const Elf64_Shdr *strings = section_at(symbols, table->sh_link);
	Elf64_Sym symbol;
	int rc = read_item(symbols, table, 0, at, &symbol, sizeof(symbol));

	if (rc || !strings)
		return rc ? rc : -ENOEXEC;
	if (symbol.st_shndx == SHN_UNDEF)
		return -ENOENT;
	rc = compare_name(symbols, strings, symbol.st_name, name);
	if (!rc)
		*ret_symbol = symbol;
	return rc;
}

/* Symbols of a bucket are consecutive, from @at on; the last one's hash is odd. */
static int search_chain(const struct elf_symbols *symbols, const Elf64_Shdr *section,
			const struct gnu_hash *head, uint32_t at, const char *name,
			Elf64_Sym *ret_symbol)
{
	uint64_t chains = sizeof(*head) + 8ULL * head->bloom_count + 4ULL * head->bucket_count;
	const Elf64_Shdr *table = section_at(symbols, section->sh_link);
	uint32_t hash = gnu_hash_of(name), found;

	if (!table)
		return -ENOEXEC;
	for (uint32_t limit = at + ELF_SYMBOL_CHAIN_MAX; at < limit; at++) {
		int rc = read_item(symbols, section, chains, at - head->first_symbol, &found,
				   sizeof(found));

		if (!rc && (found | 1) == (hash | 1))
			rc = match_symbol(symbols, table, at, name, ret_symbol);
		else if (!rc)
			rc = -ENOENT;
		if (rc != -ENOENT || found & 1)
			return rc;
	}
	return -ENOENT;
}

static int search_bucket(const struct elf_symbols *symbols, const Elf64_Shdr *section,
			 const struct gnu_hash *head, const char *name, Elf64_Sym *ret_symbol)
{
	uint32_t at;
	int rc = read_item(symbols, section, sizeof(*head) + 8ULL * head->bloom_count,
			   gnu_hash_of(name) % head->bucket_count, &at, sizeof(at));

	if (rc)
		return rc;
	if (at < head->first_symbol)
		return -ENOENT;
	return search_chain(symbols, section, head, at, name, ret_symbol);
}

struct search {
	const char *name;
	Elf64_Sym *symbol;
	bool found;
};

static bool match_name(void *context, const char *name, const Elf64_Sym *symbol)
{
	struct search *search = context;

	if (strcmp(name, search->name) != 0)
		return true;
	*search->symbol = *symbol;
	search->found = true;
	return false;
}

static int visit_table(const struct elf_symbols *symbols, const Elf64_Shdr *table,
		       elf_symbol_visit *visit, void *context);

bool elf_symbols_has_exported(const struct elf_symbols *symbols)
{
	const Elf64_Shdr *table = find_type(symbols, SHT_DYNSYM);

	return table && table->sh_size > sizeof(Elf64_Sym); // symbol 0 is reserved
}

int elf_symbols_find_exported(const struct elf_symbols *symbols, const char *name,
			      Elf64_Sym *ret_symbol)
{
	const Elf64_Shdr *section = find_type(symbols, SHT_GNU_HASH);
	struct gnu_hash head;
	int rc;

	if (strlen(name) >= ELF_SYMBOL_NAME_BYTES_MAX)
		return -ENOENT;
	if (!section) {
		// Without .gnu.hash: compare all names.
		const Elf64_Shdr *table = find_type(symbols, SHT_DYNSYM);
		struct search search = { .name = name, .symbol = ret_symbol };

		if (!table)
			return -ENOENT;
		rc = visit_table(symbols, table, match_name, &search);
		return rc ? rc : search.found ? 0 : -ENOENT;
	}
	rc = read_item(symbols, section, 0, 0, &head, sizeof(head));
	if (rc)
		return rc;
	rc = check_bloom(symbols, section, &head, gnu_hash_of(name));
	if (rc)
		return rc;
	return search_bucket(symbols, section, &head, name, ret_symbol);
}

const Elf64_Shdr *elf_symbols_find_section(const struct elf_symbols *symbols, const char *name)
{
	const Elf64_Shdr *strings = section_at(symbols, symbols->elf->header.e_shstrndx);

	for (uint32_t i = 0; strings && i < symbols->section_count; i++) {
		if (!compare_name(symbols, strings, symbols->sections[i].sh_name, name))
			return &symbols->sections[i];
	}
	return NULL;
}

/* The string table of @table, with a NUL at its end whatever the file holds. */
static int read_strings(const struct elf_symbols *symbols, const Elf64_Shdr *table,
			char **ret_strings, uint64_t *ret_size)
{
	const Elf64_Shdr *section = section_at(symbols, table->sh_link);
	_cleanup_free_ char *strings = NULL;
	int rc;

	if (!section)
		return -ENOEXEC;
	if (section->sh_size > ELF_SYMBOL_STRING_BYTES_MAX)
		return -E2BIG;
	if (section->sh_size > symbols->elf->size)
		return -ENOEXEC;
	strings = malloc(section->sh_size + 1);
	if (!strings)
		return -ENOMEM;
	rc = elf_read(symbols->elf, section->sh_offset, strings, section->sh_size);
	if (rc)
		return rc;
	strings[section->sh_size] = '\0';
	*ret_strings = take(strings);
	*ret_size = section->sh_size;
	return 0;
}

/* @strings NULL: no names. */
static int visit_symbols(const struct elf_symbols *symbols, const Elf64_Shdr *table,
			 const char *strings, uint64_t strings_size, elf_symbol_visit *visit,
			 void *context)
{
	uint64_t count = table->sh_size / sizeof(Elf64_Sym);
	_cleanup_free_ Elf64_Sym *batch = malloc(SYMBOLS_PER_READ * sizeof(*batch));
	int rc = 0;

	if (!batch)
		return -ENOMEM;
	if (count > ELF_SYMBOLS_MAX)
		return -E2BIG;
	for (uint64_t at = 0; !rc && at < count; at += SYMBOLS_PER_READ) {
		uint64_t batch_count =
			count - at < SYMBOLS_PER_READ ? count - at : SYMBOLS_PER_READ;

		rc = elf_read(symbols->elf, table->sh_offset + at * sizeof(*batch), batch,
			      batch_count * sizeof(*batch));
		for (uint64_t i = 0; !rc && i < batch_count; i++) {
			const char *name = strings ? strings + batch[i].st_name : NULL;

			if (batch[i].st_shndx == SHN_UNDEF || batch[i].st_name >= strings_size)
				continue;
			if (!visit(context, name, &batch[i]))
				return 0;
		}
	}
	return rc;
}

static int visit_table(const struct elf_symbols *symbols, const Elf64_Shdr *table,
		       elf_symbol_visit *visit, void *context)
{
	_cleanup_free_ char *strings = NULL;
	uint64_t strings_size;
	int rc = read_strings(symbols, table, &strings, &strings_size);

	return rc ? rc : visit_symbols(symbols, table, strings, strings_size, visit, context);
}

static const Elf64_Shdr *find_table(const struct elf_symbols *symbols)
{
	const Elf64_Shdr *table = find_type(symbols, SHT_SYMTAB);

	return table && table->sh_size >= 2 * sizeof(Elf64_Sym) ? table
								: find_type(symbols, SHT_DYNSYM);
}

int elf_symbols_each(const struct elf_symbols *symbols, elf_symbol_visit *visit, void *context)
{
	const Elf64_Shdr *table = find_table(symbols);

	return table ? visit_table(symbols, table, visit, context) : -ENOENT;
}

int elf_symbols_each_unnamed(const struct elf_symbols *symbols, elf_symbol_visit *visit,
			     void *context)
{
	const Elf64_Shdr *table = find_table(symbols);
	const Elf64_Shdr *strings = table ? section_at(symbols, table->sh_link) : NULL;

	if (!strings)
		return table ? -ENOEXEC : -ENOENT;
	return visit_symbols(symbols, table, NULL, strings->sh_size, visit, context);
}

bool elf_symbols_is_named(const struct elf_symbols *symbols, const Elf64_Sym *symbol,
			  const char *const *names, size_t name_count)
{
	const Elf64_Shdr *table = find_table(symbols);
	const Elf64_Shdr *strings = table ? section_at(symbols, table->sh_link) : NULL;
	char bytes[ELF_SYMBOL_NAME_BYTES_MAX];
	uint64_t left = strings && symbol->st_name < strings->sh_size
				? strings->sh_size - symbol->st_name
				: 0;
	size_t size = 0;

	for (size_t i = 0; i < name_count; i++) {
		size_t needed = strlen(names[i]) + 1;

		size = needed > size ? needed : size;
	}
	size = size < sizeof(bytes) ? size : sizeof(bytes);
	size = size < left ? size : left;
	if (!size || elf_read(symbols->elf, strings->sh_offset + symbol->st_name, bytes, size))
		return false;
	for (size_t i = 0; i < name_count; i++) {
		size_t needed = strlen(names[i]) + 1;

		if (needed <= size && !memcmp(names[i], bytes, needed))
			return true;
	}
	return false;
}
