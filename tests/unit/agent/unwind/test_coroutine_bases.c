// SPDX-License-Identifier: Apache-2.0
// Stacks end where a coroutine begins: in small libraries with greenlet's names.
#include "agent/unwind/coroutine_bases.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/elf/elf_symbols.h"
#include "agent/unwind/unwind_table_build.h"
#include "base/cleanup.h"
#include "tests/test.h"

enum { ROWS_MAX = 10000, CALL_OFFSET = 6 };

#define CALLING(name)      "__attribute__((noinline)) int " name "(int (*f)(int)) { return f(1) + 1; } "
#define MODULE(name, base) "int " name "(int (*f)(int)) { return other(f) + " base "(f); }"
#define CPP_BASE           "_ZN8greenlet12UserGreenlet13g_initialstubEPv"

struct wanted_symbol {
	const char *name;
	uint64_t address;
};

static bool keep_symbol(void *context, const char *name, const Elf64_Sym *symbol)
{
	struct wanted_symbol *wanted = context;

	if (strcmp(name, wanted->name) == 0)
		wanted->address = symbol->st_value;
	return true;
}

static uint64_t address_of(const struct elf *elf, const char *name)
{
	_cleanup_(elf_symbols_deinit) struct elf_symbols symbols = { 0 };
	struct wanted_symbol wanted = { .name = name };

	assert_int_equal(0, elf_symbols_init(&symbols, elf));
	assert_int_equal(0, elf_symbols_each(&symbols, keep_symbol, &wanted));
	assert_int_not_equal(0, wanted.address);
	return wanted.address;
}

/** Do stacks end where @name calls? The library is compiled of @source. */
static bool ends_in(const char *source, const char *name)
{
	char path[] = "/tmp/cairn-coroutine-XXXXXX", command[1024];
	_cleanup_close_ int made = mkstemp(path);
	struct unwind_table *table = NULL;
	struct elf elf;
	struct stat status;

	snprintf(command, sizeof(command), "echo '%s' | cc -O1 -shared -fPIC -x c -o '%s' -",
		 source, path);
	assert_int_equal(0, system(command));
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	unlink(path);
	assert_int_equal(0, fstat(fd, &status));
	assert_int_equal(0, elf_read_headers(fd, &status, &elf, NULL));
	assert_int_equal(0, unwind_table_build(&elf, NULL, 0, ROWS_MAX, &table, NULL));

	bool ends = unwind_table_find(table, address_of(&elf, name) + CALL_OFFSET)->cfa == CFA_END;
	unwind_table_free(table);
	return ends;
}

TEST(stacks_end_where_greenlets_begin)
{
	const char *cpp = CALLING("other") CALLING(CPP_BASE) MODULE("PyInit__greenlet", CPP_BASE);
	const char *c = CALLING("other") "static " CALLING("g_initialstub")
		MODULE("PyInit__greenlet", "g_initialstub");

	EXPECT_EQ(true, ends_in(cpp, CPP_BASE), "greenlet 2 and newer");
	EXPECT_EQ(true, ends_in(c, "g_initialstub"), "greenlet 1");
	EXPECT_EQ(false, ends_in(c, "other"), "another function of it");
}

TEST(other_libraries_may_use_the_name)
{
	EXPECT_EQ(false,
		  ends_in(CALLING("other") CALLING("g_initialstub")
				  MODULE("PyInit_other", "g_initialstub"),
			  "g_initialstub"),
		  "another module");
}

RUN_TESTS(cmocka_unit_test(stacks_end_where_greenlets_begin),
	  cmocka_unit_test(other_libraries_may_use_the_name))
