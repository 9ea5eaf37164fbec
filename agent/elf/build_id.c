// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/build_id.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/id128.h"
#include "base/text.h"

enum {
	NOTE_BLOCKS_MAX = 16, // segments or sections of notes; linkers write two or three
	FILE_HASH_END_BYTES =
		16 << 10, // covers ELF and program headers; section headers and string tables
};

int build_id_from_notes(const void *notes, size_t size, size_t alignment,
			char ret_text[BUILD_ID_TEXT_BYTES])
{
	const uint8_t *at = notes;

	while (size >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;

		memcpy(&note, at, sizeof(note));
		// 64 bits, so that a hostile length cannot wrap.
		uint64_t mask = alignment - 1;
		uint64_t name = sizeof(note);
		uint64_t desc = (name + note.n_namesz + mask) & ~mask;
		uint64_t end = desc + note.n_descsz;

		if (end > size)
			return -EBADMSG;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(ELF_NOTE_GNU) &&
		    memcmp(at + name, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) == 0) {
			if (note.n_descsz < BUILD_ID_BYTES_MIN ||
			    note.n_descsz > BUILD_ID_BYTES_MAX)
				return -EBADMSG;
			text_encode_hex(at + desc, note.n_descsz, ret_text);
			return 0;
		}

		uint64_t next = (end + mask) & ~mask;
		if (next >= size) // the last note need not be padded
			return -ENOENT;
		at += next;
		size -= next;
	}
	return size ? -EBADMSG : -ENOENT;
}

static int find_in_block(const struct elf *elf, uint64_t offset, uint64_t size, uint64_t alignment,
			 char ret_text[BUILD_ID_TEXT_BYTES])
{
	if (size > NOTES_BYTES_MAX)
		return -EBADMSG;

	_cleanup_free_ uint8_t *notes = malloc(size ? size : 1);
	if (!notes)
		return -ENOMEM;
	int rc = elf_read(elf, offset, notes, size);
	if (rc)
		return rc;
	return build_id_from_notes(notes, size, alignment == 8 ? 8 : 4, ret_text);
}

// A broken block of notes does not hide others.
static int find_in_segments(const struct elf *elf, char ret_text[BUILD_ID_TEXT_BYTES])
{
	Elf64_Phdr segment;
	uint32_t blocks = 0;

	for (uint32_t i = 0; elf_read_segment(elf, i, &segment) == 0; i++) {
		if (segment.p_type != PT_NOTE)
			continue;
		if (blocks++ == NOTE_BLOCKS_MAX)
			break;
		if (find_in_block(elf, segment.p_offset, segment.p_filesz, segment.p_align,
				  ret_text) == 0)
			return 0;
	}
	return -ENOENT;
}

static int find_in_sections(const struct elf *elf, char ret_text[BUILD_ID_TEXT_BYTES])
{
	_cleanup_free_ Elf64_Shdr *sections = NULL;
	uint32_t count;
	uint32_t blocks = 0;

	int rc = elf_read_sections(elf, &sections, &count);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < count && blocks < NOTE_BLOCKS_MAX; i++) {
		if (sections[i].sh_type != SHT_NOTE)
			continue;
		blocks++;
		if (find_in_block(elf, sections[i].sh_offset, sections[i].sh_size,
				  sections[i].sh_addralign, ret_text) == 0)
			return 0;
	}
	return -ENOENT;
}

int build_id_of_elf(const struct elf *elf, char ret_text[BUILD_ID_TEXT_BYTES])
{
	return find_in_segments(elf, ret_text) == 0 ? 0 : find_in_sections(elf, ret_text);
}

int file_hash_of_elf(const struct elf *elf, char ret_text[BUILD_ID_TEXT_BYTES])
{
	size_t end = elf->size < FILE_HASH_END_BYTES ? elf->size : FILE_HASH_END_BYTES;
	uint8_t size_bytes[8];

	_cleanup_free_ uint8_t *bytes = malloc(2 * end + sizeof(size_bytes));
	if (!bytes)
		return -ENOMEM;
	int rc = elf_read(elf, 0, bytes, end);
	if (!rc)
		rc = elf_read(elf, elf->size - end, bytes + end, end);
	if (rc)
		return rc;
	for (size_t i = 0; i < sizeof(size_bytes);
	     i++) // little-endian: ids must agree between hosts
		bytes[2 * end + i] = (uint8_t)(elf->size >> (8 * i));

	struct id128 hash = id128_of(bytes, 2 * end + sizeof(size_bytes));
	snprintf(ret_text, BUILD_ID_TEXT_BYTES, "h%016" PRIx64 "%016" PRIx64, hash.high, hash.low);
	return 0;
}

uint64_t build_id_hash_of_program(void)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char text[BUILD_ID_TEXT_BYTES];
	struct stat status;
	struct elf elf;

	if (fd < 0 || fstat(fd, &status) || elf_read_headers(fd, &status, &elf, NULL) ||
	    build_id_of_elf(&elf, text))
		return 0;
	return id128_of(text, strlen(text)).low;
}
