// SPDX-License-Identifier: Apache-2.0
// An ELF file of named sections, so that tests can hand any bytes to the reader of one of them.
#pragma once

#include <elf.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/elf/elf.h"

enum {
	SECTION_FILE_TEXT = 0x1000, // file offset of the code, all of it one segment
	SECTION_FILE_TEXT_BYTES = 0x1000,
	SECTION_FILE_ADDRESS = 0x401000,
	SECTION_FILE_SECTIONS_MAX = 16,
	SECTION_FILE_NAMES_MAX = 512,
};

/** What is added so far. Begin with section_file_new(). */
struct section_file {
	int fd;
	Elf64_Ehdr header;
	Elf64_Shdr sections[SECTION_FILE_SECTIONS_MAX];
	uint32_t count;
	char names[SECTION_FILE_NAMES_MAX];
	uint32_t names_size;
	uint64_t end;
};

static inline void section_file_put(const struct section_file *file, uint64_t at, const void *bytes,
				    size_t size)
{
	assert_int_equal(size, pwrite(file->fd, bytes, size, (off_t)at));
}

/** The section's bytes go to the end of the file. Returns its header, to be changed at will. */
static inline Elf64_Shdr *section_file_add(struct section_file *file, const char *name,
					   uint32_t type, const void *bytes, size_t size)
{
	Elf64_Shdr *section = &file->sections[file->count++];

	assert_true(file->count <= SECTION_FILE_SECTIONS_MAX);
	assert_true(file->names_size + strlen(name) + 1 <= SECTION_FILE_NAMES_MAX);
	*section = (Elf64_Shdr){ .sh_name = file->names_size,
				 .sh_type = type,
				 .sh_offset = file->end,
				 .sh_size = size };
	memcpy(file->names + file->names_size, name, strlen(name) + 1);
	file->names_size += (uint32_t)strlen(name) + 1;
	section_file_put(file, file->end, bytes, size);
	file->end += (size + 15) & ~15ULL;
	return section;
}

static inline void section_file_new(struct section_file *file)
{
	static const uint8_t text[SECTION_FILE_TEXT_BYTES];

	memset(file, 0, sizeof(*file));
	file->fd = memfd_create("sections", MFD_CLOEXEC);
	assert_true(file->fd >= 0);
	file->header = (Elf64_Ehdr)
	{
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_EXEC,
#if defined(__x86_64__)
		.e_machine = EM_X86_64,
#else
		.e_machine = EM_AARCH64,
#endif
		.e_version = EV_CURRENT, .e_phoff = sizeof(Elf64_Ehdr),
		.e_ehsize = sizeof(Elf64_Ehdr), .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 1,
		.e_shentsize = sizeof(Elf64_Shdr),
	};
	file->count = 1;
	file->names_size = 1;
	file->end = SECTION_FILE_TEXT;
	Elf64_Shdr *section = section_file_add(file, ".text", SHT_PROGBITS, text, sizeof(text));
	section->sh_addr = SECTION_FILE_ADDRESS;
}

/** A build id of 20 equal bytes. */
static inline void section_file_add_id(struct section_file *file, uint8_t byte)
{
	uint8_t note[36] = { 4, 0, 0, 0, 20, 0, 0, 0, NT_GNU_BUILD_ID, 0, 0, 0, 'G', 'N', 'U' };

	memset(note + 16, byte, 20);
	section_file_add(file, ".note.gnu.build-id", SHT_NOTE, note, sizeof(note));
}

/** Write the headers. The descriptor is the caller's. */
static inline int section_file_close(struct section_file *file)
{
	const Elf64_Phdr segment = { .p_type = PT_LOAD,
				     .p_flags = PF_R | PF_X,
				     .p_offset = SECTION_FILE_TEXT,
				     .p_vaddr = SECTION_FILE_ADDRESS,
				     .p_filesz = SECTION_FILE_TEXT_BYTES,
				     .p_memsz = SECTION_FILE_TEXT_BYTES };
	Elf64_Shdr *names = section_file_add(file, ".shstrtab", SHT_STRTAB, "", 1);

	names->sh_offset = file->end;
	names->sh_size = file->names_size;
	section_file_put(file, file->end, file->names, file->names_size);
	file->header.e_shoff = (file->end + file->names_size + 15) & ~15ULL;
	file->header.e_shnum = (uint16_t)file->count;
	file->header.e_shstrndx = (uint16_t)(file->count - 1);
	section_file_put(file, 0, &file->header, sizeof(file->header));
	section_file_put(file, sizeof(file->header), &segment, sizeof(segment));
	section_file_put(file, file->header.e_shoff, file->sections,
			 file->count * sizeof(file->sections[0]));
	return file->fd;
}

static inline struct elf section_file_read(int fd)
{
	struct stat status;
	struct elf elf;

	assert_int_equal(0, fstat(fd, &status));
	assert_int_equal(0, elf_read_headers(fd, &status, &elf, NULL));
	return elf;
}
