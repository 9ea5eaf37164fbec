// SPDX-License-Identifier: Apache-2.0
// Any bytes as Go's pclntab: rows and functions have ascending addresses.

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/elf/go_pclntab.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { TEXT_BYTES = 1 << 16, ROWS_MAX = 1 << 16, LOOKS = 64 };
#define TEXT_ADDRESS 0x400000ULL

/* An ELF file of two sections around the bytes. */
struct image {
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	Elf64_Shdr sections[3];
	char names[32];
};

static const char names[32] = "\0.gopclntab\0.shstrtab";

static int open_image(const uint8_t *bytes, size_t size)
{
	struct image image = {
		.header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			    .e_type = ET_EXEC,
#if defined(__x86_64__)
			    .e_machine = EM_X86_64,
#else
			    .e_machine = EM_AARCH64,
#endif
			    .e_phoff = offsetof(struct image, segment),
			    .e_shoff = offsetof(struct image, sections),
			    .e_phentsize = sizeof(Elf64_Phdr),
			    .e_phnum = 1,
			    .e_shentsize = sizeof(Elf64_Shdr),
			    .e_shnum = 3,
			    .e_shstrndx = 2 },
		.segment = { .p_type = PT_LOAD, .p_flags = PF_X, .p_vaddr = TEXT_ADDRESS },
		.sections = { [1] = { .sh_name = 1,
				      .sh_type = SHT_PROGBITS,
				      .sh_offset = sizeof(image),
				      .sh_size = size },
			      [2] = { .sh_name = 12,
				      .sh_type = SHT_STRTAB,
				      .sh_offset = offsetof(struct image, names),
				      .sh_size = sizeof(image.names) } },
	};
	int fd = memfd_create("input", MFD_CLOEXEC);

	memcpy(image.names, names, sizeof(names));
	image.segment.p_filesz = sizeof(image) + size;
	if (fd < 0 || write(fd, &image, sizeof(image)) != sizeof(image) ||
	    write(fd, bytes, size) != (ssize_t)size)
		abort();
	return fd;
}

struct walk {
	uint64_t last;
	uint32_t count;
};

static int check_row(void *context, const struct go_row *row)
{
	struct walk *walk = context;

	if ((walk->count && row->address < walk->last) || row->sp_delta < 0)
		abort();
	walk->last = row->address;
	return ++walk->count == ROWS_MAX ? 1 : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct go_pclntab *table = NULL;
	struct walk walk = { 0 };
	char file[GO_FILE_BYTES];
	struct stat status;
	uint32_t line;
	struct elf elf;
	int fd = open_image(bytes, size);

	if (fstat(fd, &status) || elf_read_headers(fd, &status, &elf, NULL))
		abort();
	go_pclntab_rows(&elf, check_row, &walk);
	if (go_pclntab_open(&elf, &table) == 0) {
		for (uint32_t i = 0; i < go_pclntab_count(table) && i < LOOKS; i++) {
			struct go_function function;

			if (go_pclntab_function(table, i, &function) == 0 &&
			    go_pclntab_find_line(table, function.address, file, &line) == 0 &&
			    strlen(file) >= GO_FILE_BYTES)
				abort();
		}
	}
	go_pclntab_close(table);
	close(fd);
	return 0;
}
