// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/file_content.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/elf/content_hash.h"
#include "base/cleanup.h"
#include "base/text.h"

enum {
	PIECE_BYTES = 64 << 10, // stays in the CPU's cache
	NAME_BYTES = 32,        // of a section: longer than any of a table
};

struct hashing {
	const struct elf *elf;
	struct content_hash hash;
	uint8_t *piece;
	uint64_t bytes_left; // that may be read
	bool is_whole;
	bool has_more; // large sections that were not read
};

static void add(struct hashing *hashing, const void *bytes, size_t size)
{
	content_hash_add(&hashing->hash, bytes, size);
}

/* What lies outside of the file is not read by anybody. */
static int add_range(struct hashing *hashing, uint64_t offset, uint64_t size)
{
	uint64_t file_size = hashing->elf->size;

	if (offset >= file_size || size > file_size - offset)
		return 0;
	if (size > hashing->bytes_left) {
		hashing->is_whole = false;
		return 0;
	}
	hashing->bytes_left -= size;
	while (size) {
		size_t piece = size < PIECE_BYTES ? size : PIECE_BYTES;
		int rc = elf_read(hashing->elf, offset, hashing->piece, piece);

		if (rc)
			return rc;
		add(hashing, hashing->piece, piece);
		offset += piece;
		size -= piece;
	}
	return 0;
}

static int add_headers(struct hashing *hashing)
{
	Elf64_Phdr segment;

	add(hashing, &hashing->elf->size, sizeof(hashing->elf->size));
	add(hashing, &hashing->elf->header, sizeof(hashing->elf->header));
	for (uint32_t i = 0; elf_read_segment(hashing->elf, i, &segment) == 0; i++)
		add(hashing, &segment, sizeof(segment));
	return 0;
}

static bool has_table_name(const struct elf *elf, const Elf64_Shdr *names,
			   const Elf64_Shdr *section)
{
	static const char *const tables[] = {
		".eh_frame",  ".eh_frame_hdr", ".debug_frame",   ".zdebug_frame",
		".gopclntab", ".plt",          ".gnu_debugdata", ".data.rel.ro.gopclntab",
	};
	char name[NAME_BYTES] = { 0 };

	if (section->sh_name >= names->sh_size ||
	    elf_read(elf, names->sh_offset + section->sh_name, name, sizeof(name) - 1))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		if (strcmp(name, tables[i]) == 0)
			return true;
	return false;
}

static bool is_table(const struct elf *elf, const Elf64_Shdr *names, const Elf64_Shdr *section)
{
	switch (section->sh_type) {
	case SHT_SYMTAB:
	case SHT_DYNSYM:
	case SHT_STRTAB:
	case SHT_NOTE:
		return true;
	default:
		return has_table_name(elf, names, section);
	}
}

static int add_sections(struct hashing *hashing, const Elf64_Shdr *sections, uint32_t count)
{
	static const Elf64_Shdr nothing = { 0 };
	uint32_t at = hashing->elf->header.e_shstrndx;
	const Elf64_Shdr *names = at < count ? &sections[at] : &nothing;
	int rc = 0;

	add(hashing, sections, count * sizeof(*sections));
	for (uint32_t i = 0; i < count && !rc; i++) {
		if (sections[i].sh_type == SHT_NULL || sections[i].sh_type == SHT_NOBITS)
			continue;
		if (sections[i].sh_size <= FILE_CONTENT_SECTION_BYTES_MAX ||
		    is_table(hashing->elf, names, &sections[i]))
			rc = add_range(hashing, sections[i].sh_offset, sections[i].sh_size);
		else
			hashing->has_more = true;
	}
	return rc;
}

/* A user's copy may differ in what was not read: it is shared with no other file. */
static int add_owner(struct hashing *hashing)
{
	struct stat status;

	if (fstat(hashing->elf->fd, &status))
		return -errno;
	if (file_only_root_writes(&status))
		return 0;
	const uint64_t place[] = { status.st_dev, status.st_ino };
	add(hashing, place, sizeof(place));
	return 0;
}

/* Without section headers tables lie anywhere in it. */
static int add_loads(struct hashing *hashing)
{
	int rc = 0;

	for (uint32_t i = 0; i < hashing->elf->load_count && !rc; i++)
		rc = add_range(hashing, hashing->elf->loads[i].p_offset,
			       hashing->elf->loads[i].p_filesz);
	return rc;
}

static int add_all(struct hashing *hashing)
{
	_cleanup_free_ Elf64_Shdr *sections = NULL;
	uint32_t count = 0;
	int rc = add_headers(hashing);

	if (rc)
		return rc;
	rc = elf_read_sections(hashing->elf, &sections, &count);
	if (rc == -ENOENT || rc == -ENOEXEC || rc == -E2BIG || (!rc && !count))
		return add_loads(hashing);
	return rc ? rc : add_sections(hashing, sections, count);
}

int file_content_of_elf(const struct elf *elf, const struct file_version *version,
			char ret_text[FILE_CONTENT_TEXT_BYTES])
{
	_cleanup_free_ uint8_t *piece = malloc(PIECE_BYTES);
	struct hashing hashing = {
		.elf = elf,
		.piece = piece,
		.bytes_left = FILE_CONTENT_BYTES_MAX,
		.is_whole = true,
	};
	uint8_t digest[CONTENT_HASH_BYTES];

	if (!piece)
		return -ENOMEM;
	content_hash_init(&hashing.hash);
	int rc = add_all(&hashing);
	if (!rc && hashing.has_more)
		rc = add_owner(&hashing);
	if (rc)
		return rc;
	if (!file_version_is_of(version, elf->fd))
		return -EAGAIN;
	if (!hashing.is_whole)
		add(&hashing, version, sizeof(*version));
	content_hash_finish(&hashing.hash, digest);
	text_encode_hex(digest, (FILE_CONTENT_TEXT_BYTES - 1) / 2, ret_text);
	return 0;
}

int file_content_of(int fd, struct file_version *ret_version,
		    char ret_text[FILE_CONTENT_TEXT_BYTES])
{
	struct file_version version;
	struct stat status;
	struct elf elf;

	if (fstat(fd, &status))
		return -errno;
	version = file_version_of(&status);
	int rc = elf_read_headers(fd, &status, &elf, NULL);
	if (!rc)
		rc = file_content_of_elf(&elf, &version, ret_text);
	if (!rc && ret_version)
		*ret_version = version;
	return rc;
}
