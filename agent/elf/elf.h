// SPDX-License-Identifier: Apache-2.0
// Reading ELF files that nobody vouches for: headers, segments and sections, each checked against
// the file's size. Everything goes through pread(): a file cut short while it is read is an error,
// where a mapping of it would be a SIGBUS. Layouts are those of the System V gABI (<elf.h>).
#pragma once

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/error.h"

enum {
	ELF_SEGMENTS_MAX = 1024,  // program headers looked at; linkers write about a dozen
	ELF_LOADS_MAX = 128,      // of which PT_LOAD
	ELF_SECTIONS_MAX = 16384, // section headers; an executable has about forty
};
#define ELF_BYTES_MAX (8ULL << 30) // larger files are not read

/** An open file of this machine's class, byte order and architecture. Does not own @fd. */
struct elf {
	int fd;
	uint64_t size; // of the file, bytes
	Elf64_Ehdr header;
	Elf64_Phdr loads[ELF_LOADS_MAX]; // PT_LOAD only
	uint32_t load_count;
};

/**
 * Read the headers of @fd, whose fstat() is @status.
 * Returns 0; -ENOEXEC (not a regular file, not ELF, or not of this machine; @err says what);
 * -EFBIG past ELF_BYTES_MAX; -errno when reading fails.
 */
int elf_read_headers(int fd, const struct stat *status, struct elf *ret_elf, struct error *err);

/** The same for files of another architecture (EM_...), as tests have them. */
int elf_read_headers_of(int fd, const struct stat *status, uint16_t machine, struct elf *ret_elf,
			struct error *err);

/**
 * All of @size bytes at @offset. Returns 0; -ENOEXEC if they do not lie in the file, or no longer;
 * -errno when reading fails.
 */
int elf_read(const struct elf *elf, uint64_t offset, void *bytes, size_t size);

/**
 * All of @size bytes that are loaded at the virtual address @address from the file. Returns as
 * elf_read().
 */
int elf_read_address(const struct elf *elf, uint64_t address, void *bytes, size_t size);

/**
 * Program header @index of header.e_phnum. Returns 0; -ENOENT past the last (or past
 * ELF_SEGMENTS_MAX); otherwise as elf_read().
 */
int elf_read_segment(const struct elf *elf, uint32_t index, Elf64_Phdr *ret_segment);

/**
 * All section headers, owned by the caller. Returns 0; -ENOENT if the file has none; -ENOEXEC if
 * they do not lie in the file; -E2BIG past ELF_SECTIONS_MAX; -ENOMEM; -errno.
 */
int elf_read_sections(const struct elf *elf, Elf64_Shdr **ret_sections, uint32_t *ret_count);

/**
 * The header of the first section called @name. Returns 0; -ENOENT if there is none; otherwise as
 * elf_read_sections(). Where its bytes are is not checked.
 */
int elf_find_section(const struct elf *elf, const char *name, Elf64_Shdr *ret_section);

/** The executable PT_LOAD segment that holds the virtual address @address in its file part, or NULL. */
const Elf64_Phdr *elf_find_code(const struct elf *elf, uint64_t address);

/** Where a virtual address within @segment lies in the file. */
static inline uint64_t elf_file_offset(const Elf64_Phdr *segment, uint64_t address)
{
	return address - segment->p_vaddr + segment->p_offset;
}
