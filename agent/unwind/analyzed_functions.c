// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/analyzed_functions.h"

#include <errno.h>
#include <string.h>

#include "agent/unwind/analysis/code_analysis.h"
#include "agent/elf/elf_symbols.h"
#include "base/cleanup.h"

/* In place of the marks' hash: this entry of the cache is no table. */
#define KEPT_AS 0x666f6c6c6f776564ULL

/* v8::V8::GetVersion(), exported to Node's modules: only with it all names are searched. */
static const char v8_exports[] = "_ZN2v82V810GetVersionEv";
static const char v8_prefix[] = "Builtins_";

static bool overlap(const struct unwind_function *a, const struct unwind_function *b)
{
	return a->offset == b->offset || (a->offset < b->offset ? b->offset - a->offset < a->size
								: a->offset - b->offset < b->size);
}

/* Both are places in code without symbols, near enough to have been analyzed together: each sample ends at another. */
static bool are_near(const struct unwind_function *a, const struct unwind_function *b)
{
	uint64_t apart = a->offset < b->offset ? b->offset - a->offset : a->offset - b->offset;

	return a->size == UNWIND_UNKNOWN_BYTES && b->size == UNWIND_UNKNOWN_BYTES &&
	       apart < UNWIND_UNKNOWN_APART_BYTES;
}

bool analyzed_functions_add(struct analyzed_functions *functions,
			    const struct unwind_function *function)
{
	for (uint32_t i = 0; i < functions->count; i++)
		if (overlap(&functions->functions[i], function) ||
		    are_near(&functions->functions[i], function))
			return false;
	if (functions->count == UNWIND_FUNCTIONS_MAX)
		return false;
	functions->functions[functions->count++] = *function;
	return true;
}

struct extent {
	uint64_t start, limit;
};

static bool widen(void *context, const char *name, const Elf64_Sym *symbol)
{
	struct extent *extent = context;
	uint64_t limit = symbol->st_value + symbol->st_size;

	if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || limit < symbol->st_value ||
	    strncmp(name, v8_prefix, strlen(v8_prefix)) != 0)
		return true;
	if (symbol->st_value < extent->start)
		extent->start = symbol->st_value;
	if (limit > extent->limit)
		extent->limit = limit;
	return true;
}

int analyzed_functions_expect(const struct elf *elf, struct analyzed_functions *functions)
{
	_cleanup_(elf_symbols_deinit) struct elf_symbols symbols = { 0 };
	struct extent extent = { .start = UINT64_MAX };
	int rc = elf_symbols_init(&symbols, elf);

	if (rc)
		return rc == -ENOMEM ? rc : 0;
	Elf64_Sym symbol;
	if (elf_symbols_find_exported(&symbols, v8_exports, &symbol))
		return 0;
	elf_symbols_each(&symbols, widen, &extent);
	const Elf64_Phdr *load = elf_find_code(elf, extent.start);
	// Half of the list: the rest is for functions around it.
	if (extent.limit <= extent.start ||
	    extent.limit - extent.start > CODE_ANALYSIS_BYTES_MAX / 2 || !load ||
	    extent.limit - load->p_vaddr > load->p_filesz)
		return 0;
	analyzed_functions_add(functions, &(struct unwind_function){
						  .offset = elf_file_offset(load, extent.start),
						  .size = extent.limit - extent.start,
					  });
	return 0;
}

// Cached as the rules of a table without code, which have the same size.
_Static_assert(sizeof(struct unwind_function) == sizeof(struct unwind_rule), "one for the other");

static void free_tablep(struct unwind_table **table)
{
	unwind_table_free(*table);
}

void analyzed_functions_load(struct unwind_table_cache *cache, const char *id,
			     struct analyzed_functions *functions)
{
	_cleanup_(free_tablep) struct unwind_table *kept = NULL;

	if (!cache || unwind_table_cache_find(cache, id, KEPT_AS, &kept))
		return;
	for (uint32_t i = 0; i < kept->rule_count; i++) {
		struct unwind_function function;

		memcpy(&function, &kept->rules[i], sizeof(function));
		analyzed_functions_add(functions, &function);
	}
}

void analyzed_functions_store(struct unwind_table_cache *cache, const char *id,
			      const struct analyzed_functions *functions)
{
	struct unwind_rule rules[UNWIND_FUNCTIONS_MAX];
	struct unwind_table kept = { .rules = rules, .rule_count = functions->count };

	memcpy(rules, functions->functions, functions->count * sizeof(*rules));
	if (cache)
		unwind_table_cache_add(cache, id, KEPT_AS, &kept);
}
