// SPDX-License-Identifier: Apache-2.0
// Call frame information as files have it: where it lies, what its entries say, what is broken or
// hostile in it.
#include "agent/unwind/cfi.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "tests/unit/agent/unwind/table_text.h"

/* ---- where call frame information lies ------------------------------------------------------- */

TEST(a_file_without_cfi_has_no_rows)
{
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".other");
	struct unwind_table *table = build(&image);
	assert_int_equal(0, table->block_count);
	assert_int_equal(0, table->word_count);
	assert_null(unwind_table_find(table, CFI_TEXT));
	unwind_table_free(table);
}

TEST(finds_eh_frame_by_segment_without_section_headers)
{
	struct cfi_image image;
	const uint8_t header[] = { 1, 0x1b, 3, 0x3b };

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	cfi_image_put_function(&image, 0x10, 0x10, NULL, 0);
	cfi_image_put_number(&image, 0, 4);
	cfi_image_put_function(&image, 0x30, 0x10, NULL, 0); // behind the end
	image.header.e_shoff = 0;
	image.header.e_shnum = 0;
	int32_t distance = CFI_FRAME - (0x500000 + 4);
	memcpy(image.frame_header, header, 4);
	memcpy(image.frame_header + 4, &distance, 4);
	image.segments[2] = (Elf64_Phdr){ .p_type = PT_GNU_EH_FRAME,
					  .p_offset = offsetof(struct cfi_image, frame_header),
					  .p_vaddr = 0x500000,
					  .p_filesz = 16 };
	expect_rows("0 none | 10 7+8 = c-8 | 20 none", &image, 0x100, "by segment");
}

TEST(a_separate_debug_file_has_no_table)
{
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	cfi_image_put_function(&image, 0x10, 0x10, NULL, 0);
	image.sections[CFI_SECTION_FRAME].sh_type = SHT_NOBITS;
	image.segments[2] = (Elf64_Phdr){ .p_type = PT_GNU_EH_FRAME }; // leads anywhere
	expect_rows("0 none", &image, 0x100, "no bits");
}

TEST(reads_past_a_terminator_inside_the_section)
{
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	cfi_image_put_function(&image, 0x10, 0x10, NULL, 0);
	cfi_image_put_number(&image, 0, 4);
	cfi_image_put_function(&image, 0x40, 0x10, NULL, 0);
	expect_rows("0 none | 10 7+8 = c-8 | 20 none | 40 7+8 = c-8 | 50 none", &image, 0x100,
		    "an end");
}

static void put_debug_frame(struct cfi_image *image, uint8_t version)
{
	static const uint8_t program[] = { 0x0c, 7, 8, 0x80 | 16, 1 };

	cfi_image_put_common(image, version, "", NULL, 0, program, sizeof(program));
	cfi_image_put_absolute_function(image, CFI_TEXT + 0x10, 0x10, CFI_PUSH_AFTER(4), 3);
	cfi_image_put_absolute_function(image, 0, 0x40, NULL, 0); // dropped by the linker
	cfi_image_put_absolute_function(image, UINT64_MAX - 1, 0x40, NULL, 0);
}

TEST(reads_debug_frame_without_eh_frame)
{
	for (uint8_t version = 0; version <= 5; version++) {
		bool is_known = version == 1 || version == 3 || version == 4;
		struct cfi_image image;

		cfi_image_init(&image, EM_X86_64, ".debug_frame");
		put_debug_frame(&image, version);
		expect_rows(is_known ? "0 none | 10 7+8 = c-8 | 14 7+16 = c-8 | 20 none"
				     : "0 none | 10 unsupported | 20 none",
			    &image, 0x100, "version");
	}
}

/* The frame's bytes are replaced by what they are compressed to. */
static void compress_frame(struct cfi_image *image, uint32_t type, uint64_t claimed)
{
	Elf64_Chdr header = { .ch_type = type, .ch_size = claimed, .ch_addralign = 1 };
	uint8_t deflated[4096];
	uLongf size = sizeof(deflated);

	assert_int_equal(Z_OK, compress(deflated, &size, image->frame, image->frame_size));
	image->frame_size = 0;
	cfi_image_put(image, &header, sizeof(header));
	cfi_image_put(image, deflated, size);
	image->sections[CFI_SECTION_FRAME].sh_flags |= SHF_COMPRESSED;
}

TEST(inflates_a_compressed_section)
{
	const char *rows = "0 none | 10 7+8 = c-8 | 14 7+16 = c-8 | 20 none";
	struct cfi_image image;
	uint32_t size;

	cfi_image_init(&image, EM_X86_64, ".debug_frame");
	put_debug_frame(&image, 3);
	size = image.frame_size;
	compress_frame(&image, ELFCOMPRESS_ZLIB, size);
	expect_rows(rows, &image, 0x100, "zlib");
}

static const struct {
	const char *what;
	uint32_t type;
	int64_t claimed; // more than there is; below 0: the whole number
	uint32_t cut;
	int rc;
	uint32_t unsupported;
} compressions[] = {
	{ "of another kind", 2, 0, 0, 0, 1 },
	{ "of an unknown kind", 77, 0, 0, 0, 1 },
	{ "claims to be 4 GB", ELFCOMPRESS_ZLIB, -(4LL << 30), 0, 0, 1 },
	{ "claims to be 200 MB", ELFCOMPRESS_ZLIB, -(200LL << 20), 0, 0, 1 },
	{ "claims less than there is", ELFCOMPRESS_ZLIB, -4, 0, 0, 1 },
	{ "claims more than there is", ELFCOMPRESS_ZLIB, 100, 0, 0, 0 },
	{ "is cut", ELFCOMPRESS_ZLIB, 0, 20, -ENOEXEC, 0 },
	{ "is cut in the header", ELFCOMPRESS_ZLIB, 0, 1000, -ENOEXEC, 0 },
};

TEST(survives_hostile_compressed_sections)
{
	for EACH (c, compressions) {
		struct unwind_table *table = NULL;
		struct cfi_image image;
		struct error err;
		struct elf elf;

		cfi_image_init(&image, EM_X86_64, ".debug_frame");
		put_debug_frame(&image, 3);
		compress_frame(&image, c->type,
			       c->claimed < 0 ? (uint64_t)-c->claimed
					      : image.frame_size + (uint64_t)c->claimed);
		uint64_t *size = &image.sections[CFI_SECTION_FRAME].sh_size;
		*size = c->cut > *size ? 10 : *size - c->cut;
		assert_int_equal(0, cfi_image_open_cut(&image, CFI_IMAGE_BYTES, &elf));
		EXPECT_EQ(c->rc,
			  unwind_table_build(&elf, NULL, 0, UNWIND_TABLE_ROWS_MAX, &table, &err),
			  c->what);
		EXPECT_EQ(c->unsupported, table ? table->unsupported_count : 0, c->what);
		unwind_table_free(table);
		close(elf.fd);
	}
}

/* ---- entries --------------------------------------------------------------------------------- */

static const struct {
	const char *what;
	const char *letters;
	uint8_t augmented[16];
	size_t size;
	const char *rows;
} augmentations[] = {
	{ "none", "", { 0 }, 0, "0 none | 10 7+8 = c-8 | 20 none" },
	{ "absolute addresses", "zR", { 0x00 }, 1, "0 none | 10 7+8 = c-8 | 20 none" },
	{ "signed ones", "zR", { 0x0c }, 1, "0 none | 10 7+8 = c-8 | 20 none" },
	{ "a personality",
	  "zPLR",
	  { 0x9b, 1, 2, 3, 4, 0x1b, 0x04 },
	  7,
	  "0 none | 10 7+8 = c-8 | 20 none" },
	{ "a personality that is absolute",
	  "zPR",
	  { 0x00, 1, 2, 3, 4, 5, 6, 7, 8, 0x04 },
	  10,
	  "0 none | 10 7+8 = c-8 | 20 none" },
	{ "no personality", "zPR", { 0xff, 0x04 }, 2, "0 none | 10 7+8 = c-8 | 20 none" },
	{ "B and G", "zRBG", { 0x04 }, 1, "0 none | 10 7+8 = c-8 | 20 none" },
	{ "more bytes than letters",
	  "zR",
	  { 0x04, 9, 9, 9 },
	  4,
	  "0 none | 10 7+8 = c-8 | 20 none" },
	{ "an unknown letter", "zRX", { 0x04, 1 }, 2, "0 none | 10 unsupported | 20 none" },
	{ "fewer bytes than letters", "zPR", { 0x03, 0x04 }, 2, NULL },
	{ "fewer bytes than the last letter needs",
	  "zRP",
	  { 0x04, 0x03 },
	  2,
	  "0 none | 10 unsupported | 20 none" },
	{ "an unknown encoding", "zR", { 0x05 }, 1, NULL },
	{ "addresses behind addresses", "zR", { 0x84 }, 1, NULL },
	{ "relative to the function", "zR", { 0x44 }, 1, NULL },
	{ "relative to the data", "zR", { 0x34 }, 1, NULL },
};

TEST(keeps_eh_frame_despite_broken_debug_frame)
{
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	cfi_image_put_function(&image, 0x10, 0x10, NULL, 0);
	uint32_t index = cfi_image_add_section(
		&image, ".debug_frame",
		(Elf64_Shdr){ .sh_type = SHT_PROGBITS, .sh_offset = 1 << 30, .sh_size = 100 });
	expect_rows("0 none | 10 7+8 = c-8 | 20 none", &image, 0x100, "not in the file");
	image.sections[index].sh_size = 1ULL << 40;
	struct unwind_table *table = build(&image);
	EXPECT_STR("0 none | 10 7+8 = c-8 | 20 none", rows_of(table, 0x100), "too large");
	EXPECT_EQ(1, table->unsupported_count, "too large");
	unwind_table_free(table);
}

TEST(reads_or_refuses_augmentations)
{
	static const uint8_t program[] = { 0x0c, 7, 8, 0x80 | 16, 1 };

	for EACH (a, augmentations) {
		struct cfi_image image;

		cfi_image_init(&image, EM_X86_64, ".eh_frame");
		cfi_image_put_common(&image, 1, a->letters, a->augmented, a->size, program,
				     sizeof(program));
		cfi_image_put_absolute_function(&image, CFI_TEXT + 0x10, 0x10, "\0\0\0", 3);
		struct unwind_table *table = build(&image);
		if (a->rows)
			EXPECT_STR(a->rows, rows_of(table, 0x100), a->what);
		else
			assert_true(table->unsupported_count > 0);
		unwind_table_free(table);
	}
}

TEST(checks_versions_of_both_frame_sections)
{
	static const uint8_t program[] = { 0x0c, 7, 8, 0x80 | 16, 1 };
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_common(&image, 4, "", NULL, 0, program, sizeof(program));
	cfi_image_put_absolute_function(&image, CFI_TEXT + 0x10, 0x10, NULL, 0);
	expect_rows("0 none | 10 unsupported | 20 none", &image, 0x100, "version 4");
}

TEST(ignores_code_that_the_linker_dropped)
{
	static const uint8_t program[] = { 0x0c, 7, 8, 0x80 | 16, 1 };
	struct unwind_table *table;
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	image.segments[0].p_vaddr = 0; // as old linkers lay out libraries: headers and code
	cfi_image_put_common(&image, 1, "", NULL, 0, program, sizeof(program));
	cfi_image_put_absolute_function(&image, 0, 0x100, NULL, 0);
	cfi_image_put_absolute_function(&image, 0x80, 0x10, NULL, 0);
	table = build(&image);
	assert_int_equal(CFA_NO_TABLE, unwind_table_find(table, 0x7f)->cfa);
	assert_int_equal(CFA_REGISTER, unwind_table_find(table, 0x80)->cfa);
	unwind_table_free(table);
}

TEST(refuses_the_old_gnu_augmentation)
{
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_common(&image, 1, "eh", NULL, 0, "\0\0\0\0\0\0\0\0", 8);
	cfi_image_put_absolute_function(&image, CFI_TEXT + 0x10, 0x10, NULL, 0);
	expect_rows("0 none | 10 unsupported | 20 none", &image, 0x100, "eh");
}

TEST(reads_64_bit_lengths)
{
	static const uint8_t common[] = {
		1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x04, 0x0c, 7, 8, 0x90, 1
	};
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_number(&image, UINT32_MAX, 4);
	cfi_image_put_number(&image, 4 + sizeof(common), 8);
	cfi_image_put_number(&image, 0, 4); // LSB: 32 bits even here
	cfi_image_put(&image, common, sizeof(common));
	uint32_t at = image.frame_size;
	cfi_image_put_number(&image, UINT32_MAX, 4);
	cfi_image_put_number(&image, 4 + 16 + 1, 8);
	cfi_image_put_number(&image, at + 12, 4);
	cfi_image_put_number(&image, CFI_TEXT + 0x10, 8);
	cfi_image_put_number(&image, 0x10, 8);
	cfi_image_put_number(&image, 0, 1);
	expect_rows("0 none | 10 7+8 = c-8 | 20 none", &image, 0x100, ".eh_frame");

	cfi_image_init(&image, EM_X86_64, ".debug_frame");
	cfi_image_put_number(&image, UINT32_MAX, 4);
	cfi_image_put_number(&image, 8 + sizeof(common), 8);
	cfi_image_put_number(&image, UINT64_MAX, 8);
	cfi_image_put(&image, common, sizeof(common));
	cfi_image_put_number(&image, UINT32_MAX, 4);
	cfi_image_put_number(&image, 8 + 16 + 1, 8);
	cfi_image_put_number(&image, 0, 8);
	cfi_image_put_number(&image, CFI_TEXT + 0x10, 8);
	cfi_image_put_number(&image, 0x10, 8);
	cfi_image_put_number(&image, 0, 1);
	expect_rows("0 none | 10 7+8 = c-8 | 20 none", &image, 0x100, ".debug_frame");
}

/* Bytes behind a sound function, which must survive them. */
static const struct {
	const char *what;
	uint8_t bytes[32];
	size_t size;
} entries[] = {
	{ "a length past the section", { 0x40, 0, 0, 0, 1 }, 5 },
	{ "a length of 4 GB", { 0xf0, 0xff, 0xff, 0xff }, 4 },
	{ "a reserved length", { 0xfe, 0xff, 0xff, 0xff }, 4 },
	{ "a 64-bit length that is cut", { 0xff, 0xff, 0xff, 0xff, 1, 0, 0 }, 7 },
	{ "a length of 2^64 - 1",
	  { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff },
	  12 },
	{ "a length of 2^63", { 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0x80 }, 12 },
	{ "no room for what it is", { 2, 0, 0, 0, 0, 0 }, 6 },
	{ "common information before the section",
	  { 8, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0 },
	  12 },
	{ "common information that is itself", { 8, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0 }, 12 },
	{ "common information that comes later",
	  { 8, 0, 0, 0, 0xf0, 0xff, 0xff, 0xff, 0, 0, 0, 0 },
	  12 },
	{ "common information without letters' end",
	  { 9, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 'R', 'R' },
	  13 },
	{ "common information with endless numbers",
	  { 13, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80 },
	  17 },
	{ "common information whose letters take more than there is",
	  { 14, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 0xff, 0x7f, 0 },
	  18 },
};

TEST(skips_broken_entries_only)
{
	for EACH (e, entries) {
		struct cfi_image image;

		cfi_image_init(&image, EM_X86_64, ".eh_frame");
		cfi_image_put_usual_common(&image);
		cfi_image_put_function(&image, 0x10, 0x10, NULL, 0);
		cfi_image_put(&image, e->bytes, e->size);
		struct unwind_table *table = build(&image);
		EXPECT_STR("0 none | 10 7+8 = c-8 | 20 none", rows_of(table, 0x100), e->what);
		EXPECT_EQ(1, table->unsupported_count, e->what);
		unwind_table_free(table);
	}
}

static const struct {
	const char *what;
	uint64_t start;
	uint64_t size;
	const char *rows;
} functions[] = {
	{ "all of the text", CFI_TEXT, CFI_TEXT_BYTES, "0 7+8 = c-8" },
	{ "more than the text", CFI_TEXT + 0x10, UINT64_MAX, "0 none | 10 7+8 = c-8" },
	{ "to the end of memory", CFI_TEXT + 0x10, 0 - (uint64_t)CFI_TEXT - 0x10,
	  "0 none | 10 7+8 = c-8" },
	{ "of no size", CFI_TEXT, 0, "0 none" },
	{ "before the text", CFI_TEXT - 1, 0x100, "0 none" },
	{ "behind the text", CFI_TEXT + CFI_TEXT_BYTES, 0x100, "0 none" },
	{ "in a segment that is not executed", CFI_FRAME, 0x100, "0 none" },
	{ "nowhere", 0, 0x1000000, "0 none" },
	{ "at the end of memory", UINT64_MAX, 1, "0 none" },
};

TEST(ignores_code_outside_executable_segments)
{
	static const uint8_t program[] = { 0x0c, 7, 8, 0x80 | 16, 1 };

	for EACH (f, functions) {
		struct cfi_image image;

		cfi_image_init(&image, EM_X86_64, ".eh_frame");
		cfi_image_put_common(&image, 1, "", NULL, 0, program, sizeof(program));
		cfi_image_put_absolute_function(&image, f->start, f->size, NULL, 0);
		expect_rows(f->rows, &image, CFI_TEXT_BYTES, f->what);
	}
}

TEST(marks_rules_beyond_the_limit_unsupported)
{
	uint8_t program[4 * 4000 + 8];
	struct cfi_image image;
	size_t size = 0;

	for (uint32_t i = 0; i < 4000; i++) {
		const uint8_t row[] = { 0x0e, 0x80 | (i & 0x7f), i >> 7, 0x41 };

		memcpy(program + size, row, sizeof(row));
		size += sizeof(row);
	}
	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	cfi_image_put_function(&image, 0, CFI_TEXT_BYTES, program, size);
	struct unwind_table *table = build(&image);
	for (uint32_t i = 0; i < 4000; i++)
		assert_int_equal(i, unwind_table_find(table, CFI_TEXT + i)->cfa_offset);
	assert_int_equal(4000 + 3, table->rule_count); // three are always there
	unwind_table_free(table);
}

TEST(refuses_a_section_of_half_a_gigabyte)
{
	struct unwind_table *table;
	struct cfi_image image;
	struct error err;
	struct elf elf;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	image.sections[CFI_SECTION_FRAME].sh_size = 512 << 20;
	assert_int_equal(0, cfi_image_open_cut(&image, CFI_IMAGE_BYTES, &elf));
	assert_int_equal(-E2BIG,
			 unwind_table_build(&elf, NULL, 0, UNWIND_TABLE_ROWS_MAX, &table, &err));
	image.sections[CFI_SECTION_FRAME].sh_size = 1 << 20; // not that large, but not there either
	close(elf.fd);
	assert_int_equal(0, cfi_image_open_cut(&image, CFI_IMAGE_BYTES, &elf));
	assert_int_equal(-ENOEXEC,
			 unwind_table_build(&elf, NULL, 0, UNWIND_TABLE_ROWS_MAX, &table, &err));
	close(elf.fd);
}

TEST(holds_at_most_the_requested_rows)
{
	struct unwind_table *table = NULL;
	struct cfi_image image;
	struct error err;
	struct elf elf;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	for (uint32_t i = 0; i < 10; i++) // two rows each
		cfi_image_put_function(&image, i * 16, 16, CFI_PUSH_AFTER(4), 3);
	assert_int_equal(0, cfi_image_open_cut(&image, CFI_IMAGE_BYTES, &elf));
	assert_int_equal(-E2BIG, unwind_table_build(&elf, NULL, 0, 19, &table, &err));
	assert_string_equal(".eh_frame: too many rows", err.text);
	// As words they are more: the index is among them, and what lies between.
	assert_int_equal(-E2BIG, unwind_table_build(&elf, NULL, 0, 20, &table, &err));
	assert_string_equal("unwind table: too many rows", err.text);
	assert_int_equal(0, unwind_table_build(&elf, NULL, 0, 30, &table, &err));
	unwind_table_free(table);
	close(elf.fd);
}

/* What the kernel's memory is reckoned by (bpf/unwind/table_layout.h). */
TEST(a_library_row_takes_five_bytes)
{
	struct unwind_table *table = NULL;
	struct stat status;
	struct error err;
	struct elf elf;
	Dl_info info;

	assert_true(dladdr(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), &info));
	int fd = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && fstat(fd, &status) == 0);
	assert_int_equal(0, elf_read_headers(fd, &status, &elf, &err));
	assert_int_equal(0, unwind_table_build(&elf, NULL, 0, UNWIND_TABLE_ROWS_MAX, &table, &err));
	assert_true(table->row_count > 5000); // a libc
	printf("%s: %.2f bytes a row\n", info.dli_fname,
	       (double)table->word_count * sizeof(*table->words) / table->row_count);
	assert_true(table->word_count * sizeof(*table->words) <= 5ULL * table->row_count);
	unwind_table_free(table);
	close(fd);
}

TEST(refuses_code_at_both_ends_of_memory)
{
	static const uint8_t program[] = { 0x0c, 7, 8, 0x80 | 16, 1 };
	struct unwind_table *table;
	struct cfi_image image;
	struct error err;
	struct elf elf;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_common(&image, 1, "", NULL, 0, program, sizeof(program));
	cfi_image_put_absolute_function(&image, CFI_TEXT, 0x100, NULL, 0);
	cfi_image_put_absolute_function(&image, 1ULL << 46, 0x100, NULL, 0);
	image.segments[3] = image.segments[0];
	image.segments[3].p_vaddr = 1ULL << 46;
	assert_int_equal(0, cfi_image_open_cut(&image, CFI_IMAGE_BYTES, &elf));
	assert_int_equal(-E2BIG,
			 unwind_table_build(&elf, NULL, 0, UNWIND_TABLE_ROWS_MAX, &table, &err));
	close(elf.fd);
}

TEST(survives_truncated_files)
{
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	for (uint32_t i = 0; i < 40; i++)
		cfi_image_put_function(&image, i * 16, 16, CFI_PUSH_AFTER(4), 3);
	for (size_t size = 0; size <= CFI_IMAGE_BYTES; size += size < 1024 ? 7 : 61) {
		struct unwind_table *table = NULL;
		struct error err;
		struct elf elf;

		if (cfi_image_open_cut(&image, size, &elf))
			continue;
		if (unwind_table_build(&elf, NULL, 0, UNWIND_TABLE_ROWS_MAX, &table, &err) == 0)
			assert_true(table->block_count <= 4 * 4096 / TABLE_BLOCK_BYTES);
		unwind_table_free(table);
		close(elf.fd);
	}
}

TEST(compiles_aarch64_files_on_any_machine)
{
	static const uint8_t program[] = { 0x41, 0x0e, 32, 0x9d, 4, 0x9e, 3, 0x42, 0x0d, 29 };
	struct cfi_image image;

	cfi_image_init(&image, EM_AARCH64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	cfi_image_put_function(&image, 0x10, 0x20, program, sizeof(program));
	expect_rows("0 none | 10 31+0 = = | 14 31+32 c-32 c-24 | 1c 29+32 c-32 c-24 | 30 none",
		    &image, 0x100, "aarch64");
}

RUN_TESTS(cmocka_unit_test(a_file_without_cfi_has_no_rows),
	  cmocka_unit_test(finds_eh_frame_by_segment_without_section_headers),
	  cmocka_unit_test(a_separate_debug_file_has_no_table),
	  cmocka_unit_test(reads_past_a_terminator_inside_the_section),
	  cmocka_unit_test(reads_debug_frame_without_eh_frame),
	  cmocka_unit_test(inflates_a_compressed_section),
	  cmocka_unit_test(survives_hostile_compressed_sections),
	  cmocka_unit_test(keeps_eh_frame_despite_broken_debug_frame),
	  cmocka_unit_test(reads_or_refuses_augmentations),
	  cmocka_unit_test(checks_versions_of_both_frame_sections),
	  cmocka_unit_test(ignores_code_that_the_linker_dropped),
	  cmocka_unit_test(refuses_the_old_gnu_augmentation),
	  cmocka_unit_test(reads_64_bit_lengths), cmocka_unit_test(skips_broken_entries_only),
	  cmocka_unit_test(ignores_code_outside_executable_segments),
	  cmocka_unit_test(marks_rules_beyond_the_limit_unsupported),
	  cmocka_unit_test(refuses_a_section_of_half_a_gigabyte),
	  cmocka_unit_test(holds_at_most_the_requested_rows),
	  cmocka_unit_test(a_library_row_takes_five_bytes),
	  cmocka_unit_test(refuses_code_at_both_ends_of_memory),
	  cmocka_unit_test(survives_truncated_files),
	  cmocka_unit_test(compiles_aarch64_files_on_any_machine))
