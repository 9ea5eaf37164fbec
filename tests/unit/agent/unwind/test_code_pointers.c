// SPDX-License-Identifier: Apache-2.0
// Functions of stripped files, as their unwind tables show them.
#include "agent/unwind/code_pointers.h"

#include "tests/unit/agent/unwind/table_text.h"

enum { ENTRY = 0x10, FUNCTION = 0x80, DATA = 0x4000 };

/* push %rbx; pop %rbx; ret */
static const uint8_t function[] = { 0x53, 0x5b, 0xc3 };
#define FUNCTION_ROWS "80 7+8 = c-8 | 81 7+16 = c-8 | 82 7+8 = c-8 | 83 none"

static void begin(struct cfi_image *image)
{
	cfi_image_init(image, EM_X86_64, ".eh_frame");
	memcpy(image->text + FUNCTION, function, sizeof(function));
	image->text[FUNCTION - 1] = 0xc3;
	image->segments[1].p_flags = PF_R | PF_W;
	image->header.e_type = ET_EXEC;
}

static void put_word(struct cfi_image *image, uint32_t at, uint64_t word)
{
	memcpy(image->frame + at, &word, sizeof(word));
}

TEST(the_entry_names_main)
{
	static const struct {
		const char *what;
		uint8_t code[12];
		const char *rows;
	} rows[] = {
		{ "lea distance(%rip), %rdi; call",
		  { 0x48, 0x8d, 0x3d, 0x69, 0, 0, 0, 0xe8, 0x64, 0, 0, 0 },
		  "0 none | 10 end | 1c none | " FUNCTION_ROWS },
		{ "mov $address, %rdi; hlt",
		  { 0x48, 0xc7, 0xc7, 0x80, 0x10, 0x40, 0, 0xf4 },
		  "0 none | 10 end | 50 none | " FUNCTION_ROWS },
		{ "mov $address, %edi; hlt",
		  { 0xbf, 0x80, 0x10, 0x40, 0, 0xf4 },
		  "0 none | 10 end | 50 none | " FUNCTION_ROWS },
		{ "call",
		  { 0xe8, 0x6b, 0, 0, 0, 0xf4 },
		  "0 none | 10 end | 15 none | " FUNCTION_ROWS },
		{ "call outside of the code",
		  { 0xe8, 0, 0, 0, 0x10, 0xf4 },
		  "0 none | 10 end | 50 none" },
	};

	for EACH (row, rows) {
		struct cfi_image image;

		begin(&image);
		image.header.e_entry = CFI_TEXT + ENTRY;
		memcpy(image.text + ENTRY, row->code, sizeof(row->code));
		expect_rows(row->rows, &image, 0x100, row->what);
	}
}

TEST(data_names_functions)
{
	struct cfi_image image;

	begin(&image);
	put_word(&image, DATA + 8, CFI_TEXT + FUNCTION);
	expect_rows("0 none | " FUNCTION_ROWS, &image, 0x100, "a word");
	image.segments[1].p_flags = PF_R;
	expect_rows("0 none", &image, 0x100, "a jump table looks the same, in constants");
	image.segments[1].p_flags = PF_R | PF_W;
	put_word(&image, DATA + 8, 0);
	memcpy(image.frame + DATA + 12, &(uint64_t){ CFI_TEXT + FUNCTION }, 8);
	expect_rows("0 none", &image, 0x100, "not aligned");
}

TEST(relocations_name_functions)
{
	const Elf64_Rela relocations[] = {
		{ .r_info = ELF64_R_INFO(0, R_X86_64_GLOB_DAT), .r_addend = CFI_TEXT + 0x40 },
		{ .r_info = ELF64_R_INFO(0, R_X86_64_RELATIVE), .r_addend = CFI_TEXT + FUNCTION },
	};
	struct cfi_image image;

	begin(&image);
	image.header.e_type = ET_DYN;
	memcpy(image.frame + DATA, relocations, sizeof(relocations));
	put_word(&image, DATA + 2 * sizeof(relocations[0]), 0);
	image.segments[1].p_filesz = 8; // the words are not data
	cfi_image_add_section(&image, ".rela.dyn",
			      (Elf64_Shdr){ .sh_type = SHT_RELA,
					    .sh_offset = CFI_FRAME_OFFSET + DATA,
					    .sh_size = sizeof(relocations) });
	expect_rows("0 none | " FUNCTION_ROWS, &image, 0x100, "R_X86_64_RELATIVE");
	image.sections[image.header.e_shnum - 1].sh_size = UINT64_MAX;
	expect_rows("0 none | " FUNCTION_ROWS, &image, 0x100, "as many as there are");
}

/* A label in a table: the function that jumps there is known by the entry, and its frame holds. */
TEST(labels_are_no_functions)
{
	// push %rbx; jmp next; next: pop %rbx; ret
	static const uint8_t code[] = { 0x53, 0xeb, 0, 0x5b, 0xc3 };
	struct cfi_image image;

	begin(&image);
	memcpy(image.text + FUNCTION, code, sizeof(code));
	put_word(&image, DATA, CFI_TEXT + FUNCTION);
	put_word(&image, DATA + 8, CFI_TEXT + FUNCTION + 3);
	expect_rows("0 none | 80 7+8 = c-8 | 81 7+16 = c-8 | 84 7+8 = c-8 | 85 none", &image, 0x100,
		    "after the push");
}

/* Found through the code behind a jump table: its rules need another look at what falls into it. */
TEST(code_behind_tables_names_functions)
{
	// push %rbx; jmp *%rax; what the table leads to: lea 0x17(%rip), %rax; pop %rbx; ret
	static const uint8_t code[] = { 0x53, 0xff, 0xe0, 0x48, 0x8d, 0x05,
					0x17, 0,    0,    0,    0x5b, 0xc3 };
	struct cfi_image image;

	begin(&image);
	memcpy(image.text + FUNCTION, code, sizeof(code));
	memset(image.text + FUNCTION + sizeof(code), 0xcc, 0x21 - sizeof(code)); // int3
	memcpy(image.text + FUNCTION + 0x21, function, sizeof(function));
	put_word(&image, DATA, CFI_TEXT + FUNCTION);
	expect_rows("0 none | 80 7+8 = c-8 | 81 7+16 = c-8 | 8b 7+8 = c-8 | 8c 7+16 = c-8 | "
		    "a1 7+8 = c-8 | a2 7+16 = c-8 | a3 7+8 = c-8 | a4 none",
		    &image, 0x100, "by lea");
}

/* lea distance(%rip), %rax, at LEA */
enum { LEA = 0x10, LEA_BYTES = 7, LARGE = 0x1000000, LARGE_BYTES = 5 << 20 };
static const uint8_t lea[LEA_BYTES] = { 0x48, 0x8d, 0x05, FUNCTION - LEA - LEA_BYTES };
#define LEA_ROWS "0 none | 10 7+8 = c-8 | 20 none"

static void put_described_lea(struct cfi_image *image)
{
	begin(image);
	cfi_image_put_usual_common(image);
	cfi_image_put_function(image, LEA, 0x10, NULL, 0);
	memcpy(image->text + LEA, lea, sizeof(lea));
	image->text[LEA + 0x10 - 1] = 0xc3; // ret
}

TEST(described_code_names_functions)
{
	static const struct {
		const char *what;
		uint8_t code[LEA_BYTES + 1];
		const char *rows;
	} rows[] = {
		{ "lea to %rax", { 0x48, 0x8d, 0x05, 0x69 }, LEA_ROWS " | " FUNCTION_ROWS },
		{ "lea to %r15", { 0x4c, 0x8d, 0x3d, 0x69 }, LEA_ROWS " | " FUNCTION_ROWS },
		{ "call", { 0xe8, 0x6b }, LEA_ROWS " | " FUNCTION_ROWS },
		{ "an offset in a structure", { 0x48, 0x8d, 0x87, 0x69 }, LEA_ROWS },
		{ "another load", { 0x48, 0x8b, 0x05, 0x69 }, LEA_ROWS },
		{ "outside", { 0x48, 0x8d, 0x05, 0x69, 0, 0x10 }, LEA_ROWS },
		{ "described code", { 0x48, 0x8d, 0x05, 0x08 }, LEA_ROWS },
	};

	for EACH (row, rows) {
		struct cfi_image image;

		put_described_lea(&image);
		memcpy(image.text + LEA, row->code, sizeof(row->code));
		expect_rows(row->rows, &image, 0x100, row->what);
	}
}

/* With a segment of code that is large, as ONNX Runtime's, all of it described. */
static void put_large(struct cfi_image *image)
{
	put_described_lea(image);
	cfi_image_put_function(image, LARGE - CFI_TEXT, LARGE_BYTES, NULL, 0);
	image->segments[3] = (Elf64_Phdr){ .p_type = PT_LOAD,
					   .p_flags = PF_R | PF_X,
					   .p_offset = CFI_IMAGE_BYTES,
					   .p_vaddr = LARGE,
					   .p_filesz = LARGE_BYTES,
					   .p_memsz = LARGE_BYTES };
}

static void expect_large_rows(const char *expected, const struct cfi_image *image,
			      const struct unwind_mark *mark, const char *what)
{
	struct unwind_table *table = NULL;
	struct error err = { 0 };
	struct stat status;
	struct elf elf;
	int fd = memfd_create("large", MFD_CLOEXEC);

	assert_int_equal(CFI_IMAGE_BYTES, write(fd, image, CFI_IMAGE_BYTES));
	assert_int_equal(0, ftruncate(fd, CFI_IMAGE_BYTES + LARGE_BYTES));
	assert_int_equal(0, fstat(fd, &status));
	assert_int_equal(0, elf_read_headers_of(fd, &status, EM_X86_64, &elf, &err));
	assert_int_equal(0, unwind_table_build(&elf, mark, mark != NULL, UNWIND_TABLE_ROWS_MAX,
					       &table, &err));
	close(fd);
	EXPECT_STR(expected, rows_of(table, 0x100), what);
	unwind_table_free(table);
}

TEST(large_stripped_files_name_functions)
{
	struct cfi_image image;

	put_large(&image);
	expect_large_rows(LEA_ROWS " | " FUNCTION_ROWS, &image, NULL, "without symbols");
	cfi_image_add_section(&image, ".symtab", (Elf64_Shdr){ .sh_type = SHT_SYMTAB });
	expect_large_rows(LEA_ROWS, &image, NULL, "symbols show them later");

	put_large(&image);
	cfi_image_put_function(&image, 0xf0, CFI_TEXT_BYTES - 0xf0, NULL, 0);
	expect_large_rows(LEA_ROWS " | f0 7+8 = c-8", &image, NULL,
			  "no gap is larger than padding");
}

/* What is too much, or too little, to analyze at once is analyzed where a stack ended. */
TEST(functions_of_stripped_files_are_found_on_demand)
{
	const struct unwind_mark mark = { CFI_TEXT + FUNCTION + 1, CFI_TEXT + FUNCTION + 2,
					  MARK_ANALYZE };
	struct cfi_image image;

	put_large(&image);
	cfi_image_put_function(&image, 0xf0, CFI_TEXT_BYTES - 0xf0, NULL, 0);
	expect_large_rows(LEA_ROWS " | " FUNCTION_ROWS " | f0 7+8 = c-8", &image, &mark,
			  "without symbols");
	cfi_image_add_section(&image, ".symtab", (Elf64_Shdr){ .sh_type = SHT_SYMTAB });
	expect_large_rows(LEA_ROWS " | f0 7+8 = c-8", &image, &mark, "the symbol would be known");
}

TEST(tail_calls_name_functions)
{
	static const uint8_t jump[] = { 0xe9, FUNCTION - LEA - 5, 0, 0, 0, 0xcc, 0xcc };
	const struct unwind_mark mark = { CFI_TEXT + FUNCTION + 1, CFI_TEXT + FUNCTION + 2,
					  MARK_ANALYZE };
	struct cfi_image image;

	put_large(&image);
	cfi_image_put_function(&image, 0xf0, CFI_TEXT_BYTES - 0xf0, NULL, 0);
	memcpy(image.text + LEA, jump, sizeof(jump));
	expect_large_rows(LEA_ROWS " | " FUNCTION_ROWS " | f0 7+8 = c-8", &image, &mark,
			  "behind a return");
	image.text[FUNCTION - 1] = 0x53;
	expect_large_rows(LEA_ROWS " | f0 7+8 = c-8", &image, &mark, "to the middle of code");
}

/* Those that are exported are few of them. */
TEST(exported_functions_are_not_all)
{
	const Elf64_Sym exported[] = { { .st_shndx = SHN_UNDEF },
				       { .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
					 .st_shndx = 1,
					 .st_value = CFI_TEXT + 0xa0,
					 .st_size = 3 } };
	struct cfi_image image;

	put_described_lea(&image);
	memcpy(image.text + 0xa0, function, sizeof(function));
	memcpy(image.frame + DATA, exported, sizeof(exported));
	cfi_image_add_section(&image, ".dynsym",
			      (Elf64_Shdr){ .sh_type = SHT_DYNSYM,
					    .sh_offset = CFI_FRAME_OFFSET + DATA,
					    .sh_entsize = sizeof(Elf64_Sym),
					    .sh_link = 1,
					    .sh_size = sizeof(exported) });
	expect_rows(LEA_ROWS " | " FUNCTION_ROWS " | a0 7+8 = c-8 | a1 7+16 = c-8 | "
			     "a2 7+8 = c-8 | a3 none",
		    &image, 0x100, "one that is, one that is not");
}

RUN_TESTS(cmocka_unit_test(the_entry_names_main), cmocka_unit_test(data_names_functions),
	  cmocka_unit_test(relocations_name_functions), cmocka_unit_test(labels_are_no_functions),
	  cmocka_unit_test(code_behind_tables_names_functions),
	  cmocka_unit_test(described_code_names_functions),
	  cmocka_unit_test(large_stripped_files_name_functions),
	  cmocka_unit_test(functions_of_stripped_files_are_found_on_demand),
	  cmocka_unit_test(tail_calls_name_functions),
	  cmocka_unit_test(exported_functions_are_not_all))
