// SPDX-License-Identifier: Apache-2.0
// The BPF unwinder as it is built for aarch64, over recorded registers and memory. It runs here,
// whatever this machine is: only what the processor's return addresses and signals look like differs.

#define __TARGET_ARCH_arm64
#undef __TARGET_ARCH_x86
#include "tests/unit/bpf/unwind/unwind_memory.h"

#define STACK_BASE 0xffffd0001000ULL
#define AT(word)   (STACK_BASE + 8 * (word))

#define CODE         0xaaaaaaaa1000ULL
#define FUNCTION(n)  (CODE + 0x100 * (n))
#define PC(n)        (FUNCTION(n) + 0x10)
#define RETURN_TO(n) (FUNCTION(n) + 0x20)
#define START        15
#define FUNCTIONS    16
#define TO_START     RETURN_TO(START)
#define JIT          0xaaaaaabb0000ULL

/* A signature as pointer authentication leaves it above the address (bit 55 clear: user space). */
#define SIGNED(address) ((address) | 0x2a3f000000000000ULL)

#define FP  ARM64_REGISTER_FP
#define LR  ARM64_REGISTER_LR
#define SP  ARM64_REGISTER_SP
#define X19 19

/* "ret" with nothing pushed; "stp x29, x30, [sp, -N]!"; the same, with the CFA on x29. */
#define LEAF                                                             \
	{                                                                \
		.cfa = CFA_REGISTER, .cfa_register = SP, .cfa_offset = 0 \
	}
#define LEAF_ROOM(bytes)                                                       \
	{                                                                      \
		.cfa = CFA_REGISTER, .cfa_register = SP, .cfa_offset = (bytes) \
	}
#define FRAME_OF(how, offset)                                                               \
	{                                                                                   \
		.cfa = CFA_REGISTER, .cfa_register = (how), .cfa_offset = (offset),         \
		.saved = SAVED_AT_CFA | SAVED_AT_CFA << 4, .fp_offset = (__s16) - (offset), \
		.return_offset = (__s16)(8 - (offset))                                      \
	}

static const struct {
	const char *what;
	struct unwind_rule rules[4]; // of functions 0 to 3
	uint64_t words[12];          // from STACK_BASE on, where sp is
	uint64_t fp, lr;
	uint64_t callers[4];
	uint32_t end;
} cases[] = {
	{ "a leaf that has pushed nothing",
	  { LEAF },
	  { 0 },
	  0,
	  TO_START,
	  { TO_START },
	  STACK_END_COMPLETE },
	{ "a leaf with room on the stack",
	  { LEAF_ROOM(32), FRAME_OF(SP, 16) },
	  { 1, 2, 3, 4, 0, TO_START },
	  0,
	  RETURN_TO(1),
	  { RETURN_TO(1), TO_START },
	  STACK_END_COMPLETE },
	{ "frames on sp",
	  { FRAME_OF(SP, 32), FRAME_OF(SP, 16) },
	  { AT(4), RETURN_TO(1), 0, 0, 0, TO_START },
	  0,
	  77,
	  { RETURN_TO(1), TO_START },
	  STACK_END_COMPLETE },
	{ "a large frame whose return address is near sp",
	  { { .cfa = CFA_REGISTER,
	      .cfa_register = SP,
	      .cfa_offset = 64,
	      .saved = SAVED_AT_CFA | SAVED_AT_SP << 4,
	      .fp_offset = -64,
	      .return_offset = 8 },
	    FRAME_OF(SP, 16) },
	  { 0, RETURN_TO(1), 0, 0, 0, 0, 0, 0, 0, TO_START },
	  0,
	  77,
	  { RETURN_TO(1), TO_START },
	  STACK_END_COMPLETE },
	{ "frames on x29",
	  { FRAME_OF(FP, 32), FRAME_OF(FP, 16) },
	  { 0, 0, AT(6), RETURN_TO(1), 0, 0, 0, TO_START },
	  AT(2),
	  77,
	  { RETURN_TO(1), TO_START },
	  STACK_END_COMPLETE },
	{ "a leaf below frames on x29",
	  { LEAF, FRAME_OF(FP, 16) },
	  { 0, 0, 0, TO_START },
	  AT(2),
	  RETURN_TO(1),
	  { RETURN_TO(1), TO_START },
	  STACK_END_COMPLETE },
	{ "signed return addresses",
	  { FRAME_OF(SP, 16), FRAME_OF(SP, 16) },
	  { 0, SIGNED(RETURN_TO(1)), 0, SIGNED(TO_START) },
	  0,
	  0,
	  { RETURN_TO(1), TO_START },
	  STACK_END_COMPLETE },
	{ "a signed return address in its register",
	  { LEAF },
	  { 0 },
	  0,
	  SIGNED(TO_START),
	  { TO_START },
	  STACK_END_COMPLETE },
	{ "a caller that has saved nothing",
	  { FRAME_OF(SP, 16), LEAF_ROOM(16) },
	  { 0, RETURN_TO(1), 0, 0 },
	  0,
	  TO_START,
	  { RETURN_TO(1) },
	  STACK_END_UNSUPPORTED },
	{ "the return address in another register of the leaf",
	  { { .cfa = CFA_REGISTER,
	      .cfa_register = SP,
	      .saved = SAVED_IN_REGISTER << 4,
	      .return_offset = X19 } },
	  { 0 },
	  0,
	  77,
	  { 0 },
	  STACK_END_BAD_FRAME },
	{ "a return address of 0 is the start of a thread",
	  { LEAF },
	  { 0 },
	  0,
	  0,
	  { 0 },
	  STACK_END_COMPLETE },
	{ "a return address that is all signature",
	  { LEAF },
	  { 0 },
	  0,
	  SIGNED(0),
	  { 0 },
	  STACK_END_COMPLETE },
	{ "a frame that points to itself",
	  { FRAME_OF(FP, 16), FRAME_OF(FP, 16) },
	  { 0, 0, AT(2), RETURN_TO(1) },
	  AT(2),
	  0,
	  { RETURN_TO(1) },
	  STACK_END_BAD_FRAME },
	{ "a stack that is not aligned",
	  { FRAME_OF(SP, 20) },
	  { 0, TO_START, TO_START, TO_START },
	  0,
	  0,
	  { 0 },
	  STACK_END_BAD_FRAME },
	{ "JIT code, by frame pointer",
	  { LEAF },
	  { AT(2), RETURN_TO(0), 0, TO_START },
	  AT(0),
	  JIT + 8,
	  { JIT + 8, RETURN_TO(0) },
	  STACK_END_UNSUPPORTED },
};

static void record_program(const struct unwind_rule *rules, uint32_t count)
{
	struct recorded_row rows[FUNCTIONS];

	record_nothing();
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		rows[i] = (struct recorded_row){ 0x100 * i, i };
		if (i < count)
			recorded.rules[i] = rules[i];
	}
	recorded.rules[START] = (struct unwind_rule){ .cfa = CFA_END };
	record_table(0, FUNCTIONS * 0x100 / TABLE_BLOCK_BYTES, rows, FUNCTIONS);
	record_mapping(CODE, 0x1000, CODE, MAPPING_CODE_TABLE);
	record_mapping(JIT, 0x1000, 0, MAPPING_CODE_JIT);
}

enum { WORDS_BELOW = 2, WORDS_MAX = 64 };

static void record_stack(const uint64_t *words, uint32_t count)
{
	static uint64_t stack[WORDS_BELOW + WORDS_MAX];

	memcpy(stack + WORDS_BELOW, words, count * sizeof(*words));
	recorded.memories[0] = (struct recorded_memory){ AT(-WORDS_BELOW), stack,
							 (WORDS_BELOW + count) * sizeof(*words) };
}

TEST(each_rule_finds_the_caller_or_ends)
{
	for EACH (c, cases) {
		const uint64_t registers[UNWIND_REGISTERS] = {
			[SP] = STACK_BASE,
			[FP] = c->fp,
			[LR] = c->lr,
			[X19] = 0x10, // no address
		};
		uint32_t count = 0;

		record_program(c->rules, 4);
		record_stack(c->words, 12);
		struct unwind unwind = unwind_from(PC(0), registers);

		while (count < 4 && c->callers[count])
			count++;
		EXPECT_EQ(count, unwind.frame_count, c->what);
		for (uint32_t i = 0; i < count; i++)
			EXPECT_EQ(c->callers[i] - 1, recorded.frames[i].address, c->what);
		EXPECT_EQ(c->end, unwind.end, c->what);
	}
}

/* Where the kernel puts what it saves (arch/arm64/kernel/signal.c, struct rt_sigframe). */
struct signal_frame {
	uint8_t info[128];
	uint64_t flags, link, stack[3];
	uint64_t mask[16]; // sigset_t, and what glibc's is larger by
	uint64_t fault_address __attribute__((aligned(16)));
	struct signal_registers registers;
};

TEST(a_signal_frame_restores_all_registers)
{
	static const struct unwind_rule rules[] = {
		LEAF,                       // the handler
		{ .cfa = CFA_SIGNAL },      // what it returns to
		{ .cfa = CFA_UNSUPPORTED }, // before the interrupted one
		// The interrupted one: a leaf whose lr is live, on a register that is not tracked.
		{ .cfa = CFA_REGISTER, .cfa_register = X19, .cfa_offset = 16 },
	};
	struct signal_frame signal = { .registers.pc = FUNCTION(3) };
	const uint64_t handler_at = STACK_BASE - 0x100000;
	const uint64_t registers[UNWIND_REGISTERS] = { [SP] = handler_at, [LR] = RETURN_TO(1) };

	signal.registers.x[SP] = STACK_BASE;
	signal.registers.x[X19] = STACK_BASE;
	signal.registers.x[LR] = TO_START;
	EXPECT_EQ(SIGNAL_REGISTERS_OFFSET, offsetof(struct signal_frame, registers),
		  "the kernel's");

	record_program(rules, 4);
	recorded.memories[1] = (struct recorded_memory){ handler_at, &signal, sizeof(signal) };
	struct unwind unwind = unwind_from(PC(0), registers);
	EXPECT_EQ(STACK_END_COMPLETE, unwind.end, "the stack goes on, on another stack");
	EXPECT_EQ(3, unwind.frame_count, "trampoline, interrupted function, first function");
	EXPECT_EQ(FUNCTION(3), recorded.frames[1].address, "the interrupted function, exactly");
	EXPECT_EQ(TO_START - 1, recorded.frames[2].address, "its caller");
}

/* Without a frame of its own a function can have been called once only, as the leaf. */
TEST(two_empty_frames_end_the_stack)
{
	static const struct unwind_rule rules[] = {
		LEAF,
		{ .cfa = CFA_REGISTER,
		  .cfa_register = SP,
		  .cfa_offset = 0,
		  .saved = SAVED_AT_CFA << 4,
		  .return_offset = 8 },
	};
	const uint64_t words[] = { 0, RETURN_TO(1) };
	const uint64_t registers[UNWIND_REGISTERS] = { [SP] = STACK_BASE, [LR] = RETURN_TO(1) };

	record_program(rules, 2);
	record_stack(words, 2);
	struct unwind unwind = unwind_from(PC(0), registers);
	EXPECT_EQ(STACK_END_BAD_FRAME, unwind.end, "it would never end");
	EXPECT_EQ(1, unwind.frame_count, "the leaf's caller");
}

RUN_TESTS(cmocka_unit_test(each_rule_finds_the_caller_or_ends),
	  cmocka_unit_test(a_signal_frame_restores_all_registers),
	  cmocka_unit_test(two_empty_frames_end_the_stack))
