// SPDX-License-Identifier: Apache-2.0
// Rules of aarch64 code by static analysis: of small functions by hand, and of a library against its compiler's rules.
#include "agent/unwind/analysis/arm64_analysis.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/test.h"

#include "agent/elf/elf.h"
#include "agent/unwind/unwind_table_build.h"
#include "base/cleanup.h"

#define LIBRARY "/usr/aarch64-linux-gnu/lib/libc.so.6"

enum { CASE_WORDS = 16, TEXT_BYTES = 4096 };

#define RET          0xd65f03c0
#define NOP          0xd503201f
#define MOVE         0xaa0103e0 // mov x0, x1
#define PACIASP      0xd503233f
#define PUSH_FRAME   0xa9bf7bfd // stp x29, x30, [sp, #-16]!
#define FP_IS_SP     0x910003fd // mov x29, sp
#define POP_FRAME    0xa8c17bfd // ldp x29, x30, [sp], #16
#define PUSH_FRAME48 0xa9bd7bfd // stp x29, x30, [sp, #-48]!
#define POP_FRAME48  0xa8c37bfd // ldp x29, x30, [sp], #48
#define CALL_ELSE    0x94100000 // bl, out of the code

struct text {
	char text[TEXT_BYTES];
};

// "4:sp+16,fp-16,ra-8": from offset 4 on the CFA is sp + 16, the caller's fp at CFA - 16, its return address at CFA - 8.
static void write_row(void *context, uint64_t offset, const struct unwind_rule *rule)
{
	struct text *rows = context;
	size_t used = strlen(rows->text);
	char saved[48] = "";

	if (rule->saved & 15)
		snprintf(saved, sizeof(saved), ",fp%+d", rule->fp_offset);
	if (rule->saved >> 4)
		snprintf(saved + strlen(saved), sizeof(saved) - strlen(saved), ",ra%s%+d",
			 rule->saved >> 4 == SAVED_AT_SP ? "=sp" : "", rule->return_offset);
	if (rule->cfa == CFA_NO_TABLE)
		snprintf(rows->text + used, TEXT_BYTES - used, " %d:none", (int)offset);
	else
		snprintf(rows->text + used, TEXT_BYTES - used, " %d:%s%+d%s", (int)offset,
			 rule->cfa_register == ARM64_REGISTER_FP ? "fp" : "sp", rule->cfa_offset,
			 saved);
}

static const struct {
	const char *what;
	uint32_t code[CASE_WORDS];
	size_t count;
	const char *rows;
} cases[] = {
	{ "a leaf", { PACIASP, NOP, RET }, 3, " 0:none 0:sp+0" },
	{ "OpenSSL's SHA-1: the return address stays in its register, too",
	  // ldr x29, [sp], #16
	  { PUSH_FRAME, FP_IS_SP, NOP, 0xf84107fd, RET },
	  5,
	  " 0:none 0:sp+0 4:sp+16,fp-16,ra-8 16:sp+0" },
	{ "a frame, and a function behind it",
	  { PUSH_FRAME48, FP_IS_SP, CALL_ELSE, POP_FRAME48, RET, NOP, RET },
	  7,
	  " 0:none 0:sp+0 4:sp+48,fp-48,ra-40 16:sp+0" },
	{ "room below the frame",
	  // sub sp, sp, #64; stp x29, x30, [sp, #48]; ldp x29, x30, [sp, #48]; add sp, sp, #64
	  { 0xd10103ff, 0xa9037bfd, NOP, 0xa9437bfd, 0x910103ff, RET },
	  6,
	  " 0:none 0:sp+0 4:sp+64 8:sp+64,fp-16,ra-8 16:sp+64 20:sp+0" },
	{ "a frame of 80 KB",
	  // sub sp, sp, #20, lsl #12; stp x29, x30, [sp]
	  { 0xd14053ff, 0xa9007bfd, NOP },
	  3,
	  " 0:none 0:sp+0 4:sp+81920 8:sp+81920,fp-81920,ra=sp+8" },
	{ "vector registers",
	  // stp d8, d9, [sp, #-64]!; ldp d8, d9, [sp], #64
	  { 0x6dbc27e8, NOP, 0x6cc427e8, RET },
	  4,
	  " 0:none 0:sp+0 4:sp+64 12:sp+0" },
	{ "one register",
	  // str x30, [sp, #-16]!; ldr x30, [sp], #16
	  { 0xf81f0ffe, CALL_ELSE, 0xf84107fe, RET },
	  4,
	  " 0:none 0:sp+0 4:sp+16,ra-16 12:sp+0" },
	{ "room of a size that is not known, by frame pointer",
	  // sub sp, sp, x0; mov sp, x29
	  { PUSH_FRAME, FP_IS_SP, 0xcb2063ff, NOP, 0x910003bf, POP_FRAME, RET },
	  7,
	  " 0:none 0:sp+0 4:sp+16,fp-16,ra-8 12:fp+16,fp-16,ra-8 20:sp+16,fp-16,ra-8 24:sp+0" },
	{ "room of a size that is not known, without",
	  { 0xcb2063ff, NOP },
	  2,
	  " 0:none 0:sp+0 4:none" },
	{ "a call that loses the return address", { CALL_ELSE, MOVE }, 2, " 0:none 0:sp+0 4:none" },
	{ "code behind the return that a jump leads to",
	  // cbz x0, .+16
	  { PUSH_FRAME, 0xb4000080, POP_FRAME, RET, NOP, CALL_ELSE, POP_FRAME, RET },
	  8,
	  " 0:none 0:sp+0 4:sp+16,fp-16,ra-8 12:sp+0 20:sp+16,fp-16,ra-8 28:sp+0" },
	{ "code behind the return that a later jump leads to",
	  // b .+16; ...; b .-12
	  { PUSH_FRAME, 0x14000004, NOP, POP_FRAME, RET, 0x17fffffd },
	  6,
	  " 0:none 0:sp+0 4:sp+16,fp-16,ra-8 16:sp+0 20:sp+16,fp-16,ra-8" },
	{ "code behind a jump by a table", // br x1
	  { PUSH_FRAME, 0xd61f0020, MOVE, POP_FRAME, RET },
	  5,
	  " 0:none 0:sp+0 4:sp+16,fp-16,ra-8 16:sp+0" },
	{ "a function that is called back behind data",
	  // bl .+16
	  { PUSH_FRAME, 0x94000004, POP_FRAME, RET, 0, NOP, RET },
	  7,
	  " 0:none 0:sp+0 4:sp+16,fp-16,ra-8 12:sp+0 16:none 20:sp+0" },
	{ "padding behind a call that does not return",
	  { PUSH_FRAME, CALL_ELSE, NOP, MOVE, RET },
	  5,
	  " 0:none 0:sp+0 4:sp+16,fp-16,ra-8 8:sp+0" },
	{ "a function behind such a call without padding",
	  { PUSH_FRAME, CALL_ELSE, PUSH_FRAME48, CALL_ELSE, POP_FRAME48, RET },
	  6,
	  " 0:none 0:sp+0 4:sp+16,fp-16,ra-8 12:sp+48,fp-48,ra-40 20:sp+0" },
	{ "room by a register's constant",
	  // mov x12, #0x5678; movk x12, #1, lsl #16; sub sp, sp, x12; stp x29, x30, [sp]
	  { 0xd28acf0c, 0xf2a0002c, 0xcb2c63ff, 0xa9007bfd, NOP },
	  5,
	  " 0:none 0:sp+0 12:sp+87672 16:sp+87672,fp-87672,ra=sp+8" },
	{ "a trap ends a function",
	  { PUSH_FRAME, 0xd4200000, NOP },
	  3,
	  " 0:none 0:sp+0 4:sp+16,fp-16,ra-8 8:sp+0" },
	{ "more is popped than was pushed", { POP_FRAME, NOP }, 2, " 0:none 0:sp+0 4:none" },
	{ "OpenSSL's Montgomery multiplication: x30 is a number, and comes back by x29",
	  // stp x29, x30, [sp, #-16]!; mov x29, sp; sub sp, sp, x0; ldr x30, [x1]; ldr x30, [x29, #8]; mov sp, x29; ldr x29, [sp], #16
	  { PUSH_FRAME, FP_IS_SP, 0xcb2063ff, 0xf940003e, 0xf94007be, 0x910003bf, 0xf84107fd, RET },
	  8,
	  " 0:none 0:sp+0 4:sp+16,fp-16,ra-8 12:fp+16,fp-16,ra-8 20:fp+16,fp-16 24:sp+16,fp-16 "
	  "28:sp+0" },
	{ "registers of another context", // ldp x29, x30, [x0]
	  { 0xa940781d, NOP },
	  2,
	  " 0:none 0:sp+0 4:none" },
};

TEST(recovers_rules_or_none_where_unknown)
{
	for EACH (c, cases) {
		struct text rows = { "" };

		EXPECT_EQ(0,
			  arm64_analysis_each((const uint8_t *)c->code, c->count * sizeof(uint32_t),
					      NULL, 0, write_row, &rows),
			  c->what);
		EXPECT_STR(c->rows, rows.text, c->what);
	}
}

TEST(begins_anew_at_known_functions)
{
	static const uint32_t code[] = { PUSH_FRAME, CALL_ELSE, NOP, RET };
	static const uint32_t entries[] = { 2, 8, 400 };
	struct text rows = { "" };

	arm64_analysis_each((const uint8_t *)code, sizeof(code), entries, 3, write_row, &rows);
	assert_string_equal(" 0:none 0:sp+0 4:sp+16,fp-16,ra-8 8:sp+0", rows.text);
}

static void ignore(void *context, uint64_t offset, const struct unwind_rule *rule)
{
	uint64_t *last = context;

	assert_true(offset >= *last && rule->cfa <= CFA_REGISTER);
	*last = offset;
}

TEST(survives_any_bytes)
{
	static uint8_t code[65536 + 3];
	uint64_t last;

	srandom(1);
	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < sizeof(code); i++)
			code[i] = (uint8_t)random();
		last = 0;
		assert_int_equal(0,
				 arm64_analysis_each(code, sizeof(code), NULL, 0, ignore, &last));
	}
	assert_int_equal(-E2BIG, arm64_analysis_each(code, CODE_ANALYSIS_BYTES_MAX + 1ULL, NULL, 0,
						     ignore, &last));
}

// ---- against a compiler -------------------------------------------------------------------------

struct comparison {
	const struct unwind_table *table;
	uint64_t address; // of the code
	uint64_t since;
	struct unwind_rule rule;
	uint64_t described, both, equal;
};

/* The return address, too, where it is in memory. */
static bool is_equal(const struct unwind_rule *a, const struct unwind_rule *b)
{
	return a->cfa_offset == b->cfa_offset && a->saved >> 4 == b->saved >> 4 &&
	       a->return_offset == b->return_offset;
}

static void compare(void *context, uint64_t offset, const struct unwind_rule *rule)
{
	struct comparison *comparison = context;

	for (uint64_t at = comparison->since; at < offset; at += 4) {
		const struct unwind_rule *expected =
			unwind_table_find(comparison->table, comparison->address + at);

		if (!expected || expected->cfa != CFA_REGISTER)
			continue;
		comparison->described++;
		if (comparison->rule.cfa == CFA_NO_TABLE ||
		    expected->cfa_register != comparison->rule.cfa_register)
			continue;
		comparison->both++;
		comparison->equal += is_equal(expected, &comparison->rule);
	}
	comparison->since = offset;
	comparison->rule = *rule;
}

/* Debian's libc has no symbols of most functions: they are found by returns and calls. */
TEST(agrees_with_the_compiler_on_a_library)
{
	_cleanup_close_ int fd = open(LIBRARY, O_RDONLY | O_CLOEXEC);
	struct comparison comparison = { 0 };
	struct unwind_table *table = NULL;
	struct error err = { 0 };
	struct stat status;
	Elf64_Shdr text;
	struct elf elf;

	if (fd < 0 || fstat(fd, &status) ||
	    elf_read_headers_of(fd, &status, EM_AARCH64, &elf, &err)) {
		SKIP("there is no " LIBRARY);
	}
	assert_int_equal(0, unwind_table_build(&elf, NULL, 0, UNWIND_TABLE_ROWS_MAX, &table, &err));
	assert_int_equal(0, elf_find_section(&elf, ".text", &text));
	_cleanup_free_ uint8_t *code = malloc(text.sh_size);
	assert_int_equal(0, elf_read(&elf, text.sh_offset, code, text.sh_size));
	comparison.table = table;
	comparison.address = text.sh_addr;
	assert_int_equal(0, arm64_analysis_each(code, text.sh_size, NULL, 0, compare, &comparison));
	print_message("%llu of %llu instructions agree with the compiler, of %llu\n",
		      (unsigned long long)comparison.equal, (unsigned long long)comparison.both,
		      (unsigned long long)comparison.described);
	// The rest is padding, functions behind calls that do not return, and code that only a table leads to.
	assert_true(comparison.both > comparison.described / 100 * 85);
	assert_true(comparison.equal > comparison.both / 1000 * 975);
	unwind_table_free(table);
}

RUN_TESTS(cmocka_unit_test(recovers_rules_or_none_where_unknown),
	  cmocka_unit_test(begins_anew_at_known_functions), cmocka_unit_test(survives_any_bytes),
	  cmocka_unit_test(agrees_with_the_compiler_on_a_library))
