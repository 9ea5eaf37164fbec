// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/symbol_table.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "tests/test.h"
#include "tests/unit/agent/elf/elf_writer.h"

static int read_cut(const struct elf_image *image, size_t size, int *ret_fd,
		    struct symbol_table **ret_table)
{
	struct stat status;
	struct elf elf;

	*ret_fd = image_open_cut(image, size);
	assert_int_equal(0, fstat(*ret_fd, &status));
	int rc = elf_read_headers(*ret_fd, &status, &elf, NULL);
	return rc ? rc : symbol_table_read(&(struct symbol_sources){ .elf = &elf }, ret_table);
}

static void check_symbol(const char *what, const struct symbol_table *table, int fd,
			 uint64_t offset, const char *name)
{
	char found[SYMBOL_NAME_BYTES] = "(none)";
	struct symbol_range range;

	if (symbol_table_find(table, IMAGE_TEXT + offset, &range) == 0)
		EXPECT_EQ(0, symbol_table_read_name(table, fd, -1, range.index, found), what);
	EXPECT_STR(name, found, what);
}

TEST(a_symbol_covers_its_own_bytes_only)
{
	struct elf_image image;
	struct symbol_table *table;
	int fd;

	image_init(&image);
	image_add_symbol(&image, "second", 0x200, 0x80, STB_GLOBAL, STT_FUNC);
	image_add_symbol(&image, "first", 0x100, 0x40, STB_LOCAL, STT_FUNC);
	image_add_symbol(&image, "open", 0x300, 0, STB_GLOBAL, STT_FUNC);
	image_add_symbol(&image, "after", 0x380, 0x10, STB_GLOBAL, STT_GNU_IFUNC);
	image_add_symbol(&image, "last", 0xe00, 0, STB_GLOBAL, STT_FUNC);
	image_add_symbol(&image, "too long", 0xf80, 1 << 30, STB_GLOBAL, STT_FUNC);
	image.sections[SECTION_TEXT].sh_size = 0xe80;
	assert_int_equal(0, read_cut(&image, IMAGE_BYTES, &fd, &table));
	assert_int_equal(6, symbol_table_count(table));

	static const struct {
		const char *what;
		uint64_t offset;
		const char *name;
	} rows[] = {
		{ "before all", 0xff, "(none)" },
		{ "first byte", 0x100, "first" },
		{ "last byte", 0x13f, "first" },
		{ "one past", 0x140, "(none)" },
		{ "second", 0x201, "second" },
		{ "no size reaches to the next", 0x37f, "open" },
		{ "next", 0x380, "after" },
		{ "gap", 0x390, "(none)" },
		{ "no size reaches to the section's end", 0xe7f, "last" },
		{ "and no further", 0xe80, "(none)" },
		{ "size is cut at the segment's end", 0xfff, "too long" },
		{ "past the text", 0x1000, "(none)" },
		{ "far past", UINT64_MAX - IMAGE_TEXT, "(none)" },
	};
	for EACH (row, rows)
		check_symbol(row->what, table, fd, row->offset, row->name);
	symbol_table_free(table);
	close(fd);
}

TEST(keeps_the_best_name_of_an_address)
{
	struct elf_image image;
	struct symbol_table *table;
	int fd;

	image_init(&image);
	image_add_symbol(&image, "weak", 0x100, 16, STB_WEAK, STT_FUNC);
	image_add_symbol(&image, "local", 0x100, 16, STB_LOCAL, STT_FUNC);
	image_add_symbol(&image, "global", 0x100, 16, STB_GLOBAL, STT_FUNC);
	image_add_symbol(&image, "sizeless global", 0x200, 0, STB_GLOBAL, STT_FUNC);
	image_add_symbol(&image, "sized weak", 0x200, 16, STB_WEAK, STT_FUNC);
	image_add_symbol(&image, "assembly", 0x300, 16, STB_GLOBAL, STT_NOTYPE);
	image_add_symbol(&image, "typed local", 0x300, 16, STB_LOCAL, STT_FUNC);
	image_add_dynamic(&image, "dynamic", 0x400, 16);
	image_add_symbol(&image, "static", 0x400, 16, STB_GLOBAL, STT_FUNC);
	image_add_dynamic(&image, "only dynamic", 0x500, 16);
	assert_int_equal(0, read_cut(&image, IMAGE_BYTES, &fd, &table));
	assert_int_equal(5, symbol_table_count(table));

	check_symbol("global before local and weak", table, fd, 0x101, "global");
	check_symbol("with size before without", table, fd, 0x201, "sized weak");
	check_symbol("typed before untyped", table, fd, 0x301, "typed local");
	check_symbol(".symtab before .dynsym", table, fd, 0x401, "static");
	check_symbol(".dynsym where nothing else is", table, fd, 0x501, "only dynamic");
	symbol_table_free(table);
	close(fd);
}

TEST(finds_symbols_of_large_code_in_any_order)
{
	static const struct {
		const char *name;
		uint64_t offset;
		uint32_t index; // in order of their offsets
	} functions[] = {
		{ "far", 0x3800100, 6 },     { "near", 0x100, 0 },
		{ "middle", 0x2000100, 4 },  { "second", 0x000900, 1 },
		{ "quarter", 0x1000080, 3 }, { "farthest", 0x3e00010, 7 },
		{ "third", 0x200100, 2 },    { "before far", 0x37ffff0, 5 },
	};
	struct elf_image image;
	struct symbol_table *table;
	struct symbol_range range = { 0 };
	struct stat status;
	struct elf elf;

	image_init(&image);
	image.segments[0].p_filesz = image.segments[0].p_memsz = 63 << 20;
	for EACH (function, functions)
		image_add_symbol(&image, function->name, function->offset, 16, STB_GLOBAL,
				 STT_FUNC);
	int fd = image_open(&image);
	assert_int_equal(0, ftruncate(fd, 64 << 20));
	assert_int_equal(0, fstat(fd, &status));
	assert_int_equal(0, elf_read_headers(fd, &status, &elf, NULL));
	assert_int_equal(0, symbol_table_read(&(struct symbol_sources){ .elf = &elf }, &table));
	assert_int_equal(ARRAY_SIZE(functions), symbol_table_count(table));
	for EACH (function, functions) {
		check_symbol(function->name, table, fd, function->offset + 15, function->name);
		symbol_table_find(table, IMAGE_TEXT + function->offset, &range);
		EXPECT_EQ(function->index, range.index, function->name);
	}
	symbol_table_free(table);
	close(fd);
}

TEST(an_enclosing_symbol_covers_what_follows)
{
	struct elf_image image;
	struct symbol_table *table;
	int fd;

	image_init(&image);
	image_add_symbol(&image, "outer", 0x100, 0x100, STB_GLOBAL, STT_FUNC);
	image_add_symbol(&image, "inner", 0x140, 0x10, STB_LOCAL, STT_FUNC);
	assert_int_equal(0, read_cut(&image, IMAGE_BYTES, &fd, &table));
	check_symbol("before", table, fd, 0x13f, "outer");
	check_symbol("within", table, fd, 0x140, "inner");
	check_symbol("after", table, fd, 0x150, "outer");
	check_symbol("beyond", table, fd, 0x200, "(none)");
	symbol_table_free(table);
	close(fd);
}

TEST(leaves_out_what_is_no_function)
{
	struct elf_image image;
	struct symbol_table *table;
	int fd;

	image_init(&image);
	image_add_symbol(&image, "object", 0x100, 16, STB_GLOBAL, STT_OBJECT);
	image_add_symbol(&image, "label", 0x110, 0, STB_LOCAL, STT_NOTYPE);
	image_add_symbol(&image, "section", 0x120, 16, STB_LOCAL, STT_SECTION);
	image_add_symbol(&image, "imported", 0x130, 16, STB_GLOBAL, STT_FUNC)->st_shndx = SHN_UNDEF;
	image_add_symbol(&image, "absolute", 0x140, 16, STB_GLOBAL, STT_FUNC)->st_shndx = SHN_ABS;
	image_add_symbol(&image, "unnamed", 0x150, 16, STB_GLOBAL, STT_FUNC)->st_name = 0;
	image_add_symbol(&image, "named outside", 0x160, 16, STB_GLOBAL, STT_FUNC)->st_name =
		UINT32_MAX;
	image_add_symbol(&image, "elsewhere", 0x10000, 16, STB_GLOBAL, STT_FUNC);
	image_add_symbol(&image, "at the end", 0, 16, STB_GLOBAL, STT_FUNC)->st_value = UINT64_MAX;
	assert_int_equal(0, read_cut(&image, IMAGE_BYTES, &fd, &table));
	assert_int_equal(0, symbol_table_count(table));
	symbol_table_free(table);
	close(fd);
}

static void break_symbol_count(struct elf_image *image)
{
	image->sections[SECTION_SYMTAB].sh_size = UINT64_MAX - 7;
}
static void break_symbol_place(struct elf_image *image)
{
	image->sections[SECTION_SYMTAB].sh_offset = UINT64_MAX - 7;
}
static void break_entry_size(struct elf_image *image)
{
	image->sections[SECTION_SYMTAB].sh_entsize = 0;
}
static void break_link(struct elf_image *image)
{
	image->sections[SECTION_SYMTAB].sh_link = UINT32_MAX;
}
static void link_to_itself(struct elf_image *image)
{
	image->sections[SECTION_SYMTAB].sh_link = SECTION_SYMTAB;
}
static void break_names_place(struct elf_image *image)
{
	image->sections[SECTION_STRTAB].sh_offset = UINT64_MAX;
}
static void break_names_size(struct elf_image *image)
{
	image->sections[SECTION_STRTAB].sh_size = UINT64_MAX;
}
static void break_section_headers(struct elf_image *image)
{
	image->header.e_shoff = UINT64_MAX - 3;
}
static void break_segment(struct elf_image *image)
{
	image->segments[0].p_vaddr = UINT64_MAX - IMAGE_TEXT_BYTES;
}
static void break_text_section(struct elf_image *image)
{
	image->sections[SECTION_TEXT].sh_size = UINT64_MAX;
	image->sections[SECTION_TEXT].sh_addr = UINT64_MAX;
}

TEST(absurd_sections_give_their_valid_symbols)
{
	static const struct {
		const char *what;
		void (*damage)(struct elf_image *image);
		uint32_t count;
	} rows[] = {
		{ "symbols without number", break_symbol_count, 0 },
		{ "symbols nowhere", break_symbol_place, 0 },
		{ "entries without size", break_entry_size, 0 },
		{ "names in no section", break_link, 0 },
		{ "names in the symbols", link_to_itself, 0 },
		{ "names past the end", break_names_place, 0 },
		{ "names without end", break_names_size, 2 },
		{ "section headers nowhere", break_section_headers, 0 },
		{ "segment at the end of memory", break_segment, 0 },
		{ "text section without end", break_text_section, 2 },
	};
	struct elf_image image;

	for EACH (row, rows) {
		struct symbol_table *table = NULL;
		int fd;

		image_init(&image);
		image_add_symbol(&image, "one", 0x100, 16, STB_GLOBAL, STT_FUNC);
		image_add_symbol(&image, "two", 0x200, 0, STB_GLOBAL, STT_FUNC);
		row->damage(&image);
		EXPECT_EQ(0, read_cut(&image, IMAGE_BYTES, &fd, &table), row->what);
		EXPECT_EQ(row->count, symbol_table_count(table), row->what);
		symbol_table_free(table);
		close(fd);
	}
}

TEST(cuts_a_name_without_end)
{
	struct elf_image image;
	struct symbol_table *table;
	struct symbol_range range;
	char name[SYMBOL_NAME_BYTES];
	int fd;

	image_init(&image);
	image_add_symbol(&image, "x", 0x100, 16, STB_GLOBAL, STT_FUNC);
	memset(image.names + 1, 'x', IMAGE_NAMES_MAX - 1);
	assert_int_equal(0, read_cut(&image, IMAGE_BYTES, &fd, &table));
	assert_int_equal(0, symbol_table_find(table, IMAGE_TEXT + 0x100, &range));
	assert_int_equal(0, symbol_table_read_name(table, fd, -1, range.index, name));
	assert_int_equal(SYMBOL_NAME_BYTES - 1, strlen(name));

	// The same where the table ends before the limit.
	assert_int_equal(0, ftruncate(fd, offsetof(struct elf_image, names) + 11));
	assert_int_equal(0, symbol_table_read_name(table, fd, -1, range.index, name));
	assert_string_equal("xxxxxxxxxx", name);
	assert_int_equal(0, ftruncate(fd, 16));
	assert_int_equal(-ENOENT, symbol_table_read_name(table, fd, -1, range.index, name));
	symbol_table_free(table);
	close(fd);
}

TEST(survives_truncation_at_any_length)
{
	struct elf_image image;

	image_init(&image);
	image_add_symbol(&image, "one", 0x100, 16, STB_GLOBAL, STT_FUNC);
	image_add_dynamic(&image, "two", 0x200, 16);
	// Section headers ahead of what they describe, so that each cut leaves them readable.
	memcpy(image.text, image.sections, sizeof(image.sections));
	image.header.e_shoff = IMAGE_TEXT;
	for (size_t size = 0; size <= IMAGE_BYTES; size += 13) {
		struct symbol_table *table = NULL;
		struct symbol_range range;
		char name[SYMBOL_NAME_BYTES];
		int fd;

		int rc = read_cut(&image, size, &fd, &table);
		assert_true(rc == 0 || rc == -ENOEXEC);
		for (uint64_t offset = 0; table && offset < IMAGE_TEXT_BYTES; offset += 8)
			if (symbol_table_find(table, IMAGE_TEXT + offset, &range) == 0)
				symbol_table_read_name(table, fd, -1, range.index, name);
		symbol_table_free(table);
		close(fd);
	}
}

TEST(survives_random_damage)
{
	struct elf_image image;

	srand(3);
	for (int round = 0; round < 3000; round++) {
		struct symbol_table *table = NULL;
		struct symbol_range range;
		char name[SYMBOL_NAME_BYTES];
		int fd;

		image_init(&image);
		for (uint64_t i = 0; i < 20; i++)
			image_add_symbol(&image, "some", i * 64, 64, STB_GLOBAL, STT_FUNC);
		for (int i = 0; i < 8; i++) {
			// headers, symbols or section headers: where damage matters
			static const size_t starts[] = { 0, offsetof(struct elf_image, symbols),
							 offsetof(struct elf_image, sections) };
			((uint8_t *)&image)[starts[rand() % 3] + (size_t)rand() % 400] =
				(uint8_t)(rand() % 3 ? rand() : -1);
		}
		if (read_cut(&image, IMAGE_BYTES, &fd, &table) == 0)
			for (uint64_t offset = 0; offset < 2 * IMAGE_TEXT_BYTES; offset += 32)
				if (symbol_table_find(table, offset, &range) == 0)
					symbol_table_read_name(table, fd, -1, range.index, name);
		symbol_table_free(table);
		close(fd);
	}
}

RUN_TESTS(cmocka_unit_test(a_symbol_covers_its_own_bytes_only),
	  cmocka_unit_test(keeps_the_best_name_of_an_address),
	  cmocka_unit_test(finds_symbols_of_large_code_in_any_order),
	  cmocka_unit_test(an_enclosing_symbol_covers_what_follows),
	  cmocka_unit_test(leaves_out_what_is_no_function),
	  cmocka_unit_test(absurd_sections_give_their_valid_symbols),
	  cmocka_unit_test(cuts_a_name_without_end),
	  cmocka_unit_test(survives_truncation_at_any_length),
	  cmocka_unit_test(survives_random_damage))
