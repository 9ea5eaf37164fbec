// SPDX-License-Identifier: Apache-2.0
// Reads hostile ELF files: headers, segments and sections, each checked against the file's size. By pread(): a file
// truncated meanwhile is an error, not a SIGBUS as with mmap(). Layouts: System V gABI (<elf.h>).
#pragma once

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/error.h"

enum {
	ELF_SEGMENTS_MAX = 1024,  // linkers write about a dozen program headers
	ELF_LOADS_MAX = 128,      // of which PT_LOAD
	ELF_SECTIONS_MAX = 16384, // an executable has about forty
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
 * Read the headers of @fd, whose fstat() is @status. Returns 0; -ENOEXEC if it is no regular ELF file of this machine
 * (@err says what); -EFBIG past ELF_BYTES_MAX; -errno.
 */
int elf_read_headers(int fd, const struct stat *status, struct elf *ret_elf, struct error *err);

/** The same for another architecture (EM_...). */
int elf_read_headers_of(int fd, const struct stat *status, uint16_t machine, struct elf *ret_elf,
			struct error *err);

/** Read @size bytes at @offset. Returns 0; -ENOEXEC if they lie outside of the file, or no longer in it; -errno. */
int elf_read(const struct elf *elf, uint64_t offset, void *bytes, size_t size);

/** Read @size bytes that are loaded at virtual address @address. Returns as elf_read(). */
int elf_read_address(const struct elf *elf, uint64_t address, void *bytes, size_t size);

/** Program header @index. Returns 0; -ENOENT past the last or past ELF_SEGMENTS_MAX; else as elf_read(). */
int elf_read_segment(const struct elf *elf, uint32_t index, Elf64_Phdr *ret_segment);

/**
 * All section headers, owned by the caller. Returns 0; -ENOENT if there are none; -ENOEXEC if they lie outside of the
 * file; -E2BIG past ELF_SECTIONS_MAX; -ENOMEM; -errno.
 */
int elf_read_sections(const struct elf *elf, Elf64_Shdr **ret_sections, uint32_t *ret_count);

/** The first section called @name; its offset is not checked. Returns 0; -ENOENT; else as elf_read_sections(). */
int elf_find_section(const struct elf *elf, const char *name, Elf64_Shdr *ret_section);

/** The executable PT_LOAD segment with @address in its file part, or NULL. */
const Elf64_Phdr *elf_find_code(const struct elf *elf, uint64_t address);

/** The file offset of a virtual address in @segment. */
static inline uint64_t elf_file_offset(const Elf64_Phdr *segment, uint64_t address)
{
	return address - segment->p_vaddr + segment->p_offset;
}
