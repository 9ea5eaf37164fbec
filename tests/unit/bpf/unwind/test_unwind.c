// SPDX-License-Identifier: Apache-2.0
// The BPF unwinder over recorded x86-64 registers and memory: each kind of rule, each end, and
// what a hostile process may have put in place of a stack.

#include <errno.h>

#include "tests/unit/bpf/unwind/unwind_memory.h"

#define STACK_BASE 0x7ffd00001000ULL
#define AT(word)   (STACK_BASE + 8 * (word))

/*
 * The program: functions of 256 bytes, each with one rule all through, from CODE on. Function 15 is
 * the thread's first. Behind it comes a hole, then JIT code and a file without a table.
 */
#define CODE          0x401000ULL
#define FUNCTION(n)   (CODE + 0x100 * (n))
#define PC(n)         (FUNCTION(n) + 0x10)
#define RETURN_TO(n)  (FUNCTION(n) + 0x20)
#define START         15
#define FUNCTIONS     16
#define TO_START      RETURN_TO(START)
#define JIT           0x500000ULL
#define WITHOUT_TABLE 0x600000ULL
#define UNKNOWN       0x700000ULL
#define HOLE          0x480000ULL

#define RBX 3
#define RBP X86_REGISTER_FP
#define RSP X86_REGISTER_SP
#define R10 10

/* Return address at CFA - 8; the frame pointer stays, unless one of the words below changes it. */
#define CALL(offset)                                                                     \
	{                                                                                \
		.cfa = CFA_REGISTER, .cfa_register = RSP, .cfa_offset = (offset), RETURN \
	}
#define FRAME                                                                                    \
	{                                                                                        \
		.cfa = CFA_REGISTER, .cfa_register = RBP, .cfa_offset = 16,                      \
		.saved = SAVED_AT_CFA | SAVED_AT_CFA << 4, .fp_offset = -16, .return_offset = -8 \
	}
#define RETURN .saved = SAVED_AT_CFA << 4, .return_offset = -8
#define RETURN_AND_FP(at) \
	.saved = SAVED_AT_CFA | SAVED_AT_CFA << 4, .return_offset = -8, .fp_offset = (at)
#define BY(how) .cfa = CFA_REGISTER, .cfa_register = RSP, .cfa_offset = 8, .saved = (how)

static const struct {
	const char *what;
	struct unwind_rule rules[4]; // of functions 0 to 3
	uint64_t words[12];          // from STACK_BASE on, where rsp is
	uint64_t rbp, rbx;
	uint64_t callers[4]; // return addresses in order
	uint32_t end;
} cases[] = {
	{ "a leaf that has pushed nothing",
	  { CALL(8) },
	  { TO_START },
	  0,
	  0,
	  { TO_START },
	  STACK_END_COMPLETE },
	{ "functions with frames on rsp",
	  { CALL(8), CALL(32) },
	  { RETURN_TO(1), 0, 0, 0, TO_START },
	  0,
	  0,
	  { RETURN_TO(1), TO_START },
	  STACK_END_COMPLETE },
	{ "functions with frames on rbp",
	  { FRAME, FRAME },
	  { 0, 0, AT(4), RETURN_TO(1), 0, TO_START },
	  AT(2),
	  0,
	  { RETURN_TO(1), TO_START },
	  STACK_END_COMPLETE },
	{ "rbp pushed but not used, then used by the caller",
	  { { .cfa = CFA_REGISTER, .cfa_register = RSP, .cfa_offset = 24, RETURN_AND_FP(-16) },
	    FRAME },
	  { 0, AT(5), RETURN_TO(1), 0, 0, 0, TO_START },
	  77,
	  0,
	  { RETURN_TO(1), TO_START },
	  STACK_END_COMPLETE },
	{ "rbp further down in the frame",
	  { { .cfa = CFA_REGISTER, .cfa_register = RSP, .cfa_offset = 40, RETURN_AND_FP(-40) },
	    FRAME },
	  { AT(6), 0, 0, 0, RETURN_TO(1), 0, 0, TO_START },
	  77,
	  0,
	  { RETURN_TO(1), TO_START },
	  STACK_END_COMPLETE },
	{ "rbp left alone on the way to the function that uses it",
	  { CALL(8), CALL(16), FRAME },
	  { RETURN_TO(1), 0, RETURN_TO(2), 0, 0, TO_START },
	  AT(4),
	  0,
	  { RETURN_TO(1), RETURN_TO(2), TO_START },
	  STACK_END_COMPLETE },
	{ "a stack realigned: the CFA lies in memory, rbp behind rbp",
	  { { .cfa = CFA_DEREF,
	      .cfa_register = RBP,
	      .cfa_offset = -8,
	      .saved = SAVED_AT_FP | SAVED_AT_CFA << 4,
	      .return_offset = -8 },
	    FRAME },
	  { 0, AT(5), AT(6), 0, RETURN_TO(1), 0, AT(8), TO_START },
	  AT(2),
	  0,
	  { RETURN_TO(1), TO_START },
	  STACK_END_COMPLETE },
	{ "the CFA in memory and a distance", // as the dynamic linker's trampolines have it
	  { { .cfa = CFA_DEREF,
	      .cfa_register = RSP,
	      .cfa_offset = 8,
	      .deref_offset = 16,
	      RETURN } },
	  { 0, AT(2), 0, TO_START },
	  0,
	  0,
	  { TO_START },
	  STACK_END_COMPLETE },
	{ "the CFA on another register, which the leaf has",
	  { { .cfa = CFA_REGISTER, .cfa_register = RBX, .cfa_offset = 8, RETURN } },
	  { 0, 0, TO_START },
	  0,
	  AT(2),
	  { TO_START },
	  STACK_END_COMPLETE },
	{ "the CFA on another register, unknown in a caller",
	  { CALL(8), { .cfa = CFA_REGISTER, .cfa_register = RBX, .cfa_offset = 8, RETURN } },
	  { RETURN_TO(1), 0, TO_START },
	  0,
	  AT(2),
	  { RETURN_TO(1) },
	  STACK_END_UNSUPPORTED },
	{ "the CFA in memory by an unknown register",
	  { CALL(8), { .cfa = CFA_DEREF, .cfa_register = R10, RETURN } },
	  { RETURN_TO(1), 0, TO_START },
	  0,
	  0,
	  { RETURN_TO(1) },
	  STACK_END_UNSUPPORTED },
	{ "the return address in a register",
	  { { BY(SAVED_IN_REGISTER << 4), .return_offset = RBX } },
	  { 0 },
	  0,
	  TO_START,
	  { TO_START },
	  STACK_END_COMPLETE },
	{ "where clone() comes back to a new thread, with 0",
	  { { BY(SAVED_AT_CFA << 4), .return_offset = -8, .flags = RULE_CLONED } },
	  { RETURN_TO(1), TO_START },
	  0,
	  0,
	  { 0 },
	  STACK_END_COMPLETE },
	{ "a caller in such code has been there for long",
	  { CALL(8), { BY(SAVED_AT_CFA << 4), .return_offset = -8, .flags = RULE_CLONED } },
	  { RETURN_TO(1), TO_START },
	  0,
	  0,
	  { RETURN_TO(1), TO_START },
	  STACK_END_COMPLETE },
	{ "the return address in a register unknown in a caller",
	  { CALL(8), { BY(SAVED_IN_REGISTER << 4), .return_offset = RBX } },
	  { RETURN_TO(1), 0 },
	  0,
	  TO_START,
	  { RETURN_TO(1) },
	  STACK_END_UNSUPPORTED },
	{ "rbp in another register of the leaf",
	  { { .cfa = CFA_REGISTER,
	      .cfa_register = RSP,
	      .cfa_offset = 8,
	      .saved = SAVED_IN_REGISTER | SAVED_AT_CFA << 4,
	      .return_offset = -8,
	      .fp_offset = RBX },
	    FRAME },
	  { RETURN_TO(1), 0, 0, 0, TO_START },
	  77,
	  AT(3),
	  { RETURN_TO(1), TO_START },
	  STACK_END_COMPLETE },
	{ "the return address elsewhere in the frame",
	  { { .cfa = CFA_REGISTER,
	      .cfa_register = RSP,
	      .cfa_offset = 32,
	      .saved = SAVED_AT_CFA << 4,
	      .return_offset = -32 } },
	  { TO_START, 1, 2, 3 },
	  0,
	  0,
	  { TO_START },
	  STACK_END_COMPLETE },
	{ "no return address: this was the first function",
	  { { BY(SAVED_UNDEFINED << 4) } },
	  { RETURN_TO(1) },
	  0,
	  0,
	  { 0 },
	  STACK_END_COMPLETE },
	{ "a return address of 0 is the start of a thread",
	  { CALL(8) },
	  { 0 },
	  0,
	  0,
	  { 0 },
	  STACK_END_COMPLETE },
	{ "rbp lost, and then wanted",
	  { { .cfa = CFA_REGISTER,
	      .cfa_register = RSP,
	      .cfa_offset = 8,
	      .saved = SAVED_UNDEFINED | SAVED_AT_CFA << 4,
	      .return_offset = -8 },
	    FRAME },
	  { RETURN_TO(1), 0, TO_START },
	  AT(1),
	  0,
	  { RETURN_TO(1) },
	  STACK_END_FAULT },
	{ "a table that ends here",
	  { { .cfa = CFA_NO_TABLE } },
	  { TO_START },
	  0,
	  0,
	  { 0 },
	  STACK_END_NO_TABLE },
	{ "a rule that no compiler writes",
	  { { .cfa = CFA_UNSUPPORTED } },
	  { TO_START },
	  0,
	  0,
	  { 0 },
	  STACK_END_UNSUPPORTED },
	{ "a kind of rule that there is not",
	  { { .cfa = 200, RETURN } },
	  { TO_START },
	  0,
	  0,
	  { 0 },
	  STACK_END_UNSUPPORTED },
	{ "a return into a hole", { CALL(8) }, { HOLE }, 0, 0, { HOLE }, STACK_END_NO_MAPPING },
	{ "a return into a file whose table is not there yet",
	  { CALL(8) },
	  { UNKNOWN + 8 },
	  0,
	  0,
	  { UNKNOWN + 8 },
	  STACK_END_NO_MAPPING },
	{ "a return into a file without unwind information",
	  { CALL(8) },
	  { WITHOUT_TABLE + 8 },
	  0,
	  0,
	  { WITHOUT_TABLE + 8 },
	  STACK_END_NO_TABLE },
	{ "a return into the first page",
	  { CALL(8) },
	  { 0x123 },
	  0,
	  0,
	  { 0 },
	  STACK_END_BAD_FRAME },
	{ "a return into the kernel",
	  { CALL(8) },
	  { 0xffffffff81000000 },
	  0,
	  0,
	  { 0 },
	  STACK_END_BAD_FRAME },
	{ "a frame that points to itself",
	  { FRAME, FRAME },
	  { 0, 0, AT(2), RETURN_TO(1) },
	  AT(2),
	  0,
	  { RETURN_TO(1) },
	  STACK_END_BAD_FRAME },
	{ "a cycle of two",
	  { FRAME, FRAME },
	  { AT(2), RETURN_TO(1), AT(0), RETURN_TO(1) },
	  AT(0),
	  0,
	  { RETURN_TO(1), RETURN_TO(1) },
	  STACK_END_BAD_FRAME },
	{ "rbp below rsp",
	  { CALL(16), FRAME },
	  { TO_START, RETURN_TO(1) },
	  AT(-1),
	  0,
	  { RETURN_TO(1) },
	  STACK_END_BAD_FRAME },
	{ "a CFA below rsp",
	  { CALL(16), CALL(-8) },
	  { TO_START, RETURN_TO(1) },
	  0,
	  0,
	  { RETURN_TO(1) },
	  STACK_END_BAD_FRAME },
	{ "a caller without a frame",
	  { CALL(16), CALL(0) },
	  { 0, RETURN_TO(1) },
	  0,
	  0,
	  { RETURN_TO(1) },
	  STACK_END_BAD_FRAME },
	{ "a CFA that is not aligned",
	  { CALL(12) },
	  { TO_START << 32, 0 },
	  0,
	  0,
	  { 0 },
	  STACK_END_BAD_FRAME },
	{ "a CFA in memory that cannot be read",
	  { CALL(0x10000) },
	  { 0 },
	  0,
	  0,
	  { 0 },
	  STACK_END_FAULT },
	{ "a CFA at the end of all addresses",
	  { FRAME },
	  { 0 },
	  UINT64_MAX - 8,
	  0,
	  { 0 },
	  STACK_END_FAULT },
	{ "a CFA that is to be read where nothing is",
	  { { .cfa = CFA_DEREF, .cfa_register = RBP, .cfa_offset = -8, RETURN } },
	  { 0 },
	  0,
	  0,
	  { 0 },
	  STACK_END_FAULT },
	{ "JIT code, by frame pointer",
	  { CALL(8), FRAME },
	  { JIT + 8, 0, AT(4), RETURN_TO(1), 0, TO_START },
	  AT(2),
	  0,
	  { JIT + 8, RETURN_TO(1), TO_START },
	  STACK_END_COMPLETE },
	{ "JIT code without a frame pointer",
	  { CALL(8) },
	  { JIT + 8 },
	  1,
	  0,
	  { JIT + 8 },
	  STACK_END_NO_FRAME_POINTER },
	{ "JIT code whose frame is further away than a stack is large",
	  { CALL(8) },
	  { JIT + 8 },
	  AT(0) + FRAME_BYTES_MAX + 16,
	  0,
	  { JIT + 8 },
	  STACK_END_NO_FRAME_POINTER },
	{ "JIT code as the first",
	  { CALL(8) },
	  { JIT + 8 },
	  0,
	  0,
	  { JIT + 8 },
	  STACK_END_COMPLETE },
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
	record_mapping(WITHOUT_TABLE, 0x1000, 0, MAPPING_CODE_NONE);
	record_mapping(UNKNOWN, 0x1000, 0, MAPPING_CODE_UNKNOWN);
}

enum { WORDS_BELOW = 2, WORDS_MAX = 2 * (STACK_DEPTH_MAX + 8) };

/* Below the stack there is memory, too: a return address is read with the word before it. */
static void record_stack(const uint64_t *words, uint32_t count)
{
	static uint64_t stack[WORDS_BELOW + WORDS_MAX];

	memcpy(stack + WORDS_BELOW, words, count * sizeof(*words));
	recorded.memories[0] = (struct recorded_memory){ AT(-WORDS_BELOW), stack,
							 (WORDS_BELOW + count) * sizeof(*words) };
}

static void expect_callers(const struct unwind *unwind, const uint64_t *callers, uint32_t room,
			   const char *what)
{
	uint32_t count = 0;

	while (count < room && callers[count])
		count++;
	EXPECT_EQ(count, unwind->frame_count, what);
	for (uint32_t i = 0; i < count; i++)
		EXPECT_EQ(callers[i] - 1, recorded.frames[i].address, what);
}

TEST(each_rule_finds_the_caller_or_ends)
{
	for EACH (c, cases) {
		uint64_t registers[UNWIND_REGISTERS] = {
			[RSP] = STACK_BASE,
			[RBP] = c->rbp,
			[RBX] = c->rbx,
		};

		record_program(c->rules, 4);
		record_stack(c->words, 12);
		recorded.caches_rules = true;
		recorded.generation = 1;
		for (int round = 0; round < 2; round++) { // the second by cached rules
			struct unwind unwind = unwind_from(PC(0), registers);

			expect_callers(&unwind, c->callers, 4, c->what);
			EXPECT_EQ(c->end, unwind.end, c->what);
			EXPECT_EQ(PC(0), unwind.leaf.address, c->what);
			EXPECT_EQ(FRAME_TAG_NATIVE, unwind.leaf.tag, c->what);
		}
	}
}

TEST(only_the_caller_of_clone_has_a_caller)
{
	static const struct unwind_rule rules[] = {
		{ BY(SAVED_AT_CFA << 4), .return_offset = -8, .flags = RULE_CLONED },
	};
	const uint64_t words[] = { TO_START, 0 }, callers[] = { TO_START };
	const uint64_t registers[UNWIND_REGISTERS] = {
		[RSP] = STACK_BASE,
		[REGISTER_RESULT] = (uint64_t)-ENOSYS, // while it is under way
	};

	record_program(rules, 1);
	record_stack(words, 2);
	struct unwind unwind = unwind_from(PC(0), registers);

	expect_callers(&unwind, callers, 1, "the thread that called it");
	EXPECT_EQ(STACK_END_COMPLETE, unwind.end, "and who called that");
}

TEST(marks_jit_code)
{
	static const struct unwind_rule call = CALL(8);
	static const uint64_t words[] = { JIT + 8 };
	const uint64_t registers[UNWIND_REGISTERS] = { [RSP] = STACK_BASE };

	record_program(&call, 1);
	record_stack(words, 1);
	struct unwind unwind = unwind_from(PC(0), registers);
	EXPECT_EQ(FRAME_TAG_NATIVE, unwind.leaf.tag, "the leaf");
	EXPECT_EQ(FRAME_TAG_JIT, recorded.frames[0].tag, "its caller");
	unwind = unwind_from(JIT + 1, registers);
	EXPECT_EQ(FRAME_TAG_JIT, unwind.leaf.tag, "as the leaf");
}

/* ---- which address counts ------------------------------------------------------------------ */

/* A call may be a function's last instruction: it returns to where the next function begins. */
TEST(looks_return_addresses_up_at_the_call)
{
	const struct unwind_rule rules[] = { CALL(8), CALL(24), { .cfa = CFA_UNSUPPORTED } };
	const uint64_t words[] = { FUNCTION(2), 0, 0, TO_START };
	const uint64_t registers[UNWIND_REGISTERS] = { [RSP] = STACK_BASE };

	record_program(rules, 3);
	record_stack(words, 4);
	struct unwind unwind = unwind_from(PC(0), registers);
	EXPECT_EQ(STACK_END_COMPLETE, unwind.end, "function 1 made the call");
	EXPECT_EQ(2, unwind.frame_count, "function 1 and the first");
	EXPECT_EQ(FUNCTION(2) - 1, recorded.frames[0].address, "in function 1");
}

/* As a probe at a function's return does it: the address on the stack leads to nowhere. */
TEST(uses_return_addresses_that_uretprobes_replaced)
{
	const struct unwind_rule rules[] = { CALL(8), CALL(24), CALL(16) };
	const uint64_t words[] = { RETURN_TO(1), 0, 0, UNKNOWN, 0, UNKNOWN };
	const uint64_t registers[UNWIND_REGISTERS] = { [RSP] = STACK_BASE };
	const uint64_t callers[4] = { RETURN_TO(1), RETURN_TO(2), TO_START };

	record_program(rules, 3);
	record_stack(words, 6);
	struct unwind unwind = unwind_from(PC(0), registers);
	EXPECT_EQ(STACK_END_NO_MAPPING, unwind.end, "the original address is unknown");
	recorded.pending[0] = (struct pending_return){ AT(3), RETURN_TO(2) };
	recorded.pending[1] = (struct pending_return){ AT(3), RETURN_TO(2) }; // probed twice
	recorded.pending[2] = (struct pending_return){ AT(5), TO_START };
	recorded.pending_count = 3;
	unwind = unwind_from(PC(0), registers);
	EXPECT_EQ(STACK_END_COMPLETE, unwind.end, "both are known");
	expect_callers(&unwind, callers, 4, "both are known");
	recorded.pending_count = 2;
	unwind = unwind_from(PC(0), registers);
	EXPECT_EQ(STACK_END_NO_MAPPING, unwind.end, "one is known");
}

TEST(looks_the_leaf_up_at_its_pc)
{
	const struct unwind_rule rules[] = { { .cfa = CFA_UNSUPPORTED }, CALL(8) };
	const uint64_t words[] = { TO_START };
	const uint64_t registers[UNWIND_REGISTERS] = { [RSP] = STACK_BASE };

	record_program(rules, 2);
	record_stack(words, 1);
	struct unwind unwind = unwind_from(FUNCTION(1), registers); // its first instruction
	EXPECT_EQ(STACK_END_COMPLETE, unwind.end, "function 1's rule");
	EXPECT_EQ(FUNCTION(1), unwind.leaf.address, "where it is");
}

/* The linker's code pushes a number in the second half of an entry (System V ABI, figure 5.2). */
TEST(a_plt_entry_pushes_a_word_midway)
{
	const struct unwind_rule rules[] = { { .cfa = CFA_PLT, .cfa_offset = 11, RETURN } };
	const uint64_t words[] = { RETURN_TO(1), TO_START };
	const uint64_t registers[UNWIND_REGISTERS] = { [RSP] = STACK_BASE };

	for (uint32_t i = 0; i < 16; i++) {
		record_program(rules, 1);
		recorded.rules[1] = (struct unwind_rule){ .cfa = CFA_UNSUPPORTED };
		record_stack(words, 2);
		struct unwind unwind = unwind_from(FUNCTION(0) + 16 * 3 + i, registers);

		EXPECT_EQ((i >= 11 ? TO_START : RETURN_TO(1)) - 1, recorded.frames[0].address,
			  "which word is the return address");
		EXPECT_EQ(1, unwind.frame_count, "one caller");
	}
}

/* ---- signals ------------------------------------------------------------------------------- */

/* What the kernel lays down for a signal, as far as it is read (arch/x86/kernel/signal.c). */
struct signal_frame {
	uint64_t flags, link, stack[3];
	struct signal_registers registers;
};

static const struct unwind_rule signal_rules[] = {
	CALL(8),                    // the handler
	{ .cfa = CFA_SIGNAL },      // what it returns to
	{ .cfa = CFA_UNSUPPORTED }, // before the interrupted one
	{ .cfa = CFA_REGISTER,
	  .cfa_register = R10,
	  .cfa_offset = 8,
	  RETURN }, // the interrupted one
};

static struct unwind unwind_signal_at(const struct signal_registers *interrupted)
{
	static struct {
		uint64_t below;
		uint64_t return_address;
		struct signal_frame signal;
	} handler_stack;
	const uint64_t handler_at = STACK_BASE + 0x100000;
	const uint64_t registers[UNWIND_REGISTERS] = { [RSP] = handler_at };

	handler_stack.return_address = RETURN_TO(1);
	handler_stack.signal.registers = *interrupted;
	recorded.memories[1] =
		(struct recorded_memory){ handler_at - 8, &handler_stack, sizeof(handler_stack) };
	return unwind_from(PC(0), registers);
}

TEST(a_signal_frame_restores_all_registers)
{
	const uint64_t words[] = { 0, TO_START };
	// On the first byte of function 3: one less would be another function.
	const struct signal_registers interrupted = { .rip = FUNCTION(3),
						      .rsp = STACK_BASE,
						      .r10 = STACK_BASE + 8 };

	record_program(signal_rules, 4);
	record_stack(words, 2);
	struct unwind unwind = unwind_signal_at(&interrupted);

	EXPECT_EQ(STACK_END_COMPLETE, unwind.end, "the stack goes on, on another stack");
	EXPECT_EQ(3, unwind.frame_count, "trampoline, interrupted function, first function");
	EXPECT_EQ(RETURN_TO(1) - 1, recorded.frames[0].address, "the trampoline");
	EXPECT_EQ(FUNCTION(3), recorded.frames[1].address, "the interrupted function, exactly");
	EXPECT_EQ(TO_START - 1, recorded.frames[2].address, "its caller");
}

static const struct {
	const char *what;
	struct signal_registers registers;
	uint32_t end;
	uint32_t frames;
} signals[] = {
	{ "a pc in the kernel", { .rip = 0xffffffff81000000 }, STACK_END_NO_MAPPING, 2 },
	{ "a pc of 0", { .rip = 0 }, STACK_END_NO_MAPPING, 2 },
	{ "an sp that is no address",
	  { .rip = FUNCTION(0), .rsp = 1ULL << 63 },
	  STACK_END_FAULT,
	  2 },
	{ "an sp that is not aligned",
	  { .rip = FUNCTION(0), .rsp = STACK_BASE + 1 },
	  STACK_END_BAD_FRAME,
	  2 },
	{ "an sp that wraps", { .rip = FUNCTION(0), .rsp = UINT64_MAX - 3 }, STACK_END_FAULT, 2 },
};

TEST(hostile_signal_frames_end_the_stack)
{
	const uint64_t words[4] = { 0, TO_START };

	for EACH (c, signals) {
		record_program(signal_rules, 4);
		record_stack(words, 4);
		struct unwind unwind = unwind_signal_at(&c->registers);

		EXPECT_EQ(c->end, unwind.end, c->what);
		EXPECT_EQ(c->frames, unwind.frame_count, c->what);
	}
}

/* Signal frames may lead anywhere, also back to where the walk has been. */
TEST(a_cycle_of_signal_frames_ends)
{
	const struct signal_registers back = { .rip = RETURN_TO(1), .rsp = STACK_BASE + 0x100008 };

	record_program(signal_rules, 4);
	struct unwind unwind = unwind_signal_at(&back);
	EXPECT_EQ(STACK_END_DEPTH, unwind.end, "at the limit");
	EXPECT_EQ(STACK_DEPTH_MAX - 1, unwind.frame_count, "as many as there is room for");
}

TEST(an_unreadable_signal_frame_is_a_fault)
{
	const uint64_t words[] = { RETURN_TO(1), 0, 0, 0 };
	const uint64_t registers[UNWIND_REGISTERS] = { [RSP] = STACK_BASE };

	record_program(signal_rules, 4);
	record_stack(words, 4);
	EXPECT_EQ(STACK_END_FAULT, unwind_from(PC(0), registers).end, "half a frame");
}

/* ---- depth --------------------------------------------------------------------------------- */

static uint64_t deep[WORDS_MAX];

/* Function 1 has called itself until there are @callers, the last of which is the first function. */
static struct unwind unwind_deep(uint32_t callers)
{
	static const struct unwind_rule rules[] = { CALL(8), CALL(16) };
	const uint64_t registers[UNWIND_REGISTERS] = { [RSP] = STACK_BASE };

	record_program(rules, 2);
	memset(deep, 0, sizeof(deep));
	for (uint32_t i = 0; i < callers; i++)
		deep[2 * i] = i + 1 < callers ? RETURN_TO(1) : TO_START;
	record_stack(deep, WORDS_MAX);
	return unwind_from(PC(0), registers);
}

TEST(stacks_are_complete_up_to_the_depth_limit)
{
	struct unwind unwind = unwind_deep(STACK_DEPTH_MAX - 1);

	EXPECT_EQ(STACK_DEPTH_MAX - 1, unwind.frame_count, "as deep as it goes");
	EXPECT_EQ(STACK_END_COMPLETE, unwind.end, "as deep as it goes");

	unwind = unwind_deep(STACK_DEPTH_MAX);
	EXPECT_EQ(STACK_DEPTH_MAX - 1, unwind.frame_count, "one too deep");
	EXPECT_EQ(STACK_END_DEPTH, unwind.end, "one too deep");
}

static uint32_t draw(uint32_t *seed, uint32_t limit)
{
	*seed = *seed * 69069 + 1;
	return (*seed >> 16) % limit;
}

/* Frames of all sizes, so that they end anywhere in a chunk; some have saved an fp. */
static void record_chain(const struct unwind_rule *rules, uint32_t *seed)
{
	uint32_t callers = 1 + draw(seed, 30), function = 0, at = 0;

	memset(deep, 0, sizeof(deep));
	for (uint32_t i = 0; i < callers; i++) {
		const struct unwind_rule *rule = &rules[function];

		at += (rule->cfa == CFA_PLT ? 8 : rule->cfa_offset) / 8;
		if (at > WORDS_MAX)
			return; // cut: the stack ends in zeros
		if (rule->fp_offset)
			deep[at + rule->fp_offset / 8] = draw(seed, 1000);
		function = i + 1 < callers ? draw(seed, 4) : START;
		deep[at - 1] = RETURN_TO(function);
	}
}

TEST(cached_rules_find_the_same_callers)
{
	static const struct unwind_rule rules[] = {
		CALL(8),
		CALL(1040),
		{ .cfa = CFA_REGISTER, .cfa_register = RSP, .cfa_offset = 64, RETURN_AND_FP(-32) },
		{ .cfa = CFA_PLT, .cfa_register = RSP, .cfa_offset = 11, RETURN },
	};
	const uint64_t registers[UNWIND_REGISTERS] = { [RSP] = STACK_BASE };
	uint32_t seed = 7;

	for (int round = 0; round < 2000; round++) {
		static struct raw_frame frames[STACK_DEPTH_MAX];

		record_program(rules, 4);
		record_chain(rules, &seed);
		record_stack(deep, WORDS_MAX);
		struct unwind searched = unwind_from(PC(0), registers);
		memcpy(frames, recorded.frames, sizeof(frames));
		recorded.caches_rules = true;
		unwind_from(PC(0), registers);
		struct unwind cached = unwind_from(PC(0), registers);
		EXPECT_EQ(searched.end, cached.end, "end");
		EXPECT_EQ(searched.frame_count, cached.frame_count, "callers");
		assert_memory_equal(frames, recorded.frames, cached.frame_count * sizeof(*frames));
		assert_memory_equal(&searched.hasher, &cached.hasher, sizeof(cached.hasher));
	}
}

TEST(uses_cached_rules_without_their_table)
{
	static const struct unwind_rule rules[] = { CALL(8), CALL(16) };
	static const uint64_t words[12] = { RETURN_TO(1), 0, TO_START };
	const uint64_t callers[] = { RETURN_TO(1), TO_START };
	const uint64_t registers[UNWIND_REGISTERS] = { [RSP] = STACK_BASE };

	record_program(rules, 2);
	record_stack(words, 12);
	recorded.caches_rules = true;
	recorded.generation = 7;
	for (int i = 0; i < 2; i++) {
		struct unwind unwind = unwind_from(PC(0), registers);

		expect_callers(&unwind, callers, 2, i ? "again" : "at first");
		EXPECT_EQ(STACK_END_COMPLETE, unwind.end, "end");
		free(recorded.tables[0].pages);
		recorded.tables[0].pages = NULL;
	}

	recorded.generation = 8;
	struct unwind unwind = unwind_from(PC(0), registers);
	EXPECT_EQ(STACK_END_NO_TABLE, unwind.end, "published again, without a table");

	// One program has written the rule while another was about to write the rest.
	recorded.generation = 7;
	for EACH (known, recorded.known)
		known->ways[0].rule[1] ^= 1, known->ways[1].rule[1] ^= 1;
	unwind = unwind_from(PC(0), registers);
	EXPECT_EQ(STACK_END_NO_TABLE, unwind.end, "of two rules one half each");
}

/* A function that sets up its frame at byte 0x38, in the middle of a line of code; the rest of it is one rule. */
TEST(caches_rule_per_code_line)
{
	static const struct unwind_rule rules[] = { CALL(8), CALL(24) };
	static const struct recorded_row rows[] = { { 0, 0 }, { 0x38, 1 } };
	static const uint64_t words[12] = { TO_START, 0, TO_START };
	const uint64_t registers[UNWIND_REGISTERS] = { [RSP] = STACK_BASE };
	const struct {
		const char *what;
		uint64_t at;
		uint32_t frame_bytes; // 0: no rule is cached
	} lines[] = {
		{ "before the frame, cached alone", 0x10, 8 },
		{ "beside it", 0x11, 0 },
		{ "behind, in the same line", 0x39, 24 },
		{ "a line of one rule", 0x50, 24 },
		{ "the first byte of it", 0x40, 24 },
		{ "the last one", 0x7f, 24 },
		{ "the next line", 0x80, 0 },
	};
	static const uint64_t seen[] = { 0x10, 0x39, 0x50 };

	record_program(rules, 2);
	record_table(0, 1, rows, 2);
	record_stack(words, 12);
	recorded.caches_rules = true;
	recorded.generation = 7;
	for EACH (at, seen)
		unwind_from(CODE + *at, registers);
	free(recorded.tables[0].pages);
	recorded.tables[0].pages = NULL;
	for EACH (line, lines) {
		struct unwind unwind = { .process.generation = 7 };
		__u64 first, second;
		bool is_cached = unwind_find_cached_rule(&unwind, CODE + line->at, &first, &second);

		EXPECT_EQ(line->frame_bytes, is_cached ? first >> 32 : 0, line->what);
	}
}

TEST(stores_only_the_leaf_without_mappings)
{
	const uint64_t registers[UNWIND_REGISTERS] = { [RSP] = STACK_BASE };

	record_nothing();
	struct unwind unwind = unwind_from(PC(0), registers);
	EXPECT_EQ(STACK_END_NO_MAPPING, unwind.end, "nothing is published yet");
	EXPECT_EQ(0, unwind.frame_count, "no caller");
	EXPECT_EQ(PC(0), unwind.leaf.address, "the leaf");
}

/* ---- hashes -------------------------------------------------------------------------------- */

static bool same(struct stack_hash a, struct stack_hash b)
{
	return a.high == b.high && a.low == b.low;
}

static struct stack_hash hash_of_deep(uint32_t callers)
{
	struct unwind unwind = unwind_deep(callers);

	return stack_hash_finish(&unwind.hasher, unwind.frame_count, unwind.end);
}

TEST(hashes_the_frames_that_it_stores)
{
	assert_true(same(hash_of_deep(20), hash_of_deep(20)));
	assert_false(same(hash_of_deep(20), hash_of_deep(21)));
}

RUN_TESTS(cmocka_unit_test(each_rule_finds_the_caller_or_ends),
	  cmocka_unit_test(only_the_caller_of_clone_has_a_caller), cmocka_unit_test(marks_jit_code),
	  cmocka_unit_test(looks_return_addresses_up_at_the_call),
	  cmocka_unit_test(uses_return_addresses_that_uretprobes_replaced),
	  cmocka_unit_test(looks_the_leaf_up_at_its_pc),
	  cmocka_unit_test(a_plt_entry_pushes_a_word_midway),
	  cmocka_unit_test(a_signal_frame_restores_all_registers),
	  cmocka_unit_test(hostile_signal_frames_end_the_stack),
	  cmocka_unit_test(a_cycle_of_signal_frames_ends),
	  cmocka_unit_test(an_unreadable_signal_frame_is_a_fault),
	  cmocka_unit_test(stacks_are_complete_up_to_the_depth_limit),
	  cmocka_unit_test(cached_rules_find_the_same_callers),
	  cmocka_unit_test(uses_cached_rules_without_their_table),
	  cmocka_unit_test(caches_rule_per_code_line),
	  cmocka_unit_test(stores_only_the_leaf_without_mappings),
	  cmocka_unit_test(hashes_the_frames_that_it_stores))
