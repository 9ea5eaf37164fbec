// SPDX-License-Identifier: Apache-2.0
// Any bytes as call frame information: the table is valid, the same every time,
// and has rules for code only. The first byte chooses the machine and the section; the rest is the
// section, so that the fuzzer need not learn ELF (fuzz_elf does).

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/unwind/unwind_table_build.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum {
	TEXT = 0x401000,
	TEXT_BYTES = 0x2000,
	FRAME = 0x500000,
	CHOICE_ARM = 1,
	CHOICE_DEBUG_FRAME = 2,
	CHOICE_NO_SECTIONS = 4,
	CHOICE_COMPRESSED = 8,
};

struct image {
	Elf64_Ehdr header;
	Elf64_Phdr segments[3];
	Elf64_Shdr sections[4];
	char names[48];
	uint8_t frame_header[16];
	uint8_t text[TEXT_BYTES];
};

static struct image image_of(uint8_t choice, size_t size)
{
	struct image image = { 0 };
	int32_t distance = FRAME - (FRAME - 0x100 + 4);

	image.header = (Elf64_Ehdr){
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = choice & CHOICE_ARM ? EM_AARCH64 : EM_X86_64,
		.e_phoff = offsetof(struct image, segments),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 3,
		.e_shoff = choice & CHOICE_NO_SECTIONS ? 0 : offsetof(struct image, sections),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = choice & CHOICE_NO_SECTIONS ? 0 : 3,
		.e_shstrndx = 1,
	};
	image.segments[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
					  .p_flags = PF_R | PF_X,
					  .p_offset = offsetof(struct image, text),
					  .p_vaddr = TEXT,
					  .p_filesz = TEXT_BYTES };
	image.segments[1] = (Elf64_Phdr){ .p_type = PT_LOAD,
					  .p_flags = PF_R,
					  .p_offset = sizeof(image),
					  .p_vaddr = FRAME,
					  .p_filesz = size };
	image.segments[2] = (Elf64_Phdr){ .p_type = PT_GNU_EH_FRAME,
					  .p_offset = offsetof(struct image, frame_header),
					  .p_vaddr = FRAME - 0x100,
					  .p_filesz = 16 };
	memcpy(image.frame_header, "\x01\x1b\x03\x3b", 4);
	memcpy(image.frame_header + 4, &distance, 4);
	strcpy(image.names, choice & CHOICE_DEBUG_FRAME ? ".debug_frame" : ".eh_frame");
	strcpy(image.names + 16, ".names");
	image.sections[1] = (Elf64_Shdr){ .sh_type = SHT_STRTAB,
					  .sh_name = 16,
					  .sh_offset = offsetof(struct image, names),
					  .sh_size = sizeof(image.names) };
	image.sections[2] =
		(Elf64_Shdr){ .sh_type = SHT_PROGBITS,
			      .sh_flags = choice & CHOICE_COMPRESSED ? SHF_COMPRESSED : 0,
			      .sh_addr = FRAME,
			      .sh_offset = sizeof(image),
			      .sh_size = size };
	return image;
}

static void check_words(const struct unwind_table *table)
{
	const uint32_t *words = table->words;

	if (table->block_count > TEXT_BYTES / TABLE_BLOCK_BYTES + 1 ||
	    words[0] != table->block_count + 1 || words[table->block_count] != table->word_count)
		abort();
	for (uint32_t block = 0; block < table->block_count; block++) {
		uint32_t first = words[block], limit = words[block + 1];

		if (first >= limit || limit > table->word_count ||
		    limit - first > TABLE_BLOCK_ROWS_MAX || words[first] >> TABLE_RULE_BITS != 0)
			abort();
		for (uint32_t i = first + 1; i < limit; i++) {
			// Ascending, and neighbours differ.
			if (words[i] >> TABLE_RULE_BITS <= words[i - 1] >> TABLE_RULE_BITS ||
			    ((words[i] ^ words[i - 1]) & TABLE_RULE_MASK) == 0 ||
			    words[i] >> TABLE_RULE_BITS >= TABLE_BLOCK_BYTES)
				abort();
		}
		for (uint32_t i = first; i < limit; i++) {
			if ((words[i] & TABLE_RULE_MASK) >= table->rule_count)
				abort();
		}
	}
}

static void check_rules(const struct unwind_table *table)
{
	for (uint32_t i = 0; i < table->rule_count; i++) {
		const struct unwind_rule *rule = &table->rules[i];

		if (rule->cfa > CFA_UNSUPPORTED || rule->cfa_register >= UNWIND_REGISTERS ||
		    (rule->saved & 15) > SAVED_AT_SP || rule->saved >> 4 > SAVED_AT_SP)
			abort();
		for (uint32_t other = 0; other < i; other++) {
			if (memcmp(rule, &table->rules[other], sizeof(*rule)) == 0)
				abort();
		}
	}
}

static void check_ends(const struct unwind_table *table)
{
	const struct unwind_rule *rule = unwind_table_find(table, TEXT + TEXT_BYTES);

	if (rule && rule->cfa != CFA_NO_TABLE)
		abort();
	if (unwind_table_find(table, TEXT - 1) || unwind_table_find(table, FRAME))
		abort();
}

static struct unwind_table *build(const struct elf *elf)
{
	const struct unwind_mark marks[] = { { TEXT + 0x123, TEXT + 0x456, RULE_PYTHON_EVAL } };
	struct unwind_table *table = NULL;
	struct error err;

	if (unwind_table_build(elf, marks, 1, UNWIND_TABLE_ROWS_MAX, &table, &err))
		return NULL;
	return table;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	int fd = memfd_create("input", MFD_CLOEXEC);
	struct stat status;
	struct error err;
	struct elf elf;

	if (!size)
		return 0;
	struct image image = image_of(bytes[0], size - 1);
	if (fd < 0 || write(fd, &image, sizeof(image)) != sizeof(image) ||
	    write(fd, bytes + 1, size - 1) != (ssize_t)size - 1 || fstat(fd, &status) ||
	    elf_read_headers_of(fd, &status, image.header.e_machine, &elf, &err))
		abort();

	struct unwind_table *table = build(&elf), *again = build(&elf);
	if (!table != !again)
		abort();
	if (table && table->block_count) {
		check_words(table);
		check_rules(table);
		check_ends(table);
		if (table->word_count != again->word_count ||
		    memcmp(table->words, again->words, table->word_count * 4) != 0)
			abort();
	}
	unwind_table_free(table);
	unwind_table_free(again);
	close(fd);
	return 0;
}
