// SPDX-License-Identifier: Apache-2.0
// A small ELF file built in memory, so that tests can break each of its parts.
#pragma once

#include <elf.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	IMAGE_TEXT = 0x1000, // file offset of .text; it is mapped at IMAGE_ADDRESS
	IMAGE_TEXT_BYTES = 0x1000,
	IMAGE_ADDRESS = 0x401000,
	IMAGE_SYMBOLS_MAX = 64,
	IMAGE_NAMES_MAX = 8192,
};

enum {
	SECTION_NULL,
	SECTION_TEXT,
	SECTION_NOTE,
	SECTION_SYMTAB,
	SECTION_STRTAB,
	SECTION_DYNSYM,
	SECTION_DYNSTR,
	SECTION_COUNT
};

/** Laid out as it lies in the file. */
struct elf_image {
	Elf64_Ehdr header;
	Elf64_Phdr segments[2]; // PT_LOAD, PT_NOTE
	Elf64_Nhdr note;
	char note_name[4];
	uint8_t note_id[20];
	uint8_t gap[IMAGE_TEXT - sizeof(Elf64_Ehdr) - 2 * sizeof(Elf64_Phdr) - sizeof(Elf64_Nhdr) -
		    24];
	uint8_t text[IMAGE_TEXT_BYTES];
	Elf64_Sym symbols[IMAGE_SYMBOLS_MAX];
	Elf64_Sym dynamic_symbols[IMAGE_SYMBOLS_MAX];
	char names[IMAGE_NAMES_MAX];
	Elf64_Shdr sections[SECTION_COUNT];
	// beside the file
	uint32_t symbol_count, dynamic_count, names_size;
};

#define IMAGE_BYTES (offsetof(struct elf_image, symbol_count))

static inline void image_init(struct elf_image *image)
{
	memset(image, 0, sizeof(*image));
	image->header = (Elf64_Ehdr)
	{
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_DYN,
#if defined(__x86_64__)
		.e_machine = EM_X86_64,
#else
		.e_machine = EM_AARCH64,
#endif
		.e_version = EV_CURRENT, .e_phoff = offsetof(struct elf_image, segments),
		.e_shoff = offsetof(struct elf_image, sections), .e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 2, .e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SECTION_COUNT,
	};
	image->segments[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
					   .p_flags = PF_R | PF_X,
					   .p_offset = IMAGE_TEXT,
					   .p_vaddr = IMAGE_ADDRESS,
					   .p_filesz = IMAGE_TEXT_BYTES,
					   .p_memsz = IMAGE_TEXT_BYTES };
	image->segments[1] = (Elf64_Phdr){ .p_type = PT_NOTE,
					   .p_offset = offsetof(struct elf_image, note),
					   .p_filesz = sizeof(Elf64_Nhdr) + 24,
					   .p_align = 4 };
	image->note = (Elf64_Nhdr){ .n_namesz = 4, .n_descsz = 20, .n_type = NT_GNU_BUILD_ID };
	memcpy(image->note_name, "GNU", 4);
	for (int i = 0; i < 20; i++)
		image->note_id[i] = (uint8_t)(i * 11);
	image->sections[SECTION_TEXT] = (Elf64_Shdr){ .sh_type = SHT_PROGBITS,
						      .sh_addr = IMAGE_ADDRESS,
						      .sh_offset = IMAGE_TEXT,
						      .sh_size = IMAGE_TEXT_BYTES };
	image->sections[SECTION_NOTE] = (Elf64_Shdr){ .sh_type = SHT_NOTE,
						      .sh_offset = offsetof(struct elf_image, note),
						      .sh_size = sizeof(Elf64_Nhdr) + 24,
						      .sh_addralign = 4 };
	image->sections[SECTION_SYMTAB] =
		(Elf64_Shdr){ .sh_type = SHT_SYMTAB,
			      .sh_link = SECTION_STRTAB,
			      .sh_offset = offsetof(struct elf_image, symbols),
			      .sh_entsize = sizeof(Elf64_Sym) };
	image->sections[SECTION_DYNSYM] =
		(Elf64_Shdr){ .sh_type = SHT_DYNSYM,
			      .sh_link = SECTION_DYNSTR,
			      .sh_offset = offsetof(struct elf_image, dynamic_symbols),
			      .sh_entsize = sizeof(Elf64_Sym) };
	image->sections[SECTION_STRTAB] = image->sections[SECTION_DYNSTR] =
		(Elf64_Shdr){ .sh_type = SHT_STRTAB,
			      .sh_offset = offsetof(struct elf_image, names),
			      .sh_size = IMAGE_NAMES_MAX };
	image->names_size = 1;
}

static inline uint32_t image_add_name(struct elf_image *image, const char *name)
{
	uint32_t place = image->names_size;

	assert_true(place + strlen(name) + 1 <= IMAGE_NAMES_MAX);
	memcpy(image->names + place, name, strlen(name) + 1);
	image->names_size += (uint32_t)strlen(name) + 1;
	return place;
}

static inline Elf64_Sym image_symbol(struct elf_image *image, const char *name, uint64_t offset,
				     uint64_t size, uint8_t bind, uint8_t type)
{
	return (Elf64_Sym){ .st_name = image_add_name(image, name),
			    .st_info = ELF64_ST_INFO(bind, type),
			    .st_shndx = SECTION_TEXT,
			    .st_value = IMAGE_ADDRESS + offset,
			    .st_size = size };
}

/** A function of .symtab, @offset from the beginning of .text. */
static inline Elf64_Sym *image_add_symbol(struct elf_image *image, const char *name,
					  uint64_t offset, uint64_t size, uint8_t bind,
					  uint8_t type)
{
	Elf64_Sym *symbol = &image->symbols[image->symbol_count++];

	*symbol = image_symbol(image, name, offset, size, bind, type);
	image->sections[SECTION_SYMTAB].sh_size = image->symbol_count * sizeof(Elf64_Sym);
	return symbol;
}

/** The same of .dynsym. */
static inline Elf64_Sym *image_add_dynamic(struct elf_image *image, const char *name,
					   uint64_t offset, uint64_t size)
{
	Elf64_Sym *symbol = &image->dynamic_symbols[image->dynamic_count++];

	*symbol = image_symbol(image, name, offset, size, STB_GLOBAL, STT_FUNC);
	image->sections[SECTION_DYNSYM].sh_size = image->dynamic_count * sizeof(Elf64_Sym);
	return symbol;
}

/** Its first @size bytes as a file. */
static inline int image_open_cut(const struct elf_image *image, size_t size)
{
	int fd = memfd_create("image", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(size, write(fd, image, size));
	return fd;
}

static inline int image_open(const struct elf_image *image)
{
	return image_open_cut(image, IMAGE_BYTES);
}
