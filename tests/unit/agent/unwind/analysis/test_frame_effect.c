// SPDX-License-Identifier: Apache-2.0
// One instruction and a frame. What whole functions do is in test_code_analysis.c.
#include "agent/unwind/analysis/frame_effect.h"

#include "tests/test.h"

#include "base/cleanup.h"

#define CODE_ADDRESS 0x401000ULL

static const struct {
	const char *what;
	uint8_t code[8];
	struct frame_state before;
	bool is_known;
	struct frame_state after; // if it is known
} cases[] = {
	{ "push %rbp",
	  { 0x55 },
	  { .cfa_offset = 8, .slot = -1 },
	  true,
	  { .cfa_offset = 16, .fp_saved = -16, .slot = -1 } },
	{ "mov %rsp, %r11",
	  { 0x49, 0x89, 0xe3 },
	  { .cfa_offset = 16, .slot = -1 },
	  true,
	  { .cfa_offset = 16, .slot = -1, .copy = X86_REG_R11, .copy_depth = 16 } },
	{ "and $-32, %rsp",
	  { 0x48, 0x83, 0xe4, 0xe0 },
	  { .cfa_offset = 16, .slot = -1, .copy = X86_REG_R11, .copy_depth = 16 },
	  true,
	  { .base = BASE_COPY,
	    .cfa_offset = 16,
	    .slot = -1,
	    .copy = X86_REG_R11,
	    .copy_depth = 16 } },
	{ "and $-32, %rsp, without a copy",
	  { 0x48, 0x83, 0xe4, 0xe0 },
	  { .cfa_offset = 16, .slot = -1 },
	  false,
	  { 0 } },
	{ "xor %ebp, %ebp where nobody has saved it",
	  { 0x31, 0xed },
	  { .base = BASE_SLOT, .cfa_offset = 8, .slot = 64 },
	  false,
	  { 0 } },
};

TEST(an_instruction_changes_the_frame)
{
	cs_insn *instruction;
	csh decoder;

	assert_int_equal(CS_ERR_OK, cs_open(CS_ARCH_X86, CS_MODE_64, &decoder));
	cs_option(decoder, CS_OPT_DETAIL, CS_OPT_ON);
	instruction = cs_malloc(decoder);
	for EACH (row, cases) {
		struct frame_state frame = row->before;
		const uint8_t *at = row->code;
		size_t left = sizeof(row->code);
		uint64_t address = CODE_ADDRESS;

		assert_true(cs_disasm_iter(decoder, &at, &left, &address, instruction));
		EXPECT_EQ(row->is_known, frame_effect_apply(decoder, instruction, &frame),
			  row->what);
		if (row->is_known && memcmp(&row->after, &frame, sizeof(frame)))
			fail_msg("%s: another frame", row->what);
	}
	cs_free(instruction, 1);
	cs_close(&decoder);
}

TEST(only_general_registers_have_a_number)
{
	EXPECT_EQ(11, frame_effect_dwarf_number(X86_REG_R11), "r11");
	EXPECT_EQ(1, frame_effect_dwarf_number(X86_REG_RDX), "rdx");
	EXPECT_EQ(-1, frame_effect_dwarf_number(X86_REG_RSP), "sp");
	EXPECT_EQ(-1, frame_effect_dwarf_number(X86_REG_CR0), "cr0");
	EXPECT_EQ(-1, frame_effect_dwarf_number(X86_REG_INVALID), "none");
}

RUN_TESTS(cmocka_unit_test(an_instruction_changes_the_frame),
	  cmocka_unit_test(only_general_registers_have_a_number))
