// SPDX-License-Identifier: Apache-2.0
// Any bytes as an ELF file with mini debug info or a link: unpacking is bounded, and a debug file
// that is found has its identity. The same bytes are tried as the unpacked file's content.

#include <fcntl.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/symbols/file_symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { PACKED_MAX = 1 << 20, LOOKS = 64 };

/* A section header before the bytes gives them a type. */
struct image {
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	Elf64_Shdr sections[4];
	char names[64];
};

static const char names[64] = "\0.gnu_debugdata\0.gnu_debuglink\0.shstrtab";
enum { DEBUGDATA_NAME = 1, DEBUGLINK_NAME = 16, SHSTRTAB_NAME = 31 };

static int open_image(const uint8_t *packed, size_t packed_size, const uint8_t *link,
		      size_t link_size)
{
	struct image image = {
		.header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			    .e_type = ET_DYN,
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
			    .e_shnum = 4,
			    .e_shstrndx = 3 },
		.segment = { .p_type = PT_LOAD, .p_flags = PF_X },
		.sections = { [1] = { .sh_name = DEBUGDATA_NAME,
				      .sh_type = SHT_PROGBITS,
				      .sh_offset = sizeof(image),
				      .sh_size = packed_size },
			      [2] = { .sh_name = DEBUGLINK_NAME,
				      .sh_type = SHT_PROGBITS,
				      .sh_offset = sizeof(image) + packed_size,
				      .sh_size = link_size },
			      [3] = { .sh_name = SHSTRTAB_NAME,
				      .sh_type = SHT_STRTAB,
				      .sh_offset = offsetof(struct image, names),
				      .sh_size = sizeof(image.names) } },
	};
	int fd = memfd_create("input", MFD_CLOEXEC);

	memcpy(image.names, names, sizeof(names));
	image.segment.p_filesz = sizeof(image) + packed_size + link_size;
	if (fd < 0 || write(fd, &image, sizeof(image)) != sizeof(image) ||
	    write(fd, packed, packed_size) != (ssize_t)packed_size ||
	    write(fd, link, link_size) != (ssize_t)link_size)
		abort();
	return fd;
}

static void look_up(int fd, size_t size)
{
	const struct debug_file_search search = { .path = "/usr/bin/input",
						  .folders = { AT_FDCWD, -1, -1 } };
	struct file_symbols symbols;
	struct symbol_range range;
	char name[SYMBOL_NAME_BYTES];

	if (file_symbols_read(fd, &search, -1, &symbols))
		return;
	if (symbols.debug_bytes > MINI_DEBUG_BYTES_MAX)
		abort();
	for (uint64_t offset = 0; offset < size; offset += size / LOOKS + 1) {
		if (symbol_table_find(symbols.table, offset, &range))
			continue;
		if (range.start_offset > offset || offset - range.start_offset >= range.size)
			abort();
		if (file_symbols_read_name(&symbols, fd, range.index, name) == 0 &&
		    strlen(name) >= SYMBOL_NAME_BYTES)
			abort();
	}
	file_symbols_deinit(&symbols);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static uint8_t packed[PACKED_MAX];
	size_t packed_size = 0;

	// Once as they are, once compressed.
	int fd = open_image(bytes, size, bytes, size < 64 ? size : 64);
	look_up(fd, size + sizeof(struct image));
	close(fd);
	if (lzma_easy_buffer_encode(0, LZMA_CHECK_NONE, NULL, bytes, size, packed, &packed_size,
				    PACKED_MAX) == LZMA_OK) {
		fd = open_image(packed, packed_size, bytes, 0);
		look_up(fd, packed_size + sizeof(struct image));
		close(fd);
	}
	return 0;
}
