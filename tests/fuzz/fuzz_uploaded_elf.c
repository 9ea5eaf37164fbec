// SPDX-License-Identifier: Apache-2.0
// Any bytes as an uploaded ELF file, and any bytes behind the headers of one that is sound: what it says
// stays within the file and the limits.

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collector/symbols/debug_elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { LOOKS = 64 };

static void look_up(const struct debug_elf *elf, size_t size)
{
	char id[DEBUG_ELF_ID_BYTES];
	uint64_t address;

	if (debug_elf_build_id(elf, id) == 0 && strspn(id, "0123456789abcdef") != strlen(id))
		abort();
	if (debug_elf_alt_id(elf, id) == 0 && strlen(id) >= DEBUG_ELF_ID_BYTES)
		abort();
	for (uint64_t offset = 0; offset < size; offset += size / LOOKS + 1) {
		const char *name = debug_elf_address(elf, offset, &address) == 0
					   ? debug_elf_function(elf, address)
					   : NULL;

		if (name && !*name)
			abort();
	}
	debug_elf_has_symbols(elf);
}

static void read_file(const Elf64_Ehdr *header, const uint8_t *bytes, size_t size)
{
	struct debug_elf *elf;
	struct error err;
	int fd = memfd_create("input", MFD_CLOEXEC);

	if (fd < 0 || (header && write(fd, header, sizeof(*header)) != sizeof(*header)) ||
	    write(fd, bytes, size) != (ssize_t)size)
		abort();
	if (debug_elf_open(fd, &elf, &err) == 0) {
		look_up(elf, size);
		debug_elf_close(elf);
	}
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const Elf64_Ehdr header = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_ehsize = sizeof(header),
		.e_phoff = sizeof(header),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 2,
		.e_shoff = sizeof(header) + 2 * sizeof(Elf64_Phdr),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = 4,
		.e_shstrndx = 3,
	};

	read_file(NULL, bytes, size);
	read_file(&header, bytes, size);
	return 0;
}
