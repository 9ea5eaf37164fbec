// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/unwind_synthesis.h"

#include "tests/unit/agent/unwind/table_text.h"

TEST(the_program_entry_ends_stacks)
{
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	cfi_image_put_function(&image, 0x10, 0x20, CFI_PUSH_AFTER(4), 3);
	cfi_image_put_function(&image, 0x80, 0x10, NULL, 0);
	image.header.e_type = ET_EXEC;
	image.header.e_entry = CFI_TEXT + 0x10;
	expect_rows("0 none | 10 end | 30 none | 80 7+8 = c-8 | 90 none", &image, 0x100,
		    "in a function");
	image.header.e_entry = CFI_TEXT + 0x60;
	expect_rows("0 none | 10 7+8 = c-8 | 14 7+16 = c-8 | 30 none | 60 end | 80 7+8 = c-8 | "
		    "90 none",
		    &image, 0x100, "without one, up to the next");
	image.header.e_entry = CFI_TEXT + 0xa0;
	expect_rows("0 none | 10 7+8 = c-8 | 14 7+16 = c-8 | 30 none | 80 7+8 = c-8 | 90 none | "
		    "a0 end | e0 none",
		    &image, 0x100, "without one, and nothing behind");
	image.text[0x80] = 0xc3; // what is called returns
	memcpy(image.text + 0xa9, (const uint8_t[]){ 0xe8, 0xd2, 0xff, 0xff, 0xff, 0xf4 }, 6);
	expect_rows("0 none | 10 7+8 = c-8 | 14 7+16 = c-8 | 30 none | 80 7+8 = c-8 | 90 none | "
		    "a0 end | ae none",
		    &image, 0x100, "without one, up to the call");

	image.header.e_entry = CFI_FRAME;
	expect_rows("0 none | 10 7+8 = c-8 | 14 7+16 = c-8 | 30 none | 80 7+8 = c-8 | 90 none",
		    &image, 0x100, "in data");
}

TEST(a_library_entry_needs_the_right_bytes)
{
	static const uint8_t start[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x31, 0xed };
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	cfi_image_put_function(&image, 0x10, 0x10, NULL, 0);
	image.header.e_entry = CFI_TEXT + 0x10;
	expect_rows("0 none | 10 7+8 = c-8 | 20 none", &image, 0x100, "an ordinary function");
	memcpy(image.text + 0x10, start, sizeof(start));
	expect_rows("0 none | 10 end | 20 none", &image, 0x100, "the loader's start");
	memset(image.text + 0x10, 0, sizeof(start));
	image.segments[3] = (Elf64_Phdr){ .p_type = PT_INTERP };
	expect_rows("0 none | 10 end | 20 none", &image, 0x100, "a program that is a library");
}

/* As in MKL: what a function's frame information describes begins behind its first instruction. */
TEST(describes_landing_pads_before_functions)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	cfi_image_put_function(&image, 0x14, 0x10, NULL, 0);
	cfi_image_put_function(&image, 0x44, 0x10, NULL, 0);
	cfi_image_put_function(&image, 0x68, 0x4, NULL, 0);
	cfi_image_put_function(&image, 0x72, 0x2, NULL, 0);
	cfi_image_put_function(&image, 0x74, 0x4, NULL, 0);
	memcpy(image.text + 0x10, endbr64, sizeof(endbr64));
	memcpy(image.text + 0x64, endbr64, sizeof(endbr64)); // not where functions begin
	memcpy(image.text + 0x70, endbr64, sizeof(endbr64)); // partly described
	expect_rows("0 none | 10 7+8 = c-8 | 24 none | 44 7+8 = c-8 | 54 none | 68 7+8 = c-8 | "
		    "6c none | 72 7+8 = c-8 | 78 none",
		    &image, 0x100, "one has a pad");
}

TEST(recognizes_signal_returns_by_their_bytes)
{
	static const uint8_t x86[] = { 0x90, 0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05, 0x90 };
	static const uint8_t arm[] = { 0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4 };
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	memcpy(image.text + 0x40, x86, sizeof(x86));
	memcpy(image.text + 0x80, x86, sizeof(x86));
	cfi_image_put_usual_common(&image);
	cfi_image_put_function(&image, 0x80, 0x10, NULL, 0); // this one is described
	expect_rows("0 none | 40 signal | 4a none | 80 7+8 = c-8 | 90 none", &image, 0x100, "x86");

	cfi_image_init(&image, EM_AARCH64, ".eh_frame");
	memcpy(image.text + 0x40, arm, sizeof(arm));
	expect_rows("0 none | 3f signal | 48 none", &image, 0x100, "aarch64");
}

TEST(recognizes_clone_returns_by_their_bytes)
{
	static const uint8_t first[] = { 0x07, 16 }; // DW_CFA_undefined: rip
	static const uint8_t glibc[] = {
		0x0f, 0x05, 0x48, 0x85, 0xc0, 0x7c, 0x18, 0x74, 0x01, 0xc3
	};
	static const uint8_t musl[] = {
		0x0f, 0x05, 0x85, 0xc0, 0x75, 0x0f, 0x31, 0xed, 0x5f, 0x41,
		0xff, 0xd1, 0x89, 0xc7, 0x31, 0xc0, 0xb0, 60,   0x0f, 0x05
	};
	static const uint8_t arm_musl[] = { 0x01, 0,    0,    0xd4, 0x40, 0,    0,
					    0xb4, 0xc0, 0x03, 0x5f, 0xd6, 0xe1, 0x03,
					    0xc1, 0xa8, 0x20, 0,    0x3f, 0xd6, 0xa8,
					    0x0b, 0x80, 0xd2, 0x01, 0,    0,    0xd4 };
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	memcpy(image.text + 0x36, glibc, sizeof(glibc));
	memcpy(image.text + 0x66, glibc, sizeof(glibc));
	cfi_image_put_usual_common(&image);
	cfi_image_put_function(&image, 0x20, 0x16, NULL, 0);
	cfi_image_put_function(&image, 0x40, 0x10, first,
			       sizeof(first)); // what the new thread does
	cfi_image_put_function(&image, 0x50, 0x16, NULL, 0);
	cfi_image_put_function(&image, 0x70, 0x10, NULL, 0); // an ordinary one: padding before it
	expect_rows("0 none | 20 7+8 = c-8 | 36 7+8 = c-8! | 40 end | 50 7+8 = c-8 | 80 none",
		    &image, 0x100, "glibc's");

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	memcpy(image.text + 0x40, musl, sizeof(musl));
	expect_rows("0 none | 40 7+8 = c-8! | 46 end | 54 none", &image, 0x100, "musl's");

	cfi_image_init(&image, EM_AARCH64, ".eh_frame");
	memcpy(image.text + 0x40, arm_musl, sizeof(arm_musl));
	expect_rows("0 none | 40 31+0 = =! | 4c end | 5c none", &image, 0x100, "aarch64's");
}

TEST(ends_where_a_thread_unmaps_its_stack)
{
	static const uint8_t x86[] = { 0xb8, 11,   0,  0, 0, 0x0f, 0x05, 0x48, 0x31,
				       0xff, 0xb8, 60, 0, 0, 0,    0x0f, 0x05 };
	static const uint8_t arm[] = { 0xe8, 0x1a, 0x80, 0xd2, 0x01, 0, 0, 0xd4,
				       0xa8, 0x0b, 0x80, 0xd2, 0x01, 0, 0, 0xd4 };
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	memcpy(image.text + 0x40, x86, sizeof(x86));
	expect_rows("0 none | 40 end | 51 none", &image, 0x100, "x86");

	cfi_image_init(&image, EM_AARCH64, ".eh_frame");
	memcpy(image.text + 0x40, arm, sizeof(arm));
	expect_rows("0 none | 40 end | 50 none", &image, 0x100, "aarch64");
}

/* Code that mostly has rules is not analyzed as one piece. */
TEST(keeps_distant_gaps_apart)
{
	struct cfi_image image;
	uint32_t at = 0x40;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	for (uint32_t size = 0x30; at + size < CFI_TEXT_BYTES - 0x10; size *= 2) {
		cfi_image_put_function(&image, at, size, NULL, 0);
		at += size + 0x10;
	}
	expect_rows("0 none | 40 7+8 = c-8 | 70 none | 80 7+8 = c-8 | e0 none | f0 7+8 = c-8",
		    &image, 0x100, "the first ones");
}

static const struct {
	const char *what;
	uint16_t machine;
	uint8_t bytes[48];
	uint32_t size;
	const char *rows;
} plts[] = {
	{ "GNU ld's",
	  EM_X86_64,
	  { 0xff, 0x35, 1, 2, 3, 4, 0xff, 0x25, 1, 2, 3, 4,    0x0f, 0x1f, 0x40, 0,
	    0xff, 0x25, 1, 2, 3, 4, 0x68, 0,    0, 0, 0, 0xe9, 1,    2,    3,    4 },
	  64,
	  "0 none | 40 7+16 = c-8 | 46 7+24 = c-8 | 50 plt11 = c-8 | 80 none" },
	{ "with branch tracking",
	  EM_X86_64,
	  { 0xff, 0x35, 1,    2,    3,    4, 0xf2, 0xff, 0x25, 1,    2,    3, 4, 0x0f, 0x1f, 0,
	    0xf3, 0x0f, 0x1e, 0xfa, 0x68, 0, 0,    0,    0,    0xf2, 0xe9, 1, 2, 3,    4 },
	  64,
	  "0 none | 40 7+16 = c-8 | 46 7+24 = c-8 | 50 plt9 = c-8 | 80 none" },
	{ "mold's",
	  EM_X86_64,
	  { 0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x53, 0xff, 0x35, 1, 2, 3, 4, 0xff, 0x25, 1, 2, 3, 4 },
	  64,
	  "0 none | 40 7+8 = c-8 | 46 7+16 = c-8 | 4c 7+24 = c-8 | 60 7+8 = c-8 | 80 none" },
	{ "only jumps",
	  EM_X86_64,
	  { 0xff, 0x25, 1, 2, 3, 4, 0x66, 0x90 },
	  32,
	  "0 none | 40 7+8 = c-8 | 60 none" },
	{ "only jumps, with branch tracking",
	  EM_X86_64,
	  { 0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25 },
	  32,
	  "0 none | 40 7+8 = c-8 | 60 none" },
	{ "unknown", EM_X86_64, { 0x90, 0x90 }, 32, "0 none" },
	{ "cut", EM_X86_64, { 0xff, 0x35, 1, 2, 3, 4, 0xff, 0x25 }, 8, "0 none" },
	{ "beyond the segment",
	  EM_X86_64,
	  { 0xff, 0x25, 1, 2, 3, 4, 0x66, 0x90 },
	  CFI_TEXT_BYTES,
	  "0 none" },
	{ "aarch64",
	  EM_AARCH64,
	  { 0xf0, 0x7b, 0xbf, 0xa9 },
	  64,
	  "0 none | 40 31+0 = = | 44 31+16 = c-8 | 60 31+0 = = | 80 none" },
	{ "aarch64 with branch tracking",
	  EM_AARCH64,
	  { 0x5f, 0x24, 0x03, 0xd5, 0xf0, 0x7b, 0xbf, 0xa9 },
	  64,
	  "0 none | 40 31+0 = = | 48 31+16 = c-8 | 60 31+0 = = | 80 none" },
};

TEST(recognizes_plts_by_their_bytes)
{
	for EACH (p, plts) {
		struct cfi_image image;

		cfi_image_init(&image, p->machine, ".eh_frame");
		memcpy(image.text + 0x40, p->bytes, sizeof(p->bytes));
		cfi_image_add_section(&image, ".plt",
				      (Elf64_Shdr){ .sh_type = SHT_PROGBITS,
						    .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
						    .sh_addr = CFI_TEXT + 0x40,
						    .sh_offset = CFI_TEXT_OFFSET + 0x40,
						    .sh_size = p->size });
		expect_rows(p->rows, &image, 0x100, p->what);
	}
}

TEST(leaves_a_described_plt_alone)
{
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	memcpy(image.text + 0x40, plts[0].bytes, sizeof(plts[0].bytes));
	cfi_image_add_section(&image, ".plt",
			      (Elf64_Shdr){ .sh_type = SHT_PROGBITS,
					    .sh_addr = CFI_TEXT + 0x40,
					    .sh_size = 0x40 });
	cfi_image_put_usual_common(&image);
	cfi_image_put_function(&image, 0x70, 0x30, NULL, 0);
	expect_rows("0 none | 70 7+8 = c-8 | a0 none", &image, 0x100, "described");
}

RUN_TESTS(cmocka_unit_test(the_program_entry_ends_stacks),
	  cmocka_unit_test(a_library_entry_needs_the_right_bytes),
	  cmocka_unit_test(describes_landing_pads_before_functions),
	  cmocka_unit_test(recognizes_signal_returns_by_their_bytes),
	  cmocka_unit_test(recognizes_clone_returns_by_their_bytes),
	  cmocka_unit_test(ends_where_a_thread_unmaps_its_stack),
	  cmocka_unit_test(keeps_distant_gaps_apart),
	  cmocka_unit_test(recognizes_plts_by_their_bytes),
	  cmocka_unit_test(leaves_a_described_plt_alone))
