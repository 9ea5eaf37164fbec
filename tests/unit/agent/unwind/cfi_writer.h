// SPDX-License-Identifier: Apache-2.0
// A small ELF file with call frame information, built in memory so that tests can break each part.
// Text lies at CFI_TEXT, the sections' bytes are appended in order.
#pragma once

#include <elf.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/elf/elf.h"
#include "tests/test.h"

enum {
	CFI_TEXT = 0x401000,
	CFI_TEXT_OFFSET = 0x1000, // in the file
	CFI_TEXT_BYTES = 0x4000,
	CFI_FRAME = 0x410000, // .eh_frame, in a segment that cannot be executed
	CFI_FRAME_OFFSET = CFI_TEXT_OFFSET + CFI_TEXT_BYTES,
	CFI_FRAME_MAX = 0x8000,
	CFI_SECTIONS_MAX = 6,
	CFI_SEGMENTS = 4,
};

struct cfi_image {
	Elf64_Ehdr header;
	Elf64_Phdr segments[CFI_SEGMENTS]; // text, .eh_frame, PT_GNU_EH_FRAME, one for tests
	Elf64_Shdr sections[CFI_SECTIONS_MAX];
	char names[96];
	uint8_t frame_header[16]; // .eh_frame_hdr
	uint8_t gap[CFI_TEXT_OFFSET - sizeof(Elf64_Ehdr) - CFI_SEGMENTS * sizeof(Elf64_Phdr) -
		    CFI_SECTIONS_MAX * sizeof(Elf64_Shdr) - 96 - 16];
	uint8_t text[CFI_TEXT_BYTES];
	uint8_t frame[CFI_FRAME_MAX];
	// beside the file
	uint32_t frame_size, names_size, common_at;
	uint32_t entry_at; // of the entry that is being written
	int is_debug_frame;
};

#define CFI_IMAGE_BYTES (offsetof(struct cfi_image, frame_size))

static inline uint32_t cfi_image_add_section(struct cfi_image *image, const char *name,
					     Elf64_Shdr section)
{
	uint32_t index = image->header.e_shnum++;

	assert_true(index < CFI_SECTIONS_MAX);
	assert_true(image->names_size + strlen(name) + 1 <= sizeof(image->names));
	section.sh_name = image->names_size;
	strcpy(image->names + image->names_size, name);
	image->names_size += (uint32_t)strlen(name) + 1;
	image->sections[index] = section;
	return index;
}

/** @section: ".eh_frame" or ".debug_frame". */
static inline void cfi_image_init(struct cfi_image *image, uint16_t machine, const char *section)
{
	memset(image, 0, sizeof(*image));
	_Static_assert(offsetof(struct cfi_image, text) == CFI_TEXT_OFFSET, "the gap's size");
	image->is_debug_frame = strcmp(section, ".debug_frame") == 0;
	image->header = (Elf64_Ehdr){
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = machine,
		.e_version = EV_CURRENT,
		.e_phoff = offsetof(struct cfi_image, segments),
		.e_shoff = offsetof(struct cfi_image, sections),
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = CFI_SEGMENTS,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shstrndx = 1,
	};
	image->segments[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
					   .p_flags = PF_R | PF_X,
					   .p_offset = CFI_TEXT_OFFSET,
					   .p_vaddr = CFI_TEXT,
					   .p_filesz = CFI_TEXT_BYTES,
					   .p_memsz = CFI_TEXT_BYTES };
	image->segments[1] = (Elf64_Phdr){ .p_type = PT_LOAD,
					   .p_flags = PF_R,
					   .p_offset = CFI_FRAME_OFFSET,
					   .p_vaddr = CFI_FRAME,
					   .p_filesz = CFI_FRAME_MAX,
					   .p_memsz = CFI_FRAME_MAX };
	image->names_size = 1;
	image->header.e_shnum = 1; // the null section
	cfi_image_add_section(image, ".names",
			      (Elf64_Shdr){ .sh_type = SHT_STRTAB,
					    .sh_offset = offsetof(struct cfi_image, names),
					    .sh_size = sizeof(image->names) });
	cfi_image_add_section(image, section,
			      (Elf64_Shdr){ .sh_type = SHT_PROGBITS,
					    .sh_flags = image->is_debug_frame ? 0 : SHF_ALLOC,
					    .sh_addr = image->is_debug_frame ? 0 : CFI_FRAME,
					    .sh_offset = CFI_FRAME_OFFSET });
}

enum { CFI_SECTION_FRAME = 2 };

static inline void cfi_image_put(struct cfi_image *image, const void *bytes, size_t size)
{
	assert_true(image->frame_size + size <= CFI_FRAME_MAX);
	if (size)
		memcpy(image->frame + image->frame_size, bytes, size);
	image->frame_size += (uint32_t)size;
	image->sections[CFI_SECTION_FRAME].sh_size = image->frame_size;
}

static inline void cfi_image_put_number(struct cfi_image *image, uint64_t number, size_t size)
{
	cfi_image_put(image, &number, size);
}

/** An entry's length comes when it ends. */
static inline void cfi_image_begin_entry(struct cfi_image *image)
{
	image->entry_at = image->frame_size;
	cfi_image_put_number(image, 0, 4);
}

static inline void cfi_image_end_entry(struct cfi_image *image)
{
	uint32_t length = image->frame_size - image->entry_at - 4;

	memcpy(image->frame + image->entry_at, &length, 4);
}

/** Common information: @letters is the augmentation, @augmented its bytes ("z" only). */
static inline void cfi_image_put_common(struct cfi_image *image, uint8_t version,
					const char *letters, const void *augmented,
					size_t augmented_size, const void *program, size_t size)
{
	int is_x86 = image->header.e_machine == EM_X86_64;

	image->common_at = image->frame_size;
	cfi_image_begin_entry(image);
	cfi_image_put_number(image, image->is_debug_frame ? UINT32_MAX : 0, 4);
	cfi_image_put_number(image, version, 1);
	cfi_image_put(image, letters, strlen(letters) + 1);
	if (version == 4)
		cfi_image_put(image, "\x08", 2); // bytes of an address, of a segment
	cfi_image_put_number(image, is_x86 ? 1 : 4, 1);
	cfi_image_put_number(image, 0x78, 1); // data factor: -8
	cfi_image_put_number(image, is_x86 ? 16 : 30, 1);
	if (letters[0] == 'z') {
		cfi_image_put_number(image, augmented_size, 1);
		cfi_image_put(image, augmented, augmented_size);
	}
	cfi_image_put(image, program, size);
	cfi_image_end_entry(image);
}

/** The usual one: addresses relative to themselves, in 32 bits. */
static inline void cfi_image_put_usual_common(struct cfi_image *image)
{
	static const uint8_t x86[] = { 0x0c, 7, 8, 0x80 | 16, 1 }, arm[] = { 0x0c, 31, 0 };
	int is_x86 = image->header.e_machine == EM_X86_64;

	cfi_image_put_common(image, 1, "zR", "\x1b", 1, is_x86 ? x86 : arm,
			     is_x86 ? sizeof(x86) : sizeof(arm));
}

/** What refers to the last common information. */
static inline void cfi_image_put_common_pointer(struct cfi_image *image)
{
	cfi_image_put_number(
		image,
		image->is_debug_frame ? image->common_at : image->frame_size - image->common_at, 4);
}

/** The entry of code at @offset of the text, as cfi_image_put_usual_common() has it. */
static inline void cfi_image_put_function(struct cfi_image *image, uint32_t offset, uint32_t size,
					  const void *program, size_t program_size)
{
	cfi_image_begin_entry(image);
	cfi_image_put_common_pointer(image);
	cfi_image_put_number(image, (uint32_t)(CFI_TEXT + offset - (CFI_FRAME + image->frame_size)),
			     4);
	cfi_image_put_number(image, size, 4);
	cfi_image_put_number(image, 0, 1); // bytes of augmentation
	cfi_image_put(image, program, program_size);
	cfi_image_end_entry(image);
}

/** The same with addresses as they are: .debug_frame, or augmentation "". */
static inline void cfi_image_put_absolute_function(struct cfi_image *image, uint64_t start,
						   uint64_t size, const void *program,
						   size_t program_size)
{
	cfi_image_begin_entry(image);
	cfi_image_put_common_pointer(image);
	cfi_image_put_number(image, start, 8);
	cfi_image_put_number(image, size, 8);
	cfi_image_put(image, program, program_size);
	cfi_image_end_entry(image);
}

/** A program that pushes one word after @offset code units. */
#define CFI_PUSH_AFTER(offset) ((const uint8_t[]){ 0x40 | (offset), 0x0e, 16 })

/** Its first @size bytes as an open file with its headers read; the caller closes @ret_elf->fd. */
static inline int cfi_image_open_cut(const struct cfi_image *image, size_t size,
				     struct elf *ret_elf)
{
	int fd = memfd_create("image", MFD_CLOEXEC);
	struct stat status;
	struct error err;

	assert_true(fd >= 0);
	assert_int_equal(size, write(fd, image, size));
	assert_int_equal(0, fstat(fd, &status));
	int rc = elf_read_headers_of(fd, &status, image->header.e_machine, ret_elf, &err);
	if (rc)
		close(fd);
	return rc;
}
