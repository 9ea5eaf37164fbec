// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/coroutine_bases.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/elf/elf_symbols.h"
#include "base/cleanup.h"

// greenlet, which gevent, eventlet and SQLAlchemy use. g_initialstub() calls the greenlet's function and does not return
// while it lives: greenlet.c and greenlet.cpp (static, named in .symtab only), src/greenlet/TUserGreenlet.cpp since 2.0.
static const char greenlet_module[] = "PyInit__greenlet";
static const char *const base_names[] = {
	"_ZN8greenlet12UserGreenlet13g_initialstubEPv",
	"g_initialstub",
};

static bool is_base(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(base_names); i++)
		if (strcmp(name, base_names[i]) == 0)
			return true;
	return false;
}

static bool end_in(void *context, const char *name, const Elf64_Sym *symbol)
{
	struct unwind_rows *rows = context;
	const struct unwind_rule end = { .cfa = CFA_END };
	uint32_t index;

	if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || !is_base(name))
		return true;
	index = unwind_rows_find(rows, symbol->st_value);
	if (index < rows->range_count && rows->ranges[index].start == symbol->st_value)
		unwind_rows_replace(rows, index, &end);
	return true;
}

int coroutine_bases_end(const struct elf *elf, struct unwind_rows *rows, struct error *err)
{
	_cleanup_(elf_symbols_deinit) struct elf_symbols symbols = { 0 };
	Elf64_Sym module;
	int rc = elf_symbols_init(&symbols, elf);

	if (!rc)
		rc = elf_symbols_find_exported(&symbols, greenlet_module, &module);
	if (!rc)
		rc = elf_symbols_each(&symbols, end_in, rows);
	if (!rc)
		rc = rows->rc;
	if (rc == -ENOENT || rc == -ENOEXEC || rc == -E2BIG)
		return 0; // no greenlets, or a symbol table that nobody can read
	return rc ? error_errno(err, rc, "symbols") : 0;
}
