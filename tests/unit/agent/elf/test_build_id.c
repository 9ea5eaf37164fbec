// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/build_id.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/test.h"
#include "tests/unit/agent/elf/elf_writer.h"

#define WORD(n)                    ((n)&255), ((n) >> 8 & 255), ((n) >> 16 & 255), ((uint32_t)(n) >> 24)
#define NOTE(namesz, descsz, type) WORD(namesz), WORD(descsz), WORD(type)
#define GNU                        'G', 'N', 'U', 0
#define ID                         1, 2, 3, 4, 5, 6, 7, 8

static const struct {
	const char *what;
	uint8_t notes[64];
	size_t size;
	size_t alignment;
	int rc;
	const char *id;
} cases[] = {
	{ "one id", { NOTE(4, 8, 3), GNU, ID }, 24, 4, 0, "0102030405060708" },
	{ "no notes", { 0 }, 0, 4, -ENOENT, NULL },
	{ "after another note",
	  { NOTE(4, 4, 1), GNU, 0, 0, 0, 0, NOTE(4, 8, 3), GNU, ID },
	  44,
	  4,
	  0,
	  "0102030405060708" },
	{ "after an odd one",
	  { NOTE(3, 1, 1), 'G', 'o', 0, 0, 9, 0, 0, 0, NOTE(4, 8, 3), GNU, ID },
	  44,
	  4,
	  0,
	  "0102030405060708" },
	{ "padded to eight",
	  { NOTE(4, 4, 5), GNU, 1, 1, 1, 1, 0, 0, 0, 0, NOTE(4, 8, 3), GNU, ID },
	  48,
	  8,
	  0,
	  "0102030405060708" },
	{ "another vendor's", { NOTE(4, 8, 3), 'G', 'o', 0, 0, ID }, 24, 4, -ENOENT, NULL },
	{ "another type", { NOTE(4, 8, 4), GNU, ID }, 24, 4, -ENOENT, NULL },
	{ "cut in the header", { NOTE(4, 8, 3) }, 11, 4, -EBADMSG, NULL },
	{ "cut in the id", { NOTE(4, 8, 3), GNU, ID }, 23, 4, -EBADMSG, NULL },
	{ "name longer than all", { NOTE(0xffffffff, 8, 3), GNU, ID }, 24, 4, -EBADMSG, NULL },
	{ "id longer than all", { NOTE(4, 0xffffffff, 3), GNU, ID }, 24, 4, -EBADMSG, NULL },
	{ "both at their most",
	  { NOTE(0xffffffff, 0xffffffff, 3), GNU, ID },
	  24,
	  4,
	  -EBADMSG,
	  NULL },
	{ "id too short", { NOTE(4, 4, 3), GNU, 1, 2, 3, 4 }, 20, 4, -EBADMSG, NULL },
	{ "id too long", { NOTE(4, 36, 3), GNU }, 52, 4, -EBADMSG, NULL },
	{ "empty notes only", { 0 }, 48, 4, -ENOENT, NULL },
};

TEST(finds_or_refuses_build_ids)
{
	for EACH (row, cases) {
		// in memory of exactly its size, so that a sanitizer sees any step too far
		uint8_t *notes = malloc(row->size + 1);
		char id[BUILD_ID_TEXT_BYTES] = "untouched";

		memcpy(notes + 1, row->notes, row->size);
		EXPECT_EQ(row->rc, build_id_from_notes(notes + 1, row->size, row->alignment, id),
			  row->what);
		EXPECT_STR(row->id ? row->id : "untouched", id, row->what);
		free(notes);
	}
}

static void open_elf(const struct elf_image *image, struct elf *ret_elf)
{
	struct stat status;
	int fd = image_open(image);

	assert_int_equal(0, fstat(fd, &status));
	assert_int_equal(0, elf_read_headers(fd, &status, ret_elf, NULL));
}

TEST(finds_build_id_by_segment_then_section)
{
	static const char expected[] = "000b16212c37424d58636e79848f9aa5b0bbc6d1";
	struct elf_image image;
	char id[BUILD_ID_TEXT_BYTES];
	struct elf elf;

	image_init(&image);
	open_elf(&image, &elf);
	assert_int_equal(0, build_id_of_elf(&elf, id));
	assert_string_equal(expected, id);
	close(elf.fd);

	image.segments[1].p_type = PT_NULL;
	open_elf(&image, &elf);
	assert_int_equal(0, build_id_of_elf(&elf, id));
	assert_string_equal(expected, id);
	close(elf.fd);

	image.sections[SECTION_NOTE].sh_type = SHT_NULL;
	open_elf(&image, &elf);
	assert_int_equal(-ENOENT, build_id_of_elf(&elf, id));
	close(elf.fd);
}

TEST(pads_notes_as_their_segment_says)
{
	static const uint8_t notes[] = { NOTE(4, 4, 5), GNU, 1, 1, 1, 1, 0, 0, 0, 0,
					 NOTE(4, 8, 3), GNU, ID };
	struct elf_image image;
	char id[BUILD_ID_TEXT_BYTES];
	struct elf elf;

	image_init(&image);
	memcpy(&image.note, notes, sizeof(notes));
	image.segments[1].p_filesz = sizeof(notes);
	image.segments[1].p_align = 8;
	open_elf(&image, &elf);
	assert_int_equal(0, build_id_of_elf(&elf, id));
	assert_string_equal("0102030405060708", id);
	close(elf.fd);
}

TEST(skips_notes_at_impossible_offsets)
{
	static const struct {
		const char *what;
		uint64_t offset, size;
	} rows[] = {
		{ "past the end", 1 << 30, 36 },
		{ "longer than is read", offsetof(struct elf_image, note), 1 << 30 },
		{ "wraps", UINT64_MAX - 8, 36 },
		{ "empty", offsetof(struct elf_image, note), 0 },
	};
	struct elf_image image;

	for EACH (row, rows) {
		char id[BUILD_ID_TEXT_BYTES];
		struct elf elf;

		image_init(&image);
		image.segments[1].p_offset = row->offset;
		image.segments[1].p_filesz = row->size;
		open_elf(&image, &elf); // the section still leads there
		EXPECT_EQ(0, build_id_of_elf(&elf, id), row->what);
		close(elf.fd);

		image.sections[SECTION_NOTE].sh_offset = row->offset;
		image.sections[SECTION_NOTE].sh_size = row->size;
		open_elf(&image, &elf);
		EXPECT_EQ(-ENOENT, build_id_of_elf(&elf, id), row->what);
		close(elf.fd);
	}
}

TEST(file_hash_covers_ends_and_size)
{
	struct elf_image image;
	char first[BUILD_ID_TEXT_BYTES], again[BUILD_ID_TEXT_BYTES], other[BUILD_ID_TEXT_BYTES];
	struct elf elf;

	image_init(&image);
	open_elf(&image, &elf);
	assert_int_equal(0, file_hash_of_elf(&elf, first));
	assert_int_equal('h', first[0]);
	assert_int_equal(33, strlen(first));
	close(elf.fd);

	open_elf(&image, &elf);
	assert_int_equal(0, file_hash_of_elf(&elf, again));
	assert_string_equal(first, again);
	close(elf.fd);

	image.names[IMAGE_NAMES_MAX - 1] = 1;
	open_elf(&image, &elf);
	assert_int_equal(0, file_hash_of_elf(&elf, other));
	assert_string_not_equal(first, other);
	close(elf.fd);
}

RUN_TESTS(cmocka_unit_test(finds_or_refuses_build_ids),
	  cmocka_unit_test(finds_build_id_by_segment_then_section),
	  cmocka_unit_test(pads_notes_as_their_segment_says),
	  cmocka_unit_test(skips_notes_at_impossible_offsets),
	  cmocka_unit_test(file_hash_covers_ends_and_size))
