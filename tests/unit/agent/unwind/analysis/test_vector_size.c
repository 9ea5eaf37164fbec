// SPDX-License-Identifier: Apache-2.0
// Lengths of vector instructions against capstone's, and those that are none or write to sp or fp.
#include "agent/unwind/analysis/vector_size.h"

#include <link.h>
#include <stdbool.h>
#include <string.h>

#include <capstone/capstone.h>

#include "base/cleanup.h"
#include "tests/test.h"

static const struct size_case {
	const char *what;
	uint8_t code[12];
	uint32_t left;
	uint32_t size;
} cases[] = {
	{ "vzeroupper", { 0xc5, 0xf8, 0x77 }, 4, 3 },
	{ "vmovups (%rsp),%ymm0", { 0xc5, 0xfc, 0x10, 0x04, 0x24 }, 5, 5 },
	{ "vpsrldq $4,%xmm0,%xmm0", { 0xc5, 0xf9, 0x73, 0xd8, 0x04 }, 5, 5 },
	{ "vpermq $0x4e,%ymm1,%ymm0", { 0xc4, 0xe3, 0xfd, 0x00, 0xc1, 0x4e }, 6, 6 },
	{ "vmovups 0x40(%rax,%rbx,2),%zmm0",
	  { 0x62, 0xf1, 0x7c, 0x48, 0x10, 0x44, 0x58, 0x01 },
	  8,
	  8 },
	{ "vmovups 0x1000(%rip),%zmm0",
	  { 0x62, 0xf1, 0x7c, 0x48, 0x10, 0x05, 0x00, 0x10, 0x00, 0x00 },
	  10,
	  10 },
	{ "the same, cut short",
	  { 0x62, 0xf1, 0x7c, 0x48, 0x10, 0x05, 0x00, 0x10, 0x00, 0x00 },
	  9,
	  0 },
	{ "vaddpd {rn-sae},%zmm14,%zmm29,%zmm9", { 0x62, 0x51, 0x95, 0x17, 0x58, 0xce }, 6, 6 },
	{ "a prefix alone", { 0xc5 }, 1, 0 },
	{ "no ModRM", { 0xc4, 0xe3, 0xfd, 0x00 }, 4, 0 },
	{ "no SIB byte", { 0xc5, 0xfc, 0x10, 0x04 }, 4, 0 },
	{ "kmovd %k1,%r13d", { 0xc5, 0x7b, 0x93, 0xe9 }, 4, 4 },
	{ "kmovd %k1,%esp", { 0xc5, 0xfb, 0x93, 0xe1 }, 4, 0 },
	{ "vmovd %xmm0,%ebp", { 0xc5, 0xf9, 0x7e, 0xc5 }, 4, 0 },
	{ "vmovd %xmm0,(%rbp)", { 0xc5, 0xf9, 0x7e, 0x45, 0x00 }, 5, 5 },
	{ "vpextrq $1,%xmm0,%rbp", { 0xc4, 0xe3, 0xf9, 0x16, 0xc5, 0x01 }, 6, 0 },
	{ "vmovmskps %ymm0,%ebp", { 0xc5, 0xfc, 0x50, 0xe8 }, 4, 0 },
	{ "vcvttss2usi %xmm0,%ebp", { 0x62, 0xf1, 0x7e, 0x08, 0x78, 0xe8 }, 6, 0 },
	{ "andn %rcx,%rax,%rbp", { 0xc4, 0xe2, 0xf8, 0xf2, 0xe9 }, 5, 0 },
	{ "rorx $5,%rax,%rbp", { 0xc4, 0xe3, 0xfb, 0xf0, 0xe8, 0x05 }, 6, 0 },
	{ "add %rax,%rsp by EVEX (APX)", { 0x62, 0xf4, 0xfc, 0x08, 0x01, 0xc4 }, 6, 0 },
	{ "mov %rsp,%rbp", { 0x48, 0x89, 0xe5 }, 3, 0 },
};

static void test_lengths(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		EXPECT_EQ(cases[i].size, vector_size(cases[i].code, cases[i].left), cases[i].what);
}

struct sweep {
	csh decoder;
	cs_insn *instruction;
	uint32_t compared;
};

static bool writes_stack_register(const struct sweep *sweep)
{
	cs_regs read, written;
	uint8_t read_count, written_count;

	if (cs_regs_access(sweep->decoder, sweep->instruction, read, &read_count, written,
			   &written_count))
		return false;
	for (uint8_t i = 0; i < written_count; i++)
		if (written[i] == X86_REG_RSP || written[i] == X86_REG_ESP ||
		    written[i] == X86_REG_RBP || written[i] == X86_REG_EBP)
			return true;
	return false;
}

/* What only one of them knows is not compared: capstone 4 knows a part of AVX-512. */
static void compare_at(struct sweep *sweep, const uint8_t *code, size_t left)
{
	uint32_t size = vector_size(code, left);
	uint64_t address = 0;

	if (!size || !cs_disasm_iter(sweep->decoder, &code, &left, &address, sweep->instruction))
		return;
	sweep->compared++;
	if (sweep->instruction->size != size || writes_stack_register(sweep))
		fail_msg("%s %s: %u bytes, and %u by capstone", sweep->instruction->mnemonic,
			 sweep->instruction->op_str, size, sweep->instruction->size);
}

static int sweep_libc(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)size;
	if (!strstr(info->dlpi_name, "/libc.so"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *load = &info->dlpi_phdr[i];
		const uint8_t *code = (const uint8_t *)info->dlpi_addr + load->p_vaddr;

		if (load->p_type == PT_LOAD && load->p_flags & PF_X)
			for (size_t at = 0; at < load->p_filesz; at++)
				compare_at(context, code + at, load->p_filesz - at);
	}
	return 1;
}

/* Its strings' and mathematical functions are written for each kind of vectors. */
static void test_each_byte_of_libc_read_as_an_instruction(void **state)
{
	struct sweep sweep = { 0 };

	(void)state;
	assert_int_equal(CS_ERR_OK, cs_open(CS_ARCH_X86, CS_MODE_64, &sweep.decoder));
	cs_option(sweep.decoder, CS_OPT_DETAIL, CS_OPT_ON);
	sweep.instruction = cs_malloc(sweep.decoder);
	assert_int_equal(1, dl_iterate_phdr(sweep_libc, &sweep));
	assert_true(sweep.compared > 1000);
	cs_free(sweep.instruction, 1);
	cs_close(&sweep.decoder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_each_byte_of_libc_read_as_an_instruction),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
