// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/elf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "agent/symbols/executable.h"
#include "tests/test.h"
#include "tests/unit/agent/elf/elf_writer.h"

static int read_headers(int fd, struct elf *ret_elf, struct error *err)
{
	struct stat status;

	assert_int_equal(0, fstat(fd, &status));
	return elf_read_headers(fd, &status, ret_elf, err);
}

/* Each row breaks one byte or field of a sound file. */
static const struct {
	const char *what;
	size_t at; // in the file
	uint8_t value;
	int rc;
} headers[] = {
	{ "sound", offsetof(Elf64_Ehdr, e_version), EV_CURRENT, 0 },
	{ "magic", 1, 'e', -ENOEXEC },
	{ "32 bits", EI_CLASS, ELFCLASS32, -ENOEXEC },
	{ "big-endian", EI_DATA, ELFDATA2MSB, -ENOEXEC },
	{ "another machine", offsetof(Elf64_Ehdr, e_machine), EM_386, -ENOEXEC },
	{ "an object file", offsetof(Elf64_Ehdr, e_type), ET_REL, -ENOEXEC },
	{ "a core file", offsetof(Elf64_Ehdr, e_type), ET_CORE, -ENOEXEC },
	{ "program header of another size", offsetof(Elf64_Ehdr, e_phentsize), 32, -ENOEXEC },
	{ "program headers past the end", offsetof(Elf64_Ehdr, e_phoff) + 5, 1, -ENOEXEC },
	{ "program headers at the end of 64 bits", offsetof(Elf64_Ehdr, e_phoff) + 7, 0xff,
	  -ENOEXEC },
	{ "no program headers", offsetof(Elf64_Ehdr, e_phnum), 0, 0 },
	{ "more program headers than fit", offsetof(Elf64_Ehdr, e_phnum) + 1, 0xf0, -ENOEXEC },
};

TEST(reads_only_valid_files_of_this_machine)
{
	struct elf_image image;

	for EACH (row, headers) {
		struct error err = { 0 };
		struct elf elf;

		image_init(&image);
		((uint8_t *)&image)[row->at] = row->value;
		int fd = image_open(&image);
		EXPECT_EQ(row->rc, read_headers(fd, &elf, &err), row->what);
		EXPECT_EQ(row->rc, err.code, row->what);
		EXPECT_EQ(row->rc != 0, err.text[0] != 0, row->what);
		close(fd);
	}
}

TEST(skips_segments_outside_the_file)
{
	static const struct {
		const char *what;
		uint64_t offset, size, address;
		uint32_t loads;
	} rows[] = {
		{ "sound", IMAGE_TEXT, IMAGE_TEXT_BYTES, IMAGE_ADDRESS, 1 },
		{ "past the end", 1 << 30, IMAGE_TEXT_BYTES, IMAGE_ADDRESS, 0 },
		{ "longer than the file", IMAGE_TEXT, 1 << 30, IMAGE_ADDRESS, 0 },
		{ "offset and size wrap", UINT64_MAX - 10, 100, IMAGE_ADDRESS, 0 },
		{ "addresses wrap", IMAGE_TEXT, IMAGE_TEXT_BYTES, UINT64_MAX - 10, 0 },
	};
	struct elf_image image;

	for EACH (row, rows) {
		struct elf elf;

		image_init(&image);
		image.segments[0].p_offset = row->offset;
		image.segments[0].p_filesz = row->size;
		image.segments[0].p_vaddr = row->address;
		int fd = image_open(&image);
		EXPECT_EQ(0, read_headers(fd, &elf, NULL), row->what);
		EXPECT_EQ(row->loads, elf.load_count, row->what);
		close(fd);
	}
}

TEST(bounds_section_headers)
{
	static const struct {
		const char *what;
		uint64_t offset;
		uint16_t count, size;
		uint64_t first_size;
		int rc;
	} rows[] = {
		{ "sound", offsetof(struct elf_image, sections), SECTION_COUNT, 64, 0, 0 },
		{ "none", 0, SECTION_COUNT, 64, 0, -ENOENT },
		{ "another size", offsetof(struct elf_image, sections), SECTION_COUNT, 40, 0,
		  -ENOEXEC },
		{ "past the end", 1 << 30, SECTION_COUNT, 64, 0, -ENOEXEC },
		{ "at the end of 64 bits", UINT64_MAX - 8, SECTION_COUNT, 64, 0, -ENOEXEC },
		{ "more than the file holds", offsetof(struct elf_image, sections), 9999, 64, 0,
		  -ENOEXEC },
		{ "more than are read", offsetof(struct elf_image, sections), 65000, 64, 0,
		  -E2BIG },
		{ "count in the first", offsetof(struct elf_image, sections), 0, 64, SECTION_COUNT,
		  0 },
		{ "count in the first is none", offsetof(struct elf_image, sections), 0, 64, 0,
		  -ENOENT },
		{ "count in the first is absurd", offsetof(struct elf_image, sections), 0, 64,
		  UINT64_MAX / 64 + 2, -E2BIG },
	};
	struct elf_image image;

	for EACH (row, rows) {
		Elf64_Shdr *sections = NULL;
		uint32_t count = 0;
		struct elf elf;

		image_init(&image);
		image.header.e_shoff = row->offset;
		image.header.e_shnum = row->count;
		image.header.e_shentsize = row->size;
		image.sections[0].sh_size = row->first_size;
		int fd = image_open(&image);
		EXPECT_EQ(0, read_headers(fd, &elf, NULL), row->what);
		EXPECT_EQ(row->rc, elf_read_sections(&elf, &sections, &count), row->what);
		EXPECT_EQ(row->rc ? 0 : SECTION_COUNT, count, row->what);
		free(sections);
		close(fd);
	}
}

TEST(survives_files_truncated_anywhere)
{
	struct elf_image image;

	image_init(&image);
	for (size_t size = 0; size <= IMAGE_BYTES; size += size < 300 ? 1 : 97) {
		struct elf elf;
		int fd = image_open_cut(&image, size);
		int rc = read_headers(fd, &elf, NULL);

		assert_int_equal(size < offsetof(struct elf_image, note) ? -ENOEXEC : 0, rc);
		close(fd);
	}
}

TEST(fails_when_a_file_shrinks_while_read)
{
	struct elf_image image;
	struct elf elf;
	char bytes[64];

	image_init(&image);
	int fd = image_open(&image);
	assert_int_equal(0, read_headers(fd, &elf, NULL));
	assert_int_equal(0, ftruncate(fd, IMAGE_TEXT + 32));
	assert_int_equal(-ENOEXEC, elf_read(&elf, IMAGE_TEXT, bytes, sizeof(bytes)));
	close(fd);
}

TEST(refuses_what_is_no_regular_file)
{
	struct error err = { 0 };
	struct elf elf;
	int ends[2];

	assert_int_equal(0, pipe(ends));
	assert_int_equal(-ENOEXEC, read_headers(ends[0], &elf, &err));
	assert_string_equal("not a regular file", err.text);
	close(ends[0]);
	close(ends[1]);

	int huge = memfd_create("huge", MFD_CLOEXEC);
	assert_int_equal(0, ftruncate(huge, (off_t)ELF_BYTES_MAX + 1));
	assert_int_equal(-EFBIG, read_headers(huge, &elf, &err));
	close(huge);
}

TEST(maps_addresses_to_file_offsets_and_back)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct elf elf;

	assert_int_equal(0, read_headers(fd, &elf, NULL));
	const Elf64_Phdr *code = NULL;
	for (uint32_t i = 0; i < elf.load_count && !code; i++)
		if (elf.loads[i].p_flags & PF_X)
			code = &elf.loads[i];
	assert_non_null(code);
	assert_ptr_equal(code, elf_find_code(&elf, code->p_vaddr));
	assert_int_equal(code->p_offset + 5, elf_file_offset(code, code->p_vaddr + 5));
	assert_null(elf_find_code(&elf, code->p_vaddr + code->p_filesz));
	assert_null(elf_find_code(&elf, UINT64_MAX));
	close(fd);
}

RUN_TESTS(cmocka_unit_test(reads_only_valid_files_of_this_machine),
	  cmocka_unit_test(skips_segments_outside_the_file),
	  cmocka_unit_test(bounds_section_headers),
	  cmocka_unit_test(survives_files_truncated_anywhere),
	  cmocka_unit_test(fails_when_a_file_shrinks_while_read),
	  cmocka_unit_test(refuses_what_is_no_regular_file),
	  cmocka_unit_test(maps_addresses_to_file_offsets_and_back))
