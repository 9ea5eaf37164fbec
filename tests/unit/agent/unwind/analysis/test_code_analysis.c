// SPDX-License-Identifier: Apache-2.0
// Rules by static analysis: of small functions by hand, and of a library against its compiler's rules.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/test.h"

#include "agent/unwind/analysis/code_analysis.h"
#include "agent/elf/elf_symbols.h"
#include "agent/unwind/unwind_table_build.h"
#include "base/cleanup.h"

#define CODE_ADDRESS 0x401000ULL
#define LIBRARY      "/lib/x86_64-linux-gnu/libz.so.1"

enum { CASE_BYTES = 48, CASE_ROWS = 10, TEXT_BYTES = 2048 };

struct rows {
	char text[TEXT_BYTES];
};

// "4:sp+16,fp-16": from offset 4 on the CFA is sp + 16 and the caller's fp at CFA - 16.
static void write_row(void *context, uint64_t offset, const struct unwind_rule *rule)
{
	struct rows *rows = context;
	size_t used = strlen(rows->text);
	char saved[24] = "", number[16];
	const char *base = rule->cfa_register == X86_REGISTER_FP   ? "fp"
			   : rule->cfa_register == X86_REGISTER_SP ? "sp"
								   : number;

	snprintf(number, sizeof(number), "r%d", rule->cfa_register);
	if (rule->saved & 15)
		snprintf(saved, sizeof(saved), ",fp%+d", rule->fp_offset);
	if (rule->cfa == CFA_NO_TABLE)
		snprintf(rows->text + used, TEXT_BYTES - used, " %d:none", (int)offset);
	else if (rule->cfa == CFA_DEREF)
		snprintf(rows->text + used, TEXT_BYTES - used, " %d:*(sp%+d)%+d%s", (int)offset,
			 rule->cfa_offset, rule->deref_offset, saved);
	else
		snprintf(rows->text + used, TEXT_BYTES - used, " %d:%s%+d%s", (int)offset, base,
			 rule->cfa_offset, saved);
}

static void analyze(const uint8_t *code, size_t size, struct rows *rows)
{
	struct code_analysis *analysis;

	rows->text[0] = '\0';
	assert_int_equal(0, code_analysis_open(code, size, CODE_ADDRESS, &analysis));
	code_analysis_enter(analysis, CODE_ADDRESS);
	code_analysis_run(analysis);
	code_analysis_each(analysis, write_row, rows);
	code_analysis_close(analysis);
}

static const struct {
	const char *what;
	uint8_t code[CASE_BYTES];
	size_t size;
	const char *rows;
} cases[] = {
	{ "push, make room, give it back, pop",
	  // push %rbx; sub $16, %rsp; add $16, %rsp; pop %rbx; ret
	  { 0x53, 0x48, 0x83, 0xec, 0x10, 0x48, 0x83, 0xc4, 0x10, 0x5b, 0xc3 },
	  11,
	  " 0:none 0:sp+8 1:sp+16 5:sp+32 9:sp+16 10:sp+8" },
	{ "a frame pointer",
	  // push %rbp; mov %rsp, %rbp; sub $32, %rsp; leave; ret
	  { 0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20, 0xc9, 0xc3 },
	  10,
	  " 0:none 0:sp+8 1:sp+16,fp-16 4:fp+16,fp-16 9:sp+8" },
	{ "room of a size that is not known, by frame pointer",
	  // push %rbp; mov %rsp, %rbp; sub %rax, %rsp; nop; leave; ret
	  { 0x55, 0x48, 0x89, 0xe5, 0x48, 0x29, 0xc4, 0x90, 0xc9, 0xc3 },
	  10,
	  " 0:none 0:sp+8 1:sp+16,fp-16 4:fp+16,fp-16 9:sp+8" },
	{ "room of a size that is not known, without",
	  // sub %rax, %rsp; nop; ret
	  { 0x48, 0x29, 0xc4, 0x90, 0xc3 },
	  5,
	  " 0:none 0:sp+8 3:none" },
	{ "another stack",
	  // mov %rdi, %rsp; ret
	  { 0x48, 0x89, 0xfc, 0xc3 },
	  4,
	  " 0:none 0:sp+8 3:none" },
	{ "a branch around a push",
	  // push %rbx; jz 1f; push %rcx; pop %rcx; 1: pop %rbx; ret
	  { 0x53, 0x74, 0x02, 0x51, 0x59, 0x5b, 0xc3 },
	  7,
	  " 0:none 0:sp+8 1:sp+16 4:sp+24 5:sp+16 6:sp+8" },
	{ "code behind the end is not reached",
	  // ret; push %rax; push %rax
	  { 0xc3, 0x50, 0x50 },
	  3,
	  " 0:none 0:sp+8 1:none" },
	{ "a function that is called, with padding before it",
	  // call 1f; ret; int3; int3; 1: push %rax; pop %rax; ret
	  { 0xe8, 3, 0, 0, 0, 0xc3, 0xcc, 0xcc, 0x50, 0x58, 0xc3 },
	  11,
	  " 0:none 0:sp+8 6:none 8:sp+8 9:sp+16 10:sp+8" },
	{ "a jump to another function, with arguments pushed below the return address",
	  // call 1f; push $0; jmp 1f; 1: nop; ret
	  { 0xe8, 0x04, 0x00, 0x00, 0x00, 0x6a, 0x00, 0xeb, 0x00, 0x90, 0xc3 },
	  11,
	  " 0:none 0:sp+8 7:sp+16 9:sp+8" },
	{ "a jump by table: the code after it has its state",
	  // push %rax; jmp *%rdx; pop %rax; ret
	  { 0x50, 0xff, 0xe2, 0x58, 0xc3 },
	  5,
	  " 0:none 0:sp+8 1:sp+16 4:sp+8" },
	{ "an aligned frame whose base is kept in memory while fp serves as a number",
	  // sub $16, %rsp; mov %rbp, (%rsp); mov %rsp, %rbp; and $-64, %rsp; mov %rbp, 8(%rsp);
	  // xor %ebp, %ebp; nop; mov 8(%rsp), %rbp; mov %rbp, %rsp; mov (%rsp), %rbp;
	  // add $16, %rsp; ret
	  { 0x48, 0x83, 0xec, 0x10, 0x48, 0x89, 0x2c, 0x24, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4,
	    0xc0, 0x48, 0x89, 0x6c, 0x24, 0x08, 0x31, 0xed, 0x90, 0x48, 0x8b, 0x6c, 0x24, 0x08,
	    0x48, 0x89, 0xec, 0x48, 0x8b, 0x2c, 0x24, 0x48, 0x83, 0xc4, 0x10, 0xc3 },
	  40,
	  " 0:none 0:sp+8 4:sp+24 8:sp+24,fp-24 11:fp+24,fp-24 20:*(sp+8)+24,fp-24"
	  " 31:fp+24,fp-24 35:sp+24 39:sp+8" },
	{ "the same, and fp becomes the number in a loop, whose first round began with the base",
	  // ...; 1: nop; xor %ebp, %ebp; jne 1b; ...
	  { 0x48, 0x83, 0xec, 0x10, 0x48, 0x89, 0x2c, 0x24, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4,
	    0xc0, 0x48, 0x89, 0x6c, 0x24, 0x08, 0x90, 0x31, 0xed, 0x75, 0xfb, 0x48, 0x8b, 0x6c,
	    0x24, 0x08, 0x48, 0x89, 0xec, 0x48, 0x8b, 0x2c, 0x24, 0x48, 0x83, 0xc4, 0x10, 0xc3 },
	  42,
	  " 0:none 0:sp+8 4:sp+24 8:sp+24,fp-24 11:fp+24,fp-24 20:*(sp+8)+24,fp-24"
	  " 33:fp+24,fp-24 37:sp+24 41:sp+8" },
	{ "an aligned frame whose sp is kept in memory",
	  // push %rbp; mov %rsp, %r11; and $-32, %rsp; sub $544, %rsp; mov %r11, 512(%rsp); xor %ebp, %ebp;
	  // mov 512(%rsp), %rsp; pop %rbp; ret
	  { 0x55, 0x49, 0x89, 0xe3, 0x48, 0x83, 0xe4, 0xe0, 0x48, 0x81, 0xec, 0x20,
	    0x02, 0x00, 0x00, 0x4c, 0x89, 0x9c, 0x24, 0x00, 0x02, 0x00, 0x00, 0x31,
	    0xed, 0x48, 0x8b, 0xa4, 0x24, 0x00, 0x02, 0x00, 0x00, 0x5d, 0xc3 },
	  35,
	  " 0:none 0:sp+8 1:sp+16,fp-16 8:r11+16,fp-16 23:*(sp+512)+16,fp-16 33:sp+16,fp-16 "
	  "34:sp+8" },
	{ "the same, and sp is moved while it is in memory",
	  // mov %rsp, %rax; and $-16, %rsp; push %rax; mov %rax, (%rsp); push %rbx; pop %rbx; mov (%rsp), %rsp; ret
	  { 0x48, 0x89, 0xe0, 0x48, 0x83, 0xe4, 0xf0, 0x50, 0x48, 0x89, 0x04, 0x24, 0x53, 0x5b,
	    0x48, 0x8b, 0x24, 0x24, 0xc3 },
	  19,
	  " 0:none 0:sp+8 7:r0+8 12:*(sp+0)+8 13:*(sp+8)+8 14:*(sp+0)+8 18:sp+8" },
	{ "an aligned frame and its sp comes back from the register",
	  // mov %rsp, %r11; and $-32, %rsp; nop; mov %r11, %rsp; ret
	  { 0x49, 0x89, 0xe3, 0x48, 0x83, 0xe4, 0xe0, 0x90, 0x4c, 0x89, 0xdc, 0xc3 },
	  12,
	  " 0:none 0:sp+8 7:r11+8 11:sp+8" },
	{ "the register is overwritten",
	  // mov %rsp, %r11; and $-32, %rsp; xor %r11d, %r11d; nop
	  { 0x49, 0x89, 0xe3, 0x48, 0x83, 0xe4, 0xe0, 0x45, 0x31, 0xdb, 0x90 },
	  11,
	  " 0:none 0:sp+8 7:r11+8 10:none" },
	{ "by a vector instruction",
	  // mov %rsp, %rax; and $-32, %rsp; vpmovmskb %ymm0, %eax; nop
	  { 0x48, 0x89, 0xe0, 0x48, 0x83, 0xe4, 0xe0, 0xc5, 0xfd, 0xd7, 0xc0, 0x90 },
	  12,
	  " 0:none 0:sp+8 7:r0+8 11:none" },
	{ "by who is called",
	  // mov %rsp, %r11; call *%rax; and $-32, %rsp; nop
	  { 0x49, 0x89, 0xe3, 0xff, 0xd0, 0x48, 0x83, 0xe4, 0xe0, 0x90 },
	  10,
	  " 0:none 0:sp+8 9:none" },
	{ "a register that is not a general one",
	  // mov %rsp, %cr0; and $-32, %rsp; nop
	  { 0x0f, 0x22, 0xc4, 0x48, 0x83, 0xe4, 0xe0, 0x90 },
	  8,
	  " 0:none 0:sp+8 7:none" },
	{ "fp is overwritten and not saved",
	  // xor %ebp, %ebp; nop; ret
	  { 0x31, 0xed, 0x90, 0xc3 },
	  4,
	  " 0:none 0:sp+8 2:none" },
	{ "AVX-512",
	  // push %rax; vmovups (%r14,%r13,1), %zmm0; vshuff64x2 $68, %zmm6, %zmm5, %zmm0; pop %rax; ret
	  { 0x50, 0x62, 0x91, 0x7c, 0x48, 0x10, 0x04, 0x2e, 0x62, 0xf3, 0xd5, 0x48, 0x23, 0xc6,
	    0x44, 0x58, 0xc3 },
	  17,
	  " 0:none 0:sp+8 1:sp+16 16:sp+8" },
	{ "masks of AVX-512",
	  // push %rax; kmovd %k1, %r15d; kmovd %r10d, %k1; kshiftrd $16, %k1, %k2; pop %rax; ret
	  { 0x50, 0xc5, 0x7b, 0x93, 0xf9, 0xc4, 0xc1, 0x7b, 0x92, 0xca, 0xc4, 0xe3, 0x79, 0x31,
	    0xd1, 0x10, 0x58, 0xc3 },
	  18,
	  " 0:none 0:sp+8 1:sp+16 17:sp+8" },
	{ "a mask that becomes sp",
	  // nop; kmovd %k1, %esp; nop
	  { 0x90, 0xc5, 0xfb, 0x93, 0xe1, 0x90 },
	  6,
	  " 0:none 0:sp+8 1:none" },
	{ "a jump to itself", { 0xeb, 0xfe }, 2, " 0:none 0:sp+8" },
	{ "a jump into the middle of an instruction",
	  // jz into the immediate of: mov $0x90909090, %eax; ret
	  { 0x74, 0x01, 0xb8, 0x90, 0x90, 0x90, 0x90, 0xc3 },
	  8,
	  " 0:none 0:sp+8" },
	{ "the return address is moved below an argument",
	  // pop %rax; push %rdi; push %rax; push %rbp; mov %rsp, %rbp; leave; pop %rcx; add %rbx, %rsp; push %rcx; ret
	  { 0x58, 0x57, 0x50, 0x55, 0x48, 0x89, 0xe5, 0xc9, 0x59, 0x48, 0x01, 0xdc, 0x51, 0xc3 },
	  14,
	  " 0:none 0:sp+8 1:none 3:sp+8 4:sp+16,fp-16 7:fp+16,fp-16 8:sp+8 9:none 13:sp+8" },
	{ "the same by r10, and overwritten in between",
	  // pop %r10; mov $1, %r10d; push %r10; ret
	  { 0x41, 0x5a, 0x41, 0xba, 1, 0, 0, 0, 0x41, 0x52, 0xc3 },
	  11,
	  " 0:none 0:sp+8 2:none" },
	{ "the same, and a call in between",
	  // pop %rbx; call *%rax; push %rbx; ret
	  { 0x5b, 0xff, 0xd0, 0x53, 0xc3 },
	  5,
	  " 0:none 0:sp+8 1:none" },
	{ "more is popped than was pushed", { 0x58, 0x58, 0xc3 }, 3, " 0:none 0:sp+8 1:none" },
	{ "no instruction", { 0x06, 0x06 }, 2, " 0:none" },
	{ "an instruction that is cut short", { 0x48 }, 1, " 0:none" },
	{ "a jump out of the code", { 0xe9, 0xff, 0xff, 0xff, 0x7f }, 5, " 0:none 0:sp+8" },
};

TEST(recovers_rules_or_none_where_unknown)
{
	for EACH (c, cases) {
		struct rows rows;

		analyze(c->code, c->size, &rows);
		EXPECT_STR(c->rows, rows.text, c->what);
	}
}

static void expect_after_divide(const uint8_t *code, size_t size, uint64_t at, const char *wanted)
{
	struct code_analysis *analysis;
	struct rows rows = { "" };

	assert_int_equal(0, code_analysis_open(code, size, CODE_ADDRESS, &analysis));
	code_analysis_enter(analysis, CODE_ADDRESS);
	code_analysis_divide(analysis, CODE_ADDRESS + at);
	code_analysis_run(analysis);
	code_analysis_each(analysis, write_row, &rows);
	code_analysis_close(analysis);
	assert_string_equal(wanted, rows.text);
}

/* A codec's assembly lies behind a compiled function, which ends with a jump by table or a call that never returns. */
TEST(a_described_function_gives_the_next_nothing)
{
	// push %rax; jmp *%rdx; nop; ret
	static const uint8_t table[] = { 0x50, 0xff, 0xe2, 0x90, 0xc3 };
	// push %rax; call *%rax; nop; ret
	static const uint8_t call[] = { 0x50, 0xff, 0xd0, 0x90, 0xc3 };

	expect_after_divide(table, sizeof(table), 3, " 0:none 0:sp+8 1:sp+16 3:none");
	expect_after_divide(call, sizeof(call), 3, " 0:none 0:sp+8 1:sp+16 3:none");
	expect_after_divide(call, sizeof(call), sizeof(call), " 0:none 0:sp+8 1:sp+16");
}

TEST(survives_any_bytes)
{
	uint8_t code[4096];
	struct rows rows;

	srandom(1);
	for (int round = 0; round < 50; round++) {
		for (size_t i = 0; i < sizeof(code); i++)
			code[i] = (uint8_t)random();
		analyze(code, sizeof(code), &rows);
	}
}

TEST(refuses_too_much_code)
{
	struct code_analysis *analysis = NULL;

	assert_int_equal(-E2BIG,
			 code_analysis_open(NULL, CODE_ANALYSIS_BYTES_MAX + 1ULL, 0, &analysis));
}

// ---- against a compiler -------------------------------------------------------------------------

struct comparison {
	const struct unwind_table *table;
	uint64_t address; // of the code
	uint64_t since;
	struct unwind_rule rule;
	uint64_t both, equal;
};

static bool enter(void *context, const char *name, const Elf64_Sym *symbol)
{
	(void)name;
	if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC)
		code_analysis_enter(context, symbol->st_value);
	return true;
}

static void compare(void *context, uint64_t offset, const struct unwind_rule *rule)
{
	struct comparison *comparison = context;

	for (uint64_t at = comparison->since; at < offset; at++) {
		const struct unwind_rule *expected =
			unwind_table_find(comparison->table, comparison->address + at);

		if (comparison->rule.cfa == CFA_NO_TABLE || !expected ||
		    expected->cfa != CFA_REGISTER)
			continue;
		comparison->both++;
		comparison->equal += expected->cfa_register == comparison->rule.cfa_register &&
				     expected->cfa_offset == comparison->rule.cfa_offset;
	}
	comparison->since = offset;
	comparison->rule = *rule;
}

TEST(agrees_with_the_compiler_on_a_library)
{
	_cleanup_close_ int fd = open(LIBRARY, O_RDONLY | O_CLOEXEC);
	struct comparison comparison = { 0 };
	struct unwind_table *table = NULL;
	struct elf_symbols symbols;
	struct code_analysis *analysis;
	struct error err = { 0 };
	struct stat status;
	struct elf elf;

	if (fd < 0 || fstat(fd, &status) || elf_read_headers(fd, &status, &elf, &err)) {
		SKIP("there is no such library for this machine: " LIBRARY);
	}
	assert_int_equal(0, unwind_table_build(&elf, NULL, 0, UNWIND_TABLE_ROWS_MAX, &table, &err));
	assert_int_equal(0, elf_symbols_init(&symbols, &elf));
	const Elf64_Shdr *text = elf_symbols_find_section(&symbols, ".text");
	assert_non_null(text);
	uint8_t *code = malloc(text->sh_size);
	assert_int_equal(0, elf_read(&elf, text->sh_offset, code, text->sh_size));

	assert_int_equal(0, code_analysis_open(code, text->sh_size, text->sh_addr, &analysis));
	elf_symbols_each(&symbols, enter, analysis);
	code_analysis_run(analysis);
	comparison.table = table;
	comparison.address = text->sh_addr;
	code_analysis_each(analysis, compare, &comparison);
	code_analysis_close(analysis);

	print_message("%llu of %llu bytes agree with the compiler\n",
		      (unsigned long long)comparison.equal, (unsigned long long)comparison.both);
	assert_true(comparison.both > text->sh_size / 2);
	assert_true(comparison.equal >= comparison.both / 1000 * 999);
	free(code);
	elf_symbols_deinit(&symbols);
	unwind_table_free(table);
}

/* Each function takes the address of the one before it: 131,072 in a chain. */
TEST(ends_on_a_chain_of_pointers)
{
	// lea -15(%rip), %rax; ret
	static const uint8_t function[] = { 0x48, 0x8d, 0x05, 0xf1, 0xff, 0xff, 0xff, 0xc3 };
	const size_t size = 1 << 20;
	struct code_analysis *analysis;
	uint8_t *code = malloc(size);

	for (size_t at = 0; at < size; at += sizeof(function))
		memcpy(code + at, function, sizeof(function));
	alarm(60);
	assert_int_equal(0, code_analysis_open(code, size, 0x1000, &analysis));
	code_analysis_enter(analysis, 0x1000 + size - sizeof(function));
	code_analysis_run(analysis);
	code_analysis_close(analysis);
	alarm(0);
	free(code);
}

RUN_TESTS(cmocka_unit_test(ends_on_a_chain_of_pointers),
	  cmocka_unit_test(recovers_rules_or_none_where_unknown),
	  cmocka_unit_test(a_described_function_gives_the_next_nothing),
	  cmocka_unit_test(survives_any_bytes), cmocka_unit_test(refuses_too_much_code),
	  cmocka_unit_test(agrees_with_the_compiler_on_a_library))
