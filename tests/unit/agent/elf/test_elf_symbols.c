// SPDX-License-Identifier: Apache-2.0
// Symbols by name: in this machine's libraries against dlsym(), and in damaged files.

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/elf/elf_symbols.h"
#include "base/cleanup.h"
#include "tests/test.h"
#include "tests/unit/agent/elf/elf_writer.h"

struct file {
	int fd;
	struct elf elf;
	struct elf_symbols symbols;
};

static int open_symbols(struct file *file, int fd)
{
	struct stat status;

	file->fd = fd;
	assert_int_equal(0, fstat(fd, &status));

	int rc = elf_read_headers(fd, &status, &file->elf, NULL);

	return rc ? rc : elf_symbols_init(&file->symbols, &file->elf);
}

static void close_symbols(struct file *file)
{
	elf_symbols_deinit(&file->symbols);
	close(file->fd);
}

/* The library that has @function, and where it was loaded. */
static const char *library_of(void *function, uint64_t *ret_base)
{
	Dl_info info;

	assert_true(dladdr(function, &info));
	*ret_base = (uintptr_t)info.dli_fbase;
	return info.dli_fname;
}

static const char *const library_names[] = { "_cmocka_run_group_tests", "_assert_int_equal",
					     "_fail", "_skip", "mock_assert" };

TEST(finds_exported_symbols_as_the_linker_does)
{
	uint64_t base;
	const char *path = library_of((void *)_cmocka_run_group_tests, &base);
	struct file file;

	assert_int_equal(0, open_symbols(&file, open(path, O_RDONLY | O_CLOEXEC)));
	for EACH (name, library_names) {
		Elf64_Sym symbol;

		EXPECT_EQ(0, elf_symbols_find_exported(&file.symbols, *name, &symbol), *name);
		EXPECT_EQ((uintptr_t)dlsym(RTLD_DEFAULT, *name), base + symbol.st_value, *name);
	}
	close_symbols(&file);
}

TEST(does_not_find_names_not_exported)
{
	static const char *const names[] = { "", "_", "_fail_", "_fai", "no_such_function" };
	char long_name[2 * ELF_SYMBOL_NAME_BYTES_MAX];
	uint64_t base;
	const char *path = library_of((void *)_cmocka_run_group_tests, &base);
	struct file file;
	Elf64_Sym symbol;

	assert_int_equal(0, open_symbols(&file, open(path, O_RDONLY | O_CLOEXEC)));
	for EACH (name, names)
		EXPECT_EQ(-ENOENT, elf_symbols_find_exported(&file.symbols, *name, &symbol), *name);
	memset(long_name, 'x', sizeof(long_name));
	long_name[sizeof(long_name) - 1] = '\0';
	EXPECT_EQ(-ENOENT, elf_symbols_find_exported(&file.symbols, long_name, &symbol), "long");
	close_symbols(&file);
}

struct expected {
	uint32_t seen, matched;
	const struct elf_symbols *symbols;
};

/* Whatever the pass over all symbols shows as exported function is found by its name too. */
static bool find_again(void *context, const char *name, const Elf64_Sym *symbol)
{
	struct expected *expected = context;
	Elf64_Sym found;

	if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC ||
	    ELF64_ST_BIND(symbol->st_info) != STB_GLOBAL || ++expected->seen > 2000)
		return true;
	if (!elf_symbols_find_exported(expected->symbols, name, &found))
		expected->matched += found.st_value == symbol->st_value;
	return true;
}

TEST(finds_each_exported_function_by_name)
{
	uint64_t base;
	const char *path = library_of((void *)_cmocka_run_group_tests, &base);
	struct file file;
	struct expected expected = { .symbols = &file.symbols };

	assert_int_equal(0, open_symbols(&file, open(path, O_RDONLY | O_CLOEXEC)));
	assert_int_equal(0, elf_symbols_each(&file.symbols, find_again, &expected));
	assert_true(expected.seen > 20);
	assert_int_equal(expected.seen, expected.matched);
	close_symbols(&file);
}

static bool count_symbol(void *context, const char *name, const Elf64_Sym *symbol)
{
	(void)name;
	(void)symbol;
	++*(uint32_t *)context;
	return true;
}

TEST(searches_files_without_a_hash_table)
{
	struct elf_image image;
	struct file file;
	Elf64_Sym symbol;
	uint32_t count = 0;

	image_init(&image);
	image_add_dynamic(&image, "first", 0x10, 16);
	image_add_dynamic(&image, "second", 0x20, 16);
	assert_int_equal(0, open_symbols(&file, image_open(&image)));
	assert_int_equal(0, elf_symbols_find_exported(&file.symbols, "second", &symbol));
	assert_int_equal(0x401020, symbol.st_value);
	assert_int_equal(-ENOENT, elf_symbols_find_exported(&file.symbols, "third", &symbol));
	assert_int_equal(0, elf_symbols_each(&file.symbols, count_symbol, &count));
	assert_int_equal(2, count);
	close_symbols(&file);
}

struct named {
	const struct elf_symbols *symbols;
	uint32_t count, matched;
};

static bool ask_for_name(void *context, const char *name, const Elf64_Sym *symbol)
{
	static const char *const names[] = { "a longer name than any", "second", "fir" };
	struct named *named = context;

	assert_null(name);
	named->count++;
	if (elf_symbols_is_named(named->symbols, symbol, names, ARRAY_SIZE(names)))
		named->matched += symbol->st_value == 0x401020 ? 1 : 100;
	return true;
}

TEST(reads_names_of_wanted_symbols_only)
{
	struct elf_image image;
	struct file file;
	struct named named = { .symbols = &file.symbols };

	image_init(&image);
	image_add_dynamic(&image, "first", 0x10, 16);
	image_add_dynamic(&image, "second", 0x20, 16);
	assert_int_equal(0, open_symbols(&file, image_open(&image)));
	assert_int_equal(0, elf_symbols_each_unnamed(&file.symbols, ask_for_name, &named));
	assert_int_equal(2, named.count);
	assert_int_equal(1, named.matched);
	close_symbols(&file);
}

static bool ask_any_name(void *context, const char *name, const Elf64_Sym *symbol)
{
	(void)name;
	elf_symbols_is_named(context, symbol, library_names, ARRAY_SIZE(library_names));
	return true;
}

/* Everything that reads symbols, over whatever the file has become. */
static void use(int fd)
{
	struct file file = { .symbols = { 0 } };
	Elf64_Sym symbol;
	uint32_t count = 0;

	if (!open_symbols(&file, fd)) {
		for EACH (name, library_names)
			elf_symbols_find_exported(&file.symbols, *name, &symbol);
		elf_symbols_find_exported(&file.symbols, "_cmocka_run_group_tests", &symbol);
		elf_symbols_find_section(&file.symbols, ".rodata");
		elf_symbols_each(&file.symbols, count_symbol, &count);
		elf_symbols_each_unnamed(&file.symbols, ask_any_name, &file.symbols);
	}
	close_symbols(&file);
}

TEST(survives_damaged_files)
{
	uint64_t base;
	const char *path = library_of((void *)_cmocka_run_group_tests, &base);
	_cleanup_close_ int original = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	uint32_t random = 1;

	assert_int_equal(0, fstat(original, &status));
	_cleanup_free_ uint8_t *bytes = malloc((size_t)status.st_size);
	assert_int_equal(status.st_size, pread(original, bytes, (size_t)status.st_size, 0));
	for (uint32_t round = 0; round < 3000; round++) {
		int fd = memfd_create("damaged", MFD_CLOEXEC);

		assert_int_equal(status.st_size, write(fd, bytes, (size_t)status.st_size));
		for (uint32_t i = 0; i < 1 + round % 8; i++) {
			random = random * 1664525 + 1013904223;
			// Headers and hash tables come first, section headers last.
			off_t place = random % 8192;
			uint8_t byte = random >> 24;

			if (round % 2)
				place = status.st_size - 1 - place;
			assert_int_equal(1, pwrite(fd, &byte, 1, place));
		}
		if (round % 16 == 0)
			assert_int_equal(0, ftruncate(fd, random % status.st_size));
		use(fd);
	}
}

RUN_TESTS(cmocka_unit_test(finds_exported_symbols_as_the_linker_does),
	  cmocka_unit_test(does_not_find_names_not_exported),
	  cmocka_unit_test(finds_each_exported_function_by_name),
	  cmocka_unit_test(searches_files_without_a_hash_table),
	  cmocka_unit_test(reads_names_of_wanted_symbols_only),
	  cmocka_unit_test(survives_damaged_files))
