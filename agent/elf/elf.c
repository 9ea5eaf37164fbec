// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/elf.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

#if defined(__x86_64__)
#define ELF_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define ELF_MACHINE EM_AARCH64
#else
#error "add this architecture's EM_ number"
#endif

enum { SECTION_NAME_BYTES = 64 }; // longer than any name looked up

static bool range_is_within(uint64_t size, uint64_t offset, uint64_t length)
{
	return offset <= size && length <= size - offset;
}

int elf_read(const struct elf *elf, uint64_t offset, void *bytes, size_t size)
{
	uint8_t *at = bytes;

	if (!range_is_within(elf->size, offset, size))
		return -ENOEXEC;
	while (size) {
		ssize_t count = pread(elf->fd, at, size, (off_t)offset);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return -errno;
		if (count == 0) // truncated meanwhile
			return -ENOEXEC;
		at += count;
		offset += (uint64_t)count;
		size -= (size_t)count;
	}
	return 0;
}

static int check_header(const Elf64_Ehdr *header, uint16_t machine, struct error *err)
{
	if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
		return error_set(err, -ENOEXEC, "not an ELF file");
	if (header->e_ident[EI_CLASS] != ELFCLASS64)
		return error_set(err, -ENOEXEC, "not a 64-bit ELF file (class %u)",
				 header->e_ident[EI_CLASS]);
	if (header->e_ident[EI_DATA] != ELFDATA2LSB)
		return error_set(err, -ENOEXEC, "not a little-endian ELF file");
	if (header->e_machine != machine)
		return error_set(err, -ENOEXEC, "built for another architecture (e_machine %u)",
				 header->e_machine);
	if (header->e_type != ET_EXEC && header->e_type != ET_DYN)
		return error_set(err, -ENOEXEC,
				 "neither an executable nor a shared object (e_type %u)",
				 header->e_type);
	if (header->e_phnum && header->e_phentsize != sizeof(Elf64_Phdr))
		return error_set(err, -ENOEXEC, "e_phentsize is %u, expected %zu",
				 header->e_phentsize, sizeof(Elf64_Phdr));
	return 0;
}

int elf_read_address(const struct elf *elf, uint64_t address, void *bytes, size_t size)
{
	for (uint32_t i = 0; i < elf->load_count; i++) {
		const Elf64_Phdr *load = &elf->loads[i];

		if (address >= load->p_vaddr && address - load->p_vaddr <= load->p_filesz &&
		    size <= load->p_filesz - (address - load->p_vaddr))
			return elf_read(elf, elf_file_offset(load, address), bytes, size);
	}
	return -ENOEXEC;
}

int elf_read_segment(const struct elf *elf, uint32_t index, Elf64_Phdr *ret_segment)
{
	Elf64_Phdr segment;

	// e_phnum is 16 bits, so the product cannot wrap; the sum is checked.
	if (index >= elf->header.e_phnum || index >= ELF_SEGMENTS_MAX)
		return -ENOENT;

	uint64_t offset = elf->header.e_phoff + (uint64_t)index * sizeof(segment);
	if (offset < elf->header.e_phoff)
		return -ENOEXEC;

	int rc = elf_read(elf, offset, &segment, sizeof(segment));
	if (rc)
		return rc;
	*ret_segment = segment;
	return 0;
}

static bool load_is_sound(const struct elf *elf, const Elf64_Phdr *segment)
{
	return range_is_within(elf->size, segment->p_offset, segment->p_filesz) &&
	       segment->p_vaddr + segment->p_filesz >= segment->p_vaddr;
}

static int read_loads(struct elf *elf, struct error *err)
{
	Elf64_Phdr segment;
	uint32_t index = 0;
	int rc;

	while ((rc = elf_read_segment(elf, index++, &segment)) == 0) {
		if (segment.p_type != PT_LOAD)
			continue;
		// Ignore a segment past the end (of a truncated file): the others are usable.
		if (!load_is_sound(elf, &segment))
			continue;
		if (elf->load_count == ELF_LOADS_MAX)
			break;
		elf->loads[elf->load_count++] = segment;
	}
	if (rc && rc != -ENOENT)
		return error_set(err, rc, "program headers lie outside of the file");
	return 0;
}

int elf_read_headers_of(int fd, const struct stat *status, uint16_t machine, struct elf *ret_elf,
			struct error *err)
{
	if (!S_ISREG(status->st_mode))
		return error_set(err, -ENOEXEC, "not a regular file");
	if ((uint64_t)status->st_size > ELF_BYTES_MAX)
		return error_set(err, -EFBIG, "too large (%lld bytes, limit %llu)",
				 (long long)status->st_size, ELF_BYTES_MAX);

	memset(ret_elf, 0, sizeof(*ret_elf));
	ret_elf->fd = fd;
	ret_elf->size = (uint64_t)status->st_size;

	int rc = elf_read(ret_elf, 0, &ret_elf->header, sizeof(ret_elf->header));
	if (rc)
		return error_set(err, rc, "no ELF header");
	rc = check_header(&ret_elf->header, machine, err);
	if (rc)
		return rc;
	return read_loads(ret_elf, err);
}

int elf_read_headers(int fd, const struct stat *status, struct elf *ret_elf, struct error *err)
{
	return elf_read_headers_of(fd, status, ELF_MACHINE, ret_elf, err);
}

// Past 65279 sections the count is in the size of the first header (gABI, "ELF Header").
static int section_count(const struct elf *elf, uint32_t *ret_count)
{
	Elf64_Shdr first;

	if (!elf->header.e_shoff)
		return -ENOENT;
	if (elf->header.e_shentsize != sizeof(first))
		return -ENOEXEC;
	if (elf->header.e_shnum) {
		*ret_count = elf->header.e_shnum;
		return 0;
	}

	int rc = elf_read(elf, elf->header.e_shoff, &first, sizeof(first));
	if (rc)
		return rc;
	if (!first.sh_size)
		return -ENOENT;
	if (first.sh_size > ELF_SECTIONS_MAX)
		return -E2BIG;
	*ret_count = (uint32_t)first.sh_size;
	return 0;
}

int elf_read_sections(const struct elf *elf, Elf64_Shdr **ret_sections, uint32_t *ret_count)
{
	uint32_t count;
	int rc = section_count(elf, &count);
	if (rc)
		return rc;
	if (count > ELF_SECTIONS_MAX)
		return -E2BIG;

	// Check before allocating: a small file must not make us allocate much.
	size_t size = (size_t)count * sizeof(Elf64_Shdr);
	if (!range_is_within(elf->size, elf->header.e_shoff, size))
		return -ENOEXEC;

	_cleanup_free_ Elf64_Shdr *sections = malloc(size);
	if (!sections)
		return -ENOMEM;
	rc = elf_read(elf, elf->header.e_shoff, sections, size);
	if (rc)
		return rc;
	*ret_sections = take(sections);
	*ret_count = count;
	return 0;
}

// Past 65279 sections the index is in the link of the first header (gABI, "ELF Header").
static const Elf64_Shdr *names_of_sections(const struct elf *elf, const Elf64_Shdr *sections,
					   uint32_t count)
{
	uint32_t index = elf->header.e_shstrndx;

	if (index == SHN_XINDEX)
		index = sections[0].sh_link;
	return index < count ? &sections[index] : NULL;
}

int elf_find_section(const struct elf *elf, const char *name, Elf64_Shdr *ret_section)
{
	_cleanup_free_ Elf64_Shdr *sections = NULL;
	uint32_t count;
	char found[SECTION_NAME_BYTES];
	size_t size = strlen(name) + 1;

	if (size > sizeof(found))
		return -ENOENT;
	int rc = elf_read_sections(elf, &sections, &count);
	if (rc)
		return rc;
	const Elf64_Shdr *names = names_of_sections(elf, sections, count);
	if (!names)
		return -ENOENT;
	for (uint32_t i = 1; i < count; i++) {
		uint64_t place = names->sh_offset + sections[i].sh_name;

		if (!range_is_within(names->sh_size, sections[i].sh_name, size) ||
		    place < names->sh_offset || elf_read(elf, place, found, size))
			continue;
		if (memcmp(found, name, size) == 0) {
			*ret_section = sections[i];
			return 0;
		}
	}
	return -ENOENT;
}

const Elf64_Phdr *elf_find_code(const struct elf *elf, uint64_t address)
{
	for (uint32_t i = 0; i < elf->load_count; i++) {
		const Elf64_Phdr *load = &elf->loads[i];

		if ((load->p_flags & PF_X) && address >= load->p_vaddr &&
		    address - load->p_vaddr < load->p_filesz)
			return load;
	}
	return NULL;
}
