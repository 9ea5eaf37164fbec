// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/cfi_program.h"

#include <elf.h>

#include "tests/unit/agent/unwind/rule_text.h"
#include "tests/test.h"

enum { CODE = 0x401000, CODE_BYTES = 0x100, TEXT_BYTES = 512 };

/* Instructions by their names in DWARF 5, table 7.29. */
#define ADVANCE(n)         0x40 | (n)
#define OFFSET(r, n)       0x80 | (r), n
#define RESTORE(r)         0xc0 | (r)
#define SET_LOC(a)         0x01, (a)&0xff, (a) >> 8 & 0xff, (a) >> 16, 0, 0, 0, 0, 0
#define ADVANCE1(n)        0x02, n
#define ADVANCE2(n)        0x03, (n)&0xff, (n) >> 8
#define ADVANCE4(n)        0x04, (n)&0xff, (n) >> 8, 0, 0
#define OFFSET_EXT(r, n)   0x05, r, n
#define RESTORE_EXT(r)     0x06, r
#define UNDEFINED(r)       0x07, r
#define SAME(r)            0x08, r
#define REGISTER(r, other) 0x09, r, other
#define REMEMBER           0x0a
#define RESTORE_STATE      0x0b
#define DEF_CFA(r, n)      0x0c, r, n
#define DEF_CFA_REG(r)     0x0d, r
#define DEF_CFA_OFF(n)     0x0e, n
#define DEF_CFA_EXPR(n)    0x0f, n
#define EXPRESSION(r, n)   0x10, r, n
#define OFFSET_SF(r, n)    0x11, r, n
#define DEF_CFA_SF(r, n)   0x12, r, n
#define DEF_CFA_OFF_SF(n)  0x13, n
#define VAL_OFFSET(r, n)   0x14, r, n
#define VAL_EXPR(r, n)     0x16, r, n
#define NEGATE_RA_STATE    0x2d
#define ARGS_SIZE(n)       0x2e, n
#define NEG_OFFSET(r, n)   0x2f, r, n

/* Expressions, table 7.9. Offsets of -64..63. */
#define BREG(r, n)     0x70 + (r), (n)&0x7f
#define DEREF          0x06
#define PLUS_UCONST(n) 0x23, n
#define PLUS           0x22
#define LIT(n)         0x30 + (n)
#define PLT_EXPR(n)    BREG(7, 8), BREG(16, 0), LIT(15), 0x1a, LIT(n), 0x2a, LIT(3), 0x24, PLUS

enum { RBP = 6, RSP = 7, R10 = 10, RIP = 16, X29 = 29, X30 = 30, SP = 31 };

struct writer {
	char text[TEXT_BYTES];
	uint64_t last;
	uint32_t count;
};

static void write_row(void *context, uint64_t offset, const struct unwind_rule *rule)
{
	struct writer *writer = context;
	size_t length = strlen(writer->text);
	char text[RULE_TEXT_BYTES];

	assert_true(offset < CODE_BYTES);
	assert_true(writer->count ? offset > writer->last : offset == 0);
	writer->last = offset;
	rule_text(text, rule);
	snprintf(writer->text + length, sizeof(writer->text) - length, "%s%llu %s",
		 writer->count++ ? " | " : "", (unsigned long long)offset, text);
}

static struct cfi_common common_of(uint16_t machine, const uint8_t *bytes, size_t size)
{
	struct cfi_common common = {
		.machine = machine,
		.code_factor = machine == EM_X86_64 ? 1 : 4,
		.data_factor = -8,
		.return_register = machine == EM_X86_64 ? RIP : X30,
		.is_supported = true,
	};

	cfi_common_run(&common, byte_cursor_over(bytes, size));
	return common;
}

static void run(const struct cfi_common *common, const uint8_t *bytes, size_t size,
		struct writer *writer)
{
	struct cfi_program program = {
		.common = common,
		.start = CODE,
		.size = CODE_BYTES,
		.instructions = byte_cursor_over(bytes, size),
	};

	memset(writer, 0, sizeof(*writer));
	cfi_program_run(&program, write_row, writer);
}

static const uint8_t x86_common[] = { DEF_CFA(RSP, 8), OFFSET(RIP, 1) };
static const uint8_t arm_common[] = { DEF_CFA(SP, 0) };

/* clang-format off */
#define BYTES(...) .bytes = { __VA_ARGS__ }, .size = sizeof((uint8_t[]){ __VA_ARGS__ })
/* clang-format on */

static const struct {
	const char *what;
	uint16_t machine;
	uint8_t bytes[96];
	size_t size;
	const char *rows;
} programs[] = {
	{ "a leaf", EM_X86_64, BYTES(0), "0 7+8 = c-8" },
	{ "a frame pointer", EM_X86_64,
	  BYTES(ADVANCE(1), DEF_CFA_OFF(16), OFFSET(RBP, 2), ADVANCE(3), DEF_CFA_REG(RBP),
		ADVANCE(40), DEF_CFA(RSP, 8)),
	  "0 7+8 = c-8 | 1 7+16 c-16 c-8 | 4 6+16 c-16 c-8 | 44 7+8 c-16 c-8" },
	{ "other registers are of no interest", EM_X86_64,
	  BYTES(ADVANCE(1), OFFSET(3, 2), ADVANCE(1), OFFSET(12, 3), SAME(12), UNDEFINED(13),
		REGISTER(14, 15), EXPRESSION(15, 2), BREG(7, 0)),
	  "0 7+8 = c-8" },
	{ "all sizes of advances", EM_X86_64,
	  BYTES(ADVANCE1(1), DEF_CFA_OFF(16), ADVANCE2(2), DEF_CFA_OFF(24), ADVANCE4(3),
		DEF_CFA_OFF(32), ADVANCE(0), DEF_CFA_OFF(40), SET_LOC(CODE + 99), DEF_CFA_OFF(8)),
	  "0 7+8 = c-8 | 1 7+16 = c-8 | 3 7+24 = c-8 | 6 7+40 = c-8 | 99 7+8 = c-8" },
	{ "states are remembered, the CFA too", EM_X86_64,
	  BYTES(ADVANCE(1), DEF_CFA_OFF(16), OFFSET(RBP, 2), REMEMBER, ADVANCE(1), RESTORE(RBP),
		DEF_CFA_OFF(8), ADVANCE(1), RESTORE_STATE),
	  "0 7+8 = c-8 | 1 7+16 c-16 c-8 | 2 7+8 = c-8 | 3 7+16 c-16 c-8" },
	{ "all ways to say where a register is", EM_X86_64,
	  BYTES(OFFSET_EXT(RBP, 2), ADVANCE(1), OFFSET_SF(RBP, 0x7d), ADVANCE(1),
		NEG_OFFSET(RBP, 4), ADVANCE(1), SAME(RBP), ADVANCE(1), UNDEFINED(RBP), ADVANCE(1),
		REGISTER(RBP, 9), ADVANCE(1), RESTORE_EXT(RBP)),
	  "0 7+8 c-16 c-8 | 1 7+8 c+24 c-8 | 2 7+8 c+32 c-8 | 3 7+8 = c-8 | 4 7+8 ? c-8 | "
	  "5 7+8 r9 c-8 | 6 7+8 = c-8" },
	{ "all ways to say where the CFA is", EM_X86_64,
	  BYTES(DEF_CFA_SF(RBP, 0x7e), ADVANCE(1), DEF_CFA_OFF_SF(0x7d), ADVANCE(1),
		DEF_CFA_EXPR(2), BREG(RSP, 40)),
	  "0 6+16 = c-8 | 1 6+24 = c-8 | 2 7+40 = c-8" },
	{ "arguments' size is no state", EM_X86_64, BYTES(ADVANCE(1), ARGS_SIZE(32)),
	  "0 7+8 = c-8" },
	{ "PLT entries", EM_X86_64,
	  BYTES(DEF_CFA_OFF(16), ADVANCE(6), DEF_CFA_OFF(24), ADVANCE(10), DEF_CFA_EXPR(11),
		PLT_EXPR(11)),
	  "0 7+16 = c-8 | 6 7+24 = c-8 | 16 plt11 = c-8" },
	{ "PLT entries that push earlier", EM_X86_64, BYTES(DEF_CFA_EXPR(11), PLT_EXPR(9)),
	  "0 plt9 = c-8" },
	{ "PLT entries of 32 bytes are not known", EM_X86_64,
	  BYTES(DEF_CFA_EXPR(11), BREG(7, 8), BREG(16, 0), LIT(31), 0x1a, LIT(11), 0x2a, LIT(3),
		0x24, PLUS),
	  "0 unsupported" },
	{ "a stack that was aligned", EM_X86_64,
	  BYTES(ADVANCE(5), DEF_CFA(R10, 0), ADVANCE(8), EXPRESSION(RBP, 2), BREG(RBP, 0),
		ADVANCE(5), DEF_CFA_EXPR(3), BREG(RBP, -8), DEREF, ADVANCE(20), DEF_CFA(R10, 0),
		ADVANCE(4), DEF_CFA(RSP, 8)),
	  "0 7+8 = c-8 | 5 10+0 = c-8 | 13 10+0 f+0 c-8 | 18 *6-8+0 f+0 c-8 | 38 10+0 f+0 c-8 | "
	  "42 7+8 f+0 c-8" },
	{ "a CFA behind a pointer", EM_X86_64,
	  BYTES(DEF_CFA_EXPR(5), BREG(RSP, 16), DEREF, PLUS_UCONST(8)), "0 *7+16+8 = c-8" },
	{ "a CFA behind a pointer by addition", EM_X86_64,
	  BYTES(DEF_CFA_EXPR(5), BREG(RSP, 16), DEREF, LIT(8), PLUS), "0 *7+16+8 = c-8" },
	{ "a register saved relative to sp", EM_X86_64,
	  BYTES(DEF_CFA_OFF(32), EXPRESSION(RBP, 2), BREG(RSP, 8)), "0 7+32 c-24 c-8" },
	{ "a register saved relative to the CFA", EM_X86_64,
	  BYTES(EXPRESSION(RBP, 2), PLUS_UCONST(16), EXPRESSION(RIP, 2), PLUS_UCONST(24)),
	  "0 7+8 c+16 c+24" },
	{ "a frame pointer that is a value is lost", EM_X86_64,
	  BYTES(VAL_EXPR(RBP, 2), BREG(RSP, 8)), "0 7+8 ? c-8" },
	{ "a frame pointer that is another register", EM_X86_64,
	  BYTES(VAL_EXPR(RBP, 2), BREG(R10, 0)), "0 7+8 r10 c-8" },
	{ "a return address in a register (vfork)", EM_X86_64,
	  BYTES(ADVANCE(1), REGISTER(RIP, 5), DEF_CFA_OFF(0)), "0 7+8 = c-8 | 1 7+0 = r5" },
	{ "the first function", EM_X86_64, BYTES(ADVANCE(2), UNDEFINED(RIP)),
	  "0 7+8 = c-8 | 2 end" },
	{ "a return address nowhere", EM_X86_64, BYTES(SAME(RIP)), "0 unsupported" },
	{ "a caller's sp that is not the CFA", EM_X86_64,
	  BYTES(ADVANCE(1), REGISTER(RSP, 8), ADVANCE(1), RESTORE(RSP), ADVANCE(1), OFFSET(RSP, 4)),
	  "0 7+8 = c-8 | 1 unsupported | 2 7+8 = c-8 | 3 unsupported" },
	{ "a caller's sp that is the CFA", EM_X86_64, BYTES(VAL_OFFSET(RSP, 0)), "0 7+8 = c-8" },
	{ "a CFA in a vector register", EM_X86_64, BYTES(DEF_CFA(17, 8)), "0 unsupported" },
	{ "a CFA in register 200", EM_X86_64, BYTES(0x0c, 0xc8, 0x01, 8), "0 unsupported" },
	{ "a frame of 2 GB is a frame", EM_X86_64, BYTES(0x0e, 0xff, 0xff, 0xff, 0xff, 0x07),
	  "0 7+2147483647 = c-8" },
	{ "a frame of 2 GB and a byte is not", EM_X86_64, BYTES(0x0e, 0x80, 0x80, 0x80, 0x80, 0x08),
	  "0 unsupported" },
	{ "a return address 32 KB away", EM_X86_64, BYTES(OFFSET_SF(RIP, 0x80), 0x20),
	  "0 7+8 = c-32768" },
	{ "a return address farther away", EM_X86_64, BYTES(OFFSET_SF(RIP, 0x81), 0x20),
	  "0 unsupported" },
	{ "the same, with a frame pointer", EM_X86_64,
	  BYTES(DEF_CFA(RBP, 0x80), 0x80, 0x02, OFFSET_SF(RIP, 0x81), 0x20), "0 6+32768 = f-8" },
	{ "an offset after an expression keeps the expression", EM_X86_64,
	  BYTES(DEF_CFA_EXPR(3), BREG(RBP, -8), DEREF, ADVANCE(1), DEF_CFA_OFF(64), ADVANCE(1),
		DEF_CFA_REG(RSP)),
	  "0 *6-8+0 = c-8 | 2 7+64 = c-8" },

	{ "aarch64: a leaf", EM_AARCH64, BYTES(0), "0 31+0 = =" },
	{ "aarch64: a frame", EM_AARCH64,
	  BYTES(ADVANCE(1), DEF_CFA_OFF(32), OFFSET(X29, 4), OFFSET(X30, 3), ADVANCE(1),
		DEF_CFA_REG(X29), ADVANCE(10), DEF_CFA(SP, 0), RESTORE(X30), RESTORE(X29)),
	  "0 31+0 = = | 4 31+32 c-32 c-24 | 8 29+32 c-32 c-24 | 48 31+0 = =" },
	{ "aarch64: signed return addresses", EM_AARCH64,
	  BYTES(ADVANCE(1), NEGATE_RA_STATE, ADVANCE(1), DEF_CFA_OFF(16)),
	  "0 31+0 = = | 8 31+16 = =" },
	{ "aarch64: the return address in another register", EM_AARCH64, BYTES(REGISTER(X30, 9)),
	  "0 31+0 = r9" },
	{ "aarch64: a frame of 64 KB", EM_AARCH64,
	  BYTES(DEF_CFA(X29, 0x80), 0x80, 0x04, OFFSET(X30, 0xff), 0x3f), "0 29+65536 = f+8" },
	{ "aarch64: a frame of 64 KB without a frame pointer", EM_AARCH64,
	  BYTES(DEF_CFA(SP, 0x80), 0x80, 0x04, OFFSET(X30, 0xff), 0x3f), "0 31+65536 = s+8" },
	{ "aarch64: a return address far from the CFA and sp", EM_AARCH64,
	  BYTES(DEF_CFA(SP, 0x80), 0x80, 0x08, OFFSET(X30, 0xff), 0x3f), "0 unsupported" },
	{ "aarch64: a scalable vector's frame", EM_AARCH64,
	  BYTES(DEF_CFA_EXPR(7), BREG(SP, 16), 0x92, 0x2e, 0, LIT(8), PLUS), "0 unsupported" },
	{ "x86: signed return addresses are unknown", EM_X86_64, BYTES(ADVANCE(1), NEGATE_RA_STATE),
	  "0 7+8 = c-8 | 1 unsupported" },

	// Hostile ones: what went before stands, the rest is unsupported.
	{ "an unknown instruction", EM_X86_64, BYTES(ADVANCE(1), DEF_CFA_OFF(16), ADVANCE(1), 0x3f),
	  "0 7+8 = c-8 | 1 7+16 = c-8 | 2 unsupported" },
	{ "an unknown instruction at once", EM_X86_64, BYTES(0x3e), "0 unsupported" },
	{ "cut in an operand", EM_X86_64, BYTES(ADVANCE(1), 0x0e), "0 7+8 = c-8 | 1 unsupported" },
	{ "cut in an advance", EM_X86_64, BYTES(0x04, 1, 2), "0 unsupported" },
	{ "an expression longer than the program", EM_X86_64, BYTES(DEF_CFA_EXPR(9), BREG(7, 8)),
	  "0 unsupported" },
	{ "an expression of 2^63 bytes", EM_X86_64,
	  BYTES(0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f), "0 unsupported" },
	{ "an empty expression", EM_X86_64, BYTES(DEF_CFA_EXPR(0)), "0 unsupported" },
	{ "an expression that takes what is not there", EM_X86_64, BYTES(DEF_CFA_EXPR(1), PLUS),
	  "0 unsupported" },
	{ "an expression that stacks up", EM_X86_64,
	  BYTES(DEF_CFA_EXPR(18), BREG(RSP, 8), LIT(0), LIT(0), LIT(0), LIT(0), LIT(0), LIT(0),
		LIT(0), LIT(0), PLUS, PLUS, PLUS, PLUS, PLUS, PLUS, PLUS, PLUS),
	  "0 unsupported" },
	{ "an expression that stacks up less", EM_X86_64,
	  BYTES(DEF_CFA_EXPR(16), BREG(RSP, 8), LIT(0), LIT(0), LIT(0), LIT(0), LIT(0), LIT(0),
		LIT(1), PLUS, PLUS, PLUS, PLUS, PLUS, PLUS, PLUS),
	  "0 7+9 = c-8" },
	{ "an expression with a broken number", EM_X86_64, BYTES(DEF_CFA_EXPR(3), 0x77, 0x80, 0x80),
	  "0 unsupported" },
	{ "an endless number", EM_X86_64,
	  BYTES(0x0e, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
		0x80, 0x80, 0x80),
	  "0 unsupported" },
	{ "a number of 70 bits", EM_X86_64,
	  BYTES(0x0e, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02),
	  "0 unsupported" },
	{ "an advance past the end", EM_X86_64,
	  BYTES(ADVANCE(1), DEF_CFA_OFF(16), ADVANCE2(0x100), DEF_CFA_OFF(24)),
	  "0 7+8 = c-8 | 1 7+16 = c-8" },
	{ "an advance to the end", EM_X86_64,
	  BYTES(ADVANCE1(0xff), DEF_CFA_OFF(16), ADVANCE(1), DEF_CFA_OFF(24)),
	  "0 7+8 = c-8 | 255 7+16 = c-8" },
	{ "a step back", EM_X86_64, BYTES(ADVANCE(9), SET_LOC(CODE + 8), DEF_CFA_OFF(24)),
	  "0 7+8 = c-8 | 9 unsupported" },
	{ "a step out, backwards", EM_X86_64, BYTES(SET_LOC(CODE - 1)), "0 unsupported" },
	{ "more restored than remembered", EM_X86_64, BYTES(ADVANCE(1), RESTORE_STATE),
	  "0 7+8 = c-8 | 1 unsupported" },
	{ "too much remembered", EM_X86_64,
	  BYTES(ADVANCE(1), REMEMBER, REMEMBER, REMEMBER, REMEMBER, REMEMBER, REMEMBER, REMEMBER,
		REMEMBER, REMEMBER, REMEMBER, REMEMBER, REMEMBER, REMEMBER, REMEMBER, REMEMBER,
		REMEMBER, REMEMBER),
	  "0 7+8 = c-8 | 1 unsupported" },
};

TEST(runs_programs_to_their_rules)
{
	for EACH (p, programs) {
		bool is_x86 = p->machine == EM_X86_64;
		struct cfi_common common =
			common_of(p->machine, is_x86 ? x86_common : arm_common,
				  is_x86 ? sizeof(x86_common) : sizeof(arm_common));
		struct writer writer;

		assert_true(common.is_supported);
		run(&common, p->bytes, p->size, &writer);
		EXPECT_STR(p->rows, writer.text, p->what);
	}
}

TEST(truncated_programs_still_end)
{
	struct cfi_common common = common_of(EM_X86_64, x86_common, sizeof(x86_common));

	for EACH (p, programs) {
		for (size_t size = 0; size < p->size; size++) {
			uint8_t copy[96]; // so that sanitizers see what is read behind
			struct writer writer;

			memcpy(copy + sizeof(copy) - size, p->bytes, size);
			run(&common, copy + sizeof(copy) - size, size, &writer);
			assert_true(writer.count >= 1);
		}
	}
}

static const struct {
	const char *what;
	uint8_t bytes[8];
	size_t size;
	bool is_supported;
} commons[] = {
	{ "nothing", BYTES(0), true },
	{ "an advance", BYTES(ADVANCE(1)), false },
	{ "an advance with an operand", BYTES(ADVANCE1(1)), false },
	{ "a state restored", BYTES(RESTORE_STATE), false },
	{ "an unknown instruction", BYTES(0x3d), false },
	{ "cut short", BYTES(0x0c, 7), false },
};

TEST(common_instructions_cover_no_code)
{
	for EACH (c, commons) {
		struct cfi_common common = common_of(EM_X86_64, c->bytes, c->size);

		EXPECT_EQ(c->is_supported, common.is_supported, c->what);
	}
}

TEST(knows_no_rule_without_a_cie)
{
	struct cfi_common common = common_of(EM_X86_64, x86_common, sizeof(x86_common));
	const uint8_t bytes[] = { ADVANCE(1), DEF_CFA_OFF(16) };
	struct writer writer;

	common.is_supported = false;
	run(&common, bytes, sizeof(bytes), &writer);
	assert_string_equal("0 unsupported", writer.text);
}

TEST(recognizes_the_kernels_signal_frames)
{
	// glibc's: rip at sp + 168, and the CFA in memory at sp + 160.
	const uint8_t kernels[] = {
		0x0f, 4, 0x77, 0xa0, 0x01, DEREF, 0x10, RIP, 3, 0x77, 0xa8, 0x01
	};
	struct cfi_common common = common_of(EM_X86_64, x86_common, sizeof(x86_common));
	struct writer writer;

	common.is_signal_frame = true;
	run(&common, kernels, sizeof(kernels), &writer);
	assert_string_equal("0 signal", writer.text);
	run(&common, NULL, 0, &writer); // marked only so that nobody subtracts 1 from the pc
	assert_string_equal("0 7+8 = c-8", writer.text);

	common = common_of(EM_AARCH64, arm_common, sizeof(arm_common));
	common.is_signal_frame = true;
	run(&common, NULL, 0, &writer);
	assert_string_equal("0 signal", writer.text);
}

TEST(uses_a_return_register_other_than_lr)
{
	struct cfi_common common = common_of(EM_AARCH64, arm_common, sizeof(arm_common));
	const uint8_t bytes[] = { ADVANCE(1), OFFSET(15, 1) };
	struct writer writer;

	common.return_register = 15;
	run(&common, bytes, sizeof(bytes), &writer);
	assert_string_equal("0 31+0 = r15 | 4 31+0 = c-8", writer.text);
}

TEST(code_alignment_cannot_wrap_the_address)
{
	struct cfi_common common = common_of(EM_X86_64, x86_common, sizeof(x86_common));
	const uint8_t bytes[] = { ADVANCE(2), DEF_CFA_OFF(16), ADVANCE(1), DEF_CFA_OFF(24) };
	struct writer writer;

	common.code_factor = 1ULL << 63;
	run(&common, bytes, sizeof(bytes), &writer); // 2 * 2^63 is 0, then it is past the end
	assert_string_equal("0 7+16 = c-8", writer.text);
	common.code_factor = 0;
	run(&common, bytes, sizeof(bytes), &writer);
	assert_string_equal("0 7+24 = c-8", writer.text);
}

RUN_TESTS(cmocka_unit_test(runs_programs_to_their_rules),
	  cmocka_unit_test(truncated_programs_still_end),
	  cmocka_unit_test(common_instructions_cover_no_code),
	  cmocka_unit_test(knows_no_rule_without_a_cie),
	  cmocka_unit_test(recognizes_the_kernels_signal_frames),
	  cmocka_unit_test(uses_a_return_register_other_than_lr),
	  cmocka_unit_test(code_alignment_cannot_wrap_the_address))
