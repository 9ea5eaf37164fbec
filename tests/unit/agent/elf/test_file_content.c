// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/file_content.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/test.h"
#include "tests/unit/agent/elf/elf_writer.h"

static int content_of(int fd, char text[FILE_CONTENT_TEXT_BYTES])
{
	struct file_version version;
	struct stat status;
	struct elf elf;

	assert_int_equal(0, fstat(fd, &status));
	version = file_version_of(&status);
	assert_int_equal(0, elf_read_headers(fd, &status, &elf, NULL));
	return file_content_of_elf(&elf, &version, text);
}

static void hash_image(const struct elf_image *image, char text[FILE_CONTENT_TEXT_BYTES])
{
	int fd = image_open(image);

	assert_int_equal(0, content_of(fd, text));
	close(fd);
}

static void make_image(struct elf_image *image)
{
	image_init(image);
	image_add_symbol(image, "one", 0x100, 16, STB_GLOBAL, STT_FUNC);
}

static const struct {
	const char *what;
	size_t offset;
	bool is_read;
} parts[] = {
	{ "header", offsetof(struct elf_image, header.e_flags), true },
	{ "segment", offsetof(struct elf_image, segments[0].p_align), true },
	{ "note", offsetof(struct elf_image, note_id[3]), true },
	{ "code", offsetof(struct elf_image, text[77]), true },
	{ "symbol", offsetof(struct elf_image, symbols[0].st_size), true },
	{ "name", offsetof(struct elf_image, names[2]), true },
	{ "section", offsetof(struct elf_image, sections[SECTION_TEXT].sh_flags), true },
	{ "what no section has", offsetof(struct elf_image, gap[5]), false },
};

TEST(differs_with_each_part_that_is_read)
{
	char plain[FILE_CONTENT_TEXT_BYTES], altered[FILE_CONTENT_TEXT_BYTES];
	static struct elf_image image;

	make_image(&image);
	hash_image(&image, plain);
	assert_int_equal(FILE_CONTENT_TEXT_BYTES - 1, strlen(plain));
	for EACH (part, parts) {
		make_image(&image);
		((uint8_t *)&image)[part->offset] ^= 0x40;
		hash_image(&image, altered);
		EXPECT_EQ(part->is_read, strcmp(plain, altered) != 0, part->what);
	}
}

TEST(without_sections_all_code_and_data_count)
{
	char plain[FILE_CONTENT_TEXT_BYTES], altered[FILE_CONTENT_TEXT_BYTES];
	static struct elf_image image;

	make_image(&image);
	image.header.e_shnum = 0;
	image.header.e_shoff = 0;
	hash_image(&image, plain);
	image.text[77] ^= 1;
	hash_image(&image, altered);
	assert_string_not_equal(plain, altered);
}

/* A file of @bytes, whose first section is all of it. */
static int open_large(uint64_t bytes, uint32_t type, uint8_t last)
{
	static struct elf_image image;

	make_image(&image);
	image.sections[SECTION_TEXT].sh_type = type;
	image.sections[SECTION_TEXT].sh_offset = 0;
	image.sections[SECTION_TEXT].sh_size = bytes;
	int fd = image_open(&image);
	assert_int_equal(0, ftruncate(fd, (off_t)bytes));
	assert_int_equal(1, pwrite(fd, &last, 1, (off_t)bytes - 1));
	assert_int_equal(0, fchmod(fd, 0755));
	return fd;
}

static bool shows_last_byte(uint64_t bytes, uint32_t type)
{
	char first[FILE_CONTENT_TEXT_BYTES], second[FILE_CONTENT_TEXT_BYTES];
	int one = open_large(bytes, type, 1), two = open_large(bytes, type, 2);

	assert_int_equal(0, content_of(one, first));
	assert_int_equal(0, content_of(two, second));
	close(one);
	close(two);
	return strcmp(first, second) != 0;
}

TEST(tables_count_whatever_their_size)
{
	uint64_t large = FILE_CONTENT_SECTION_BYTES_MAX + 4096;

	assert_true(shows_last_byte(FILE_CONTENT_SECTION_BYTES_MAX, SHT_PROGBITS));
	assert_false(shows_last_byte(large, SHT_PROGBITS));
	assert_true(shows_last_byte(large, SHT_SYMTAB));
	assert_true(shows_last_byte(large, SHT_STRTAB));
}

/* Its owner may have altered what was not hashed. */
TEST(a_users_large_file_is_only_itself)
{
	uint64_t large = FILE_CONTENT_SECTION_BYTES_MAX + 4096;
	char first[FILE_CONTENT_TEXT_BYTES], second[FILE_CONTENT_TEXT_BYTES];
	int one = open_large(large, SHT_PROGBITS, 1), two = open_large(large, SHT_PROGBITS, 1);

	for (int is_writable = 0; is_writable < 2; is_writable++) {
		assert_int_equal(0, fchmod(one, is_writable ? 0775 : 0755));
		assert_int_equal(0, content_of(one, first));
		assert_int_equal(0, content_of(two, second));
		EXPECT_EQ(is_writable || getuid(), strcmp(first, second) != 0, "two copies");
		assert_int_equal(0, content_of(one, second));
		EXPECT_STR(first, second, "the same file again");
	}
	close(one);
	close(two);
}

/* Not all of it was hashed: it is shared with no other. */
TEST(a_file_past_the_limit_is_only_itself)
{
	char first[FILE_CONTENT_TEXT_BYTES], second[FILE_CONTENT_TEXT_BYTES];
	int one = open_large(FILE_CONTENT_BYTES_MAX + 4096, SHT_SYMTAB, 1);
	int two = open_large(FILE_CONTENT_BYTES_MAX + 4096, SHT_SYMTAB, 1);

	assert_int_equal(0, content_of(one, first));
	assert_int_equal(0, content_of(two, second));
	assert_string_not_equal(first, second);
	assert_int_equal(0, content_of(one, second));
	assert_string_equal(first, second);
	close(one);
	close(two);
}

TEST(notices_a_file_written_meanwhile)
{
	char text[FILE_CONTENT_TEXT_BYTES];
	static struct elf_image image;
	struct file_version version;
	struct stat status;
	struct elf elf;

	make_image(&image);
	int fd = image_open(&image);
	assert_int_equal(0, fstat(fd, &status));
	assert_int_equal(0, elf_read_headers(fd, &status, &elf, NULL));
	version = file_version_of(&status);
	version.changed_ns--; // it was another
	assert_int_equal(-EAGAIN, file_content_of_elf(&elf, &version, text));
	close(fd);
}

RUN_TESTS(cmocka_unit_test(differs_with_each_part_that_is_read),
	  cmocka_unit_test(without_sections_all_code_and_data_count),
	  cmocka_unit_test(tables_count_whatever_their_size),
	  cmocka_unit_test(a_users_large_file_is_only_itself),
	  cmocka_unit_test(a_file_past_the_limit_is_only_itself),
	  cmocka_unit_test(notices_a_file_written_meanwhile))
