// SPDX-License-Identifier: Apache-2.0
// Python frames among native ones, in memory laid out as each version of CPython lays it out: who stands
// for which C frame of the loop, and what a hostile or half-written process may have there.

#include <errno.h>
#include <stddef.h>

#include "agent/python_layout.h"
#include "base/cleanup.h"

#define RECORDED_PYTHON
#include "tests/unit/agent/unwind_memory.h"

/* ---- the recorded process ----------------------------------------------------------------------- */

#define STACK 0x7ffd00000000ULL
#define HEAP  0x600000000000ULL
#define CODE  0x401000ULL

enum {
	FRAME_BYTES = 0x100, // of each native frame
	STACK_BYTES = 64 * FRAME_BYTES,
	HEAP_BYTES = 0x10000,
	FUNCTION_BYTES = TABLE_BLOCK_BYTES,
	CALLS_MAX = 32,

	// Places on the heap.
	THREAD_AT = 0x100, // the control block, where the thread pointer leads
	STATE_AT = 0x800,
	TYPE_AT = 0x1000, // PyCode_Type
	HOLDER_AT = 0x1100,
	TABLE_AT = 0x1200,  // of keys, or of modules
	BLOCK_AT = 0x1400,  // of thread-local variables
	COPIES_AT = 0x1600, // of code, for threads without the GIL
	MAIN_AT = 0x1800,   // pointer to the main interpreter
	OUTER_AT = 0x1900,  // a second state of the thread
	OTHER_AT = 0x1a00,  // a state of another thread
	INTERPRETER_AT = 0xc800,
	FRAMES_AT = 0x2000,
	FRAME_STEP = 0x100,
	CODES_AT = 0x8000,
	CODE_STEP = 0x200,

	// Places in a native frame of the loop.
	CFRAME_AT = 0x20,
	SHIM_AT = 0x60,
	KEY_AT = 0x318,
	COPY_INDEX = 2,
};

/* Functions of the program, each with one rule. */
enum function {
	FUNCTION_NATIVE,
	FUNCTION_LOOP,
	FUNCTION_OPCODE,
	FUNCTION_UNMARKED_LOOP, // a part of the loop that was not recognized
	FUNCTION_START,
	FUNCTIONS,
};

static struct {
	uint8_t stack[STACK_BYTES];
	uint8_t heap[HEAP_BYTES];
	struct python_layout layout;
	struct python_process process;
	uint32_t frame_count; // Python frames made
	uint32_t shim_count;
} fake;

/* Where the thread's state lies: below or above its stack. */
static uint64_t state_at = HEAP + STATE_AT;

static const struct python_offsets *python_offsets_at(__u32 runtime)
{
	return runtime == 1 ? &fake.layout.offsets : NULL;
}

static void put(uint64_t address, const void *bytes, size_t size)
{
	uint8_t *to =
		address >= STACK ? fake.stack + (address - STACK) : fake.heap + (address - HEAP);

	memcpy(to, bytes, size);
}

static void put_word(uint64_t address, uint64_t word)
{
	put(address, &word, sizeof(word));
}

static void put_int(uint64_t address, uint32_t value)
{
	put(address, &value, sizeof(value));
}

static uint64_t frame_address(uint32_t frame)
{
	return HEAP + FRAMES_AT + frame * FRAME_STEP;
}

static uint64_t code_address(uint32_t frame)
{
	return HEAP + CODES_AT + frame * CODE_STEP;
}

/* ---- interpreters ------------------------------------------------------------------------------- */

/* 3.13's words of _Py_DebugOffsets after the cookie; 3.14's differ as below. */
static const uint64_t words_313[] = { 0x30d00f0, 0,    283320, 608,  632, 194968, 7272, 7264, 7344,
				      7400,      7656, 7640,   7648, 16,  7752,   0,    7768, 7760,
				      304,       0,    8,      16,   72,  152,    160,  232,  32,
				      80,        8,    0,      56,   72,  70,     208,  112,  120,
				      128,       136,  68,     52,   96,  104,    200,  16,   8 };
static const uint64_t words_314t[] = {
	0x30e0af0, 1,   360000, 784, 808,  225864, 7280, 7272, 7344, 7360, 7408, 7688, 7672,
	7680,      16,  7784,   0,   7800, 7792,   7992, 8000, 832,  0,    8,    16,   72,
	152,       160, 232,    32,  88,   8,      0,    56,   80,   78,   64,   72,   240,
	128,       136, 144,    152, 84,   68,     112,  120,  232,  224,  32,   24
};

static void read_debug_offsets(const uint64_t *words, size_t count)
{
	uint8_t bytes[PYTHON_DEBUG_OFFSETS_BYTES] = "xdebugpy";

	memcpy(bytes + 8, words, count * sizeof(*words));
	assert_int_equal(0,
			 python_layout_of_debug_offsets(bytes, sizeof(bytes), &fake.layout, NULL));
}

/* 6 to 13, and 14: without the GIL, whose references have tags. */
static void choose_version(uint32_t minor)
{
	if (minor < 13)
		assert_int_equal(0, python_layout_of_version(minor, &fake.layout));
	else if (minor == 13)
		read_debug_offsets(words_313, ARRAY_SIZE(words_313));
	else
		read_debug_offsets(words_314t, ARRAY_SIZE(words_314t));
}

static void make_code(uint32_t frame)
{
	const struct python_offsets *offsets = &fake.layout.offsets;
	uint64_t head = code_address(frame) + offsets->code_start;

	put_word(head + offsets->code_type, HEAP + TYPE_AT);
	put_int(head + offsets->code_argcount, frame);
	put_int(head + offsets->code_kwonlyargcount, 0);
	put_int(head + offsets->code_flags, 3);
	put_int(head + offsets->code_firstlineno, 100 + frame);
}

static uint32_t index_of(uint32_t frame)
{
	return 5 + frame;
}

static uint32_t checksum_of(uint32_t frame)
{
	return python_checksum(frame, 0, 3, 100 + frame, 0, 0);
}

static void put_position(uint64_t start, uint32_t frame)
{
	const struct python_offsets *offsets = &fake.layout.offsets;
	uint64_t at = start + offsets->frame_position;

	switch (offsets->position) {
	case PYTHON_POSITION_BYTES:
		return put_int(at, 2 * index_of(frame));
	case PYTHON_POSITION_UNITS:
		return put_int(at, index_of(frame));
	}
	if (offsets->frame_tlbc == PYTHON_NO_FIELD)
		return put_word(at, code_address(frame) + offsets->code_instructions +
					    2 * index_of(frame));
	// Odd frames run a copy of their code.
	put_int(start + offsets->frame_tlbc, frame % 2 ? COPY_INDEX : 0);
	put_word(code_address(frame) + offsets->code_tlbc, HEAP + COPIES_AT);
	put_word(HEAP + COPIES_AT + 8 + 8 * COPY_INDEX, HEAP + COPIES_AT + 0x100);
	put_word(at, (frame % 2 ? HEAP + COPIES_AT + 0x100
				: code_address(frame) + offsets->code_instructions) +
			     2 * index_of(frame));
}

/* The next Python frame, leaf first; @is_entry: the last of its call. */
static void make_frame(bool is_entry, uint64_t previous)
{
	const struct python_offsets *offsets = &fake.layout.offsets;
	uint32_t frame = fake.frame_count++;
	uint64_t start = frame_address(frame) + offsets->frame_start;
	uint8_t owner = offsets->entry == PYTHON_ENTRY_FLAG && is_entry;
	uint64_t tag = offsets->reference_tag_bits ? 1 : 0;

	make_code(frame);
	put_word(start + offsets->frame_code, code_address(frame) | tag);
	put_word(start + offsets->frame_previous, previous);
	put_position(start, frame);
	if (offsets->frame_owner != PYTHON_NO_FIELD)
		put(start + offsets->frame_owner, &owner, 1);
}

/* ---- native calls ------------------------------------------------------------------------------- */

/* A native frame, and how many Python frames are its own. -1: just entered, nothing is linked yet. */
struct call {
	enum function function;
	int python;
};

static uint64_t stack_address(uint32_t call)
{
	return STACK + call * FRAME_BYTES;
}

static bool is_loop(const struct call *call)
{
	return (call->function == FUNCTION_LOOP || call->function == FUNCTION_UNMARKED_LOOP) &&
	       call->python >= 0;
}

/* Since 3.14 the list of frames ends with one in the thread's state. */
static uint64_t last_frame(void)
{
	const struct python_offsets *offsets = &fake.layout.offsets;
	uint64_t frame = state_at + 0x300;
	uint8_t owner = offsets->shim_owner + 1;

	if (offsets->minor < 14)
		return 0;
	put(frame + offsets->frame_owner, &owner, 1);
	return frame;
}

/* Where the frames of the calls from @at on begin: the first of them, or its shim. */
static uint64_t first_frame(const struct call *calls, uint32_t count, uint32_t at, uint32_t frame)
{
	for (; at < count; at++) {
		if (!is_loop(&calls[at]))
			continue;
		if (calls[at].python > 0)
			return frame_address(frame);
		if (fake.layout.offsets.entry == PYTHON_ENTRY_SHIM)
			return stack_address(at) + SHIM_AT;
	}
	return last_frame();
}

static uint64_t first_cframe(const struct call *calls, uint32_t count, uint32_t at)
{
	for (; at < count; at++) {
		if (is_loop(&calls[at]))
			return stack_address(at) + CFRAME_AT;
	}
	return state_at + 0x200; // in the thread's state: the list's end
}

static void make_links(const struct call *calls, uint32_t count, uint32_t at)
{
	const struct python_offsets *offsets = &fake.layout.offsets;
	uint64_t cframe = stack_address(at) + CFRAME_AT;
	uint64_t outer = first_frame(calls, count, at + 1, fake.frame_count + calls[at].python);

	if (offsets->state_cframe != PYTHON_NO_FIELD) {
		put_word(cframe + offsets->cframe_previous, first_cframe(calls, count, at + 1));
		if (offsets->cframe_frame != PYTHON_NO_FIELD)
			put_word(cframe + offsets->cframe_frame,
				 first_frame(calls, count, at, fake.frame_count));
	}
	for (int i = 0; i < calls[at].python; i++) {
		bool is_entry = i + 1 == calls[at].python;
		uint64_t shim = stack_address(at) + SHIM_AT;
		uint64_t next = frame_address(fake.frame_count + 1);

		if (is_entry)
			next = offsets->entry == PYTHON_ENTRY_SHIM ? shim : outer;
		make_frame(is_entry, next);
	}
	if (offsets->entry == PYTHON_ENTRY_SHIM) {
		uint64_t shim = stack_address(at) + SHIM_AT + offsets->frame_start;

		put_word(shim + offsets->frame_previous, outer);
		put_word(shim + offsets->frame_code, HEAP + TYPE_AT); // None, say
		put(shim + offsets->frame_owner, &offsets->shim_owner, 1);
		fake.shim_count++;
	}
}

/* Rules and one table: a frame of FRAME_BYTES wherever one is. */
static void record_program(void)
{
	static const struct recorded_row rows[] = {
		{ 0 * FUNCTION_BYTES, 1 }, { 1 * FUNCTION_BYTES, 2 }, { 2 * FUNCTION_BYTES, 3 },
		{ 3 * FUNCTION_BYTES, 1 }, { 4 * FUNCTION_BYTES, 4 },
	};
	const struct unwind_rule plain = { .cfa = CFA_REGISTER,
					   .cfa_register = X86_REGISTER_SP,
					   .cfa_offset = FRAME_BYTES,
					   .saved = SAVED_AT_CFA << 4,
					   .return_offset = -8 };

	record_nothing();
	recorded.rules[1] = recorded.rules[2] = recorded.rules[3] = plain;
	recorded.rules[2].flags = RULE_PYTHON_EVAL;
	recorded.rules[3].flags = RULE_PYTHON_EVAL | RULE_PYTHON_OPCODE;
	recorded.rules[4] = (struct unwind_rule){ .cfa = CFA_END };
	record_table(0, FUNCTIONS, rows, ARRAY_SIZE(rows));
	record_mapping(CODE, FUNCTIONS * FUNCTION_BYTES, CODE, MAPPING_CODE_TABLE);
	recorded.memories[0] = (struct recorded_memory){ STACK, fake.stack, sizeof(fake.stack) };
	recorded.memories[1] = (struct recorded_memory){ HEAP, fake.heap, sizeof(fake.heap) };
}

static void make_process(uint32_t minor, const struct call *calls, uint32_t count)
{
	memset(&fake, 0, sizeof(fake));
	choose_version(minor);
	record_program();
	for (uint32_t i = 0; i < count; i++) {
		enum function caller = i + 1 < count ? calls[i + 1].function : FUNCTION_START;

		put_word(stack_address(i + 1) - 8, CODE + caller * FUNCTION_BYTES + 0x20);
		if (is_loop(&calls[i]))
			make_links(calls, count, i);
	}
	if (fake.layout.offsets.state_frame != PYTHON_NO_FIELD)
		put_word(state_at + fake.layout.offsets.state_frame,
			 first_frame(calls, count, 0, 0));
	if (fake.layout.offsets.state_cframe != PYTHON_NO_FIELD)
		put_word(state_at + fake.layout.offsets.state_cframe,
			 first_cframe(calls, count, 0));
	put_word(HEAP + THREAD_AT + KEY_AT, state_at);
	fake.process = (struct python_process){
		.runtime = 1,
		.ways = PYTHON_WAY_KEY,
		.key_at = KEY_AT,
		.code_type = HEAP + TYPE_AT,
	};
}

static struct unwind walk(const struct call *calls)
{
	struct unwind unwind = {
		.pc = CODE + calls[0].function * FUNCTION_BYTES + 0x10,
		.exact_pc = 1,
		.thread_pointer = HEAP + THREAD_AT,
	};

	unwind.registers[X86_REGISTER_SP] = STACK;
	unwind.process.mapping_page_count = recorded.page_count;
	unwind.process.python = fake.process;
	unwind_begin(&unwind);
	for (recorded.steps = 0; recorded.steps++ < UNWIND_STEPS_MAX && !unwind_step(&unwind);)
		;
	return unwind;
}

/* The stack as letters, leaf first: a frame's number for Python's, n, L, O, U for native ones, s. */
static const char *text_of(const struct unwind *unwind)
{
	static char text[4 * CALLS_MAX];
	char *to = text;

	for (uint32_t i = 0; i <= unwind->frame_count && to < text + sizeof(text) - 8; i++) {
		const struct raw_frame *frame = i ? &recorded.frames[i - 1] : &unwind->leaf;

		if (frame->tag == FRAME_TAG_NATIVE)
			*to++ = "nLOUs"[(frame->address - CODE) / FUNCTION_BYTES % FUNCTIONS];
		else
			to += snprintf(to, 8, "%u",
				       (uint32_t)((frame->address - HEAP - CODES_AT) / CODE_STEP));
	}
	*to = '\0';
	return text;
}

/* ---- who stands for whom ------------------------------------------------------------------------ */

/*
 * Calls, leaf first: n: native code; a number: the loop with so many Python frames; E: the loop, just
 * entered; O: an opcode that is a function; U and a number: a part of the loop that is not marked.
 */
static uint32_t read_calls(const char *text, struct call calls[CALLS_MAX])
{
	uint32_t count = 0;

	for (; *text; text++) {
		struct call call = { FUNCTION_LOOP, *text - '0' };

		if (*text == 'n')
			call = (struct call){ FUNCTION_NATIVE, 0 };
		else if (*text == 'E')
			call = (struct call){ FUNCTION_LOOP, -1 };
		else if (*text == 'O')
			call = (struct call){ FUNCTION_OPCODE, 0 };
		else if (*text == 'U')
			call = (struct call){ FUNCTION_UNMARKED_LOOP, *++text - '0' };
		calls[count++] = call;
	}
	return count;
}

/* Make the process, as CPython 3.@minor would, and unwind it. */
static struct unwind unwind_calls(uint32_t minor, const char *text)
{
	struct call calls[CALLS_MAX];
	uint32_t count = read_calls(text, calls);

	make_process(minor, calls, count);
	return walk(calls);
}

static const struct {
	const char *what;
	uint32_t first_minor, last_minor;
	const char *calls, *stack;
} cases[] = {
	{ "no Python at all", 6, 14, "nn", "nns" },
	{ "the loop is the leaf", 6, 14, "1", "0s" },
	{ "one frame a call", 6, 14, "n1n1n", "n0n1ns" },
	{ "loop in loop", 6, 14, "11nn1", "01nn2s" },
	{ "a call of many frames", 11, 14, "n4n1n", "n0123n4ns" },
	{ "calls of many frames", 11, 14, "23n2", "01234n56s" },
	{ "just entered, by native code", 10, 14, "En1n", "Ln0ns" },
	{ "just entered, many frames above", 11, 14, "En31", "Ln0123s" },
	{ "just entered, the first of all", 10, 14, "En", "Lns" },
	{ "about to be left: its frames are gone", 12, 14, "0n2", "Ln01s" },
	{ "a part of the loop that nobody marked: its frames are not lost", 10, 14, "U1n1n1",
	  "Un01n2s" },
	{ "two such", 10, 14, "U1U1n1", "UUn012s" },
	{ "an opcode that is a function has its loop's frames", 13, 14, "O3n1", "012n3s" },
	{ "native code called by an opcode", 13, 14, "nO2nO1n", "n01n2ns" },
	{ "a loop that was just entered by an opcode", 13, 14, "EnO2n", "Ln01ns" },
	{ "an opcode whose frames are gone", 13, 14, "O0nO1", "OLn0s" },
};

TEST(python_frames_stand_for_the_loop_that_runs_them)
{
	for EACH (row, cases) {
		for (uint32_t minor = row->first_minor; minor <= row->last_minor; minor++) {
			struct unwind unwind = unwind_calls(minor, row->calls);
			char what[128];

			snprintf(what, sizeof(what), "3.%u: %s", minor, row->what);
			EXPECT_STR(row->stack, text_of(&unwind), what);
			EXPECT_EQ(END_TAG_COMPLETE, unwind.end, what);
		}
	}
}

TEST(frames_say_where_they_are_in_which_code)
{
	for (uint32_t minor = 6; minor <= 14; minor++) {
		struct unwind unwind = unwind_calls(minor, minor < 11 ? "1n1n1" : "n3");
		char what[16];

		snprintf(what, sizeof(what), "3.%u", minor);
		for (uint32_t i = 0, at = 0; i <= unwind.frame_count; i++) {
			const struct raw_frame *frame = i ? &recorded.frames[i - 1] : &unwind.leaf;

			if (frame->tag != FRAME_TAG_PYTHON)
				continue;
			EXPECT_EQ(index_of(at), PYTHON_DETAIL_INDEX(frame->detail), what);
			EXPECT_EQ(checksum_of(at), PYTHON_DETAIL_CHECKSUM(frame->detail), what);
			at++;
		}
	}
}

TEST(frames_that_were_taken_back_leave_no_trace_in_the_hash)
{
	for (uint32_t minor = 13; minor <= 14; minor++) {
		struct unwind tried = unwind_calls(minor, "nEn3n"), straight;
		struct raw_frame kept[8];

		memcpy(kept, recorded.frames, sizeof(kept));
		straight = tried;
		stack_hash_begin(&straight.hasher, &straight.process.key);
		for (uint32_t i = 0; i < tried.frame_count; i++)
			stack_hash_add(&straight.hasher, kept[i].address, kept[i].tag,
				       kept[i].detail);
		assert_int_equal(straight.hasher.high, tried.hasher.high);
		assert_int_equal(straight.hasher.low, tried.hasher.low);
	}
}

/* ---- ways to the thread's state ----------------------------------------------------------------- */

static const struct {
	const char *what;
	struct python_process process; // runtime and code_type are set
	struct {
		uint32_t at;
		uint64_t word;
	} words[4]; // on the heap
	const char *stack;
} ways[] = {
	{ "no way", { .ways = 0 }, { { 0 } }, "nLs" },
	{ "a key whose value is not set",
	  { .ways = PYTHON_WAY_KEY, .key_at = 0x40 },
	  { { 0 } },
	  "nLs" },
	{ "a key in a table",
	  { .ways = PYTHON_WAY_KEY | PYTHON_WAY_KEY_INSIDE, .key_at = 0x40, .key_inside = 24 },
	  { { THREAD_AT + 0x40, HEAP + TABLE_AT }, { TABLE_AT + 24, HEAP + STATE_AT } },
	  "n0s" },
	{ "a table that is not there yet",
	  { .ways = PYTHON_WAY_KEY | PYTHON_WAY_KEY_INSIDE, .key_at = 0x40, .key_inside = 24 },
	  { { 0 } },
	  "nLs" },
	{ "a variable at a fixed place",
	  { .ways = PYTHON_WAY_TLS, .tls_at = -0x40, .tls_also_at = -0x40 },
	  { { THREAD_AT - 0x40, HEAP + STATE_AT } },
	  "n0s" },
	{ "a variable of a module",
	  { .ways = PYTHON_WAY_TLS | PYTHON_WAY_TLS_DYNAMIC,
	    .dtv_at = 8,
	    .dtv_inside = 32,
	    .tls_at = 16,
	    .tls_also_at = 16 },
	  { { THREAD_AT + 8, HEAP + TABLE_AT },
	    { TABLE_AT + 32, HEAP + BLOCK_AT },
	    { BLOCK_AT + 16, HEAP + STATE_AT } },
	  "n0s" },
	{ "the second of two variables",
	  { .ways = PYTHON_WAY_TLS | PYTHON_WAY_TLS_DYNAMIC,
	    .dtv_at = 8,
	    .dtv_inside = 32,
	    .tls_at = 24,
	    .tls_also_at = 16 },
	  { { THREAD_AT + 8, HEAP + TABLE_AT },
	    { TABLE_AT + 32, HEAP + BLOCK_AT },
	    { BLOCK_AT + 16, HEAP + STATE_AT } },
	  "n0s" },
	{ "a module without a block",
	  { .ways = PYTHON_WAY_TLS | PYTHON_WAY_TLS_DYNAMIC, .dtv_at = 8, .dtv_inside = 32 },
	  { { THREAD_AT + 8, HEAP + TABLE_AT } },
	  "nLs" },
	{ "the variable where the key is not set",
	  { .ways = PYTHON_WAY_KEY | PYTHON_WAY_TLS, .key_at = 0x48, .tls_at = 0x40 },
	  { { THREAD_AT + 0x40, HEAP + STATE_AT } },
	  "n0s" },
	{ "the holder of the GIL, which is this thread",
	  { .ways = PYTHON_WAY_HOLDER, .holder = HEAP + HOLDER_AT },
	  { { HOLDER_AT, HEAP + STATE_AT }, { STATE_AT + 176, HEAP + THREAD_AT } },
	  "n0s" },
	{ "the holder of the GIL, which is another thread",
	  { .ways = PYTHON_WAY_HOLDER, .holder = HEAP + HOLDER_AT },
	  { { HOLDER_AT, HEAP + STATE_AT }, { STATE_AT + 176, HEAP + THREAD_AT + 8 } },
	  "nLs" },
	{ "a key that leads out of memory",
	  { .ways = PYTHON_WAY_KEY, .key_at = 0x40 },
	  { { THREAD_AT + 0x40, ~0ULL - 7 } },
	  "nLs" },
	{ "a key that leads to what is no thread state",
	  { .ways = PYTHON_WAY_KEY, .key_at = 0x40 },
	  { { THREAD_AT + 0x40, HEAP + TYPE_AT } },
	  "nLs" },
};

TEST(the_thread_leads_to_its_frames_or_the_native_stack_is_kept)
{
	for EACH (row, ways) {
		struct call calls[CALLS_MAX];
		uint32_t count = read_calls("n1", calls);
		struct unwind unwind;

		make_process(9, calls, count);
		fake.process = row->process;
		fake.process.runtime = 1;
		fake.process.code_type = HEAP + TYPE_AT;
		for EACH (word, row->words) {
			if (word->at)
				put_word(HEAP + word->at, word->word);
		}
		unwind = walk(calls);
		EXPECT_STR(row->stack, text_of(&unwind), row->what);
		EXPECT_EQ(END_TAG_COMPLETE, unwind.end, row->what);
	}
}

/* ---- more than one state of a thread ------------------------------------------------------------ */

static void put_state(uint64_t at, uint64_t thread, uint64_t next)
{
	put_word(HEAP + at + fake.layout.offsets.state_thread, thread);
	put_word(HEAP + at + fake.layout.offsets.state_next, next);
}

/* The main interpreter's threads: another one, this one with the state the key knows, and once more. */
static void make_list(void)
{
	put_word(HEAP + MAIN_AT, HEAP + INTERPRETER_AT);
	put_word(HEAP + INTERPRETER_AT + fake.layout.offsets.interpreter_threads, HEAP + OTHER_AT);
	put_state(OTHER_AT, HEAP + THREAD_AT + 8, state_at);
	put_state(state_at - HEAP, HEAP + THREAD_AT, HEAP + OUTER_AT);
	put_state(OUTER_AT, HEAP + THREAD_AT, 0);
	fake.process.ways |= PYTHON_WAY_LIST;
	fake.process.interpreter = HEAP + MAIN_AT;
}

/* Of "n1n1n": the inner call runs in another interpreter, and knows nothing of the outer one. */
static void cut_calls(void)
{
	const struct python_offsets *offsets = &fake.layout.offsets;
	uint64_t inner = frame_address(0) + offsets->frame_start;
	uint64_t shim = stack_address(1) + SHIM_AT + offsets->frame_start;
	uint64_t outer = frame_address(1);

	put_word((offsets->entry == PYTHON_ENTRY_SHIM ? shim : inner) + offsets->frame_previous,
		 last_frame());
	if (offsets->state_cframe != PYTHON_NO_FIELD) {
		put_word(stack_address(1) + CFRAME_AT + offsets->cframe_previous, state_at + 0x200);
		put_word(HEAP + OUTER_AT + offsets->state_cframe, stack_address(3) + CFRAME_AT);
	}
	if (offsets->state_frame != PYTHON_NO_FIELD)
		put_word(HEAP + OUTER_AT + offsets->state_frame, outer);
}

static void outer_interpreters_are_found(void)
{
	for (uint32_t minor = 6; minor <= 14; minor++) {
		struct call calls[CALLS_MAX];
		uint32_t count = read_calls("n1n1n", calls);
		struct unwind unwind;
		char what[16];

		snprintf(what, sizeof(what), "3.%u", minor);
		make_process(minor, calls, count);
		cut_calls();
		unwind = walk(calls);
		EXPECT_STR("n0nLns", text_of(&unwind), what);
		make_list();
		unwind = walk(calls);
		EXPECT_STR("n0n1ns", text_of(&unwind), what);
		EXPECT_EQ(END_TAG_COMPLETE, unwind.end, what);
	}
}

TEST(outer_interpreters_are_found_by_the_list_of_threads)
{
	outer_interpreters_are_found();
}

/* Its last link or frame is then above all C frames, where those of outer calls are. */
TEST(a_state_above_the_stack_is_no_call_of_the_loop)
{
	state_at = STACK + STACK_BYTES - 0x800;
	outer_interpreters_are_found();
	state_at = HEAP + STATE_AT;
}

TEST(threads_may_be_named_otherwise_than_by_the_thread_pointer)
{
	struct call calls[CALLS_MAX];
	uint32_t count = read_calls("n1n1n", calls);
	struct unwind unwind;

	make_process(13, calls, count);
	cut_calls();
	make_list();
	put_state(OUTER_AT, HEAP + THREAD_AT - 0x40, 0);
	unwind = walk(calls);
	assert_string_equal("n0nLns", text_of(&unwind));
	fake.process.self_at = -0x40;
	unwind = walk(calls);
	assert_string_equal("n0n1ns", text_of(&unwind));
}

TEST(the_list_of_threads_is_the_last_way_to_a_state)
{
	for (uint32_t minor = 6; minor <= 14; minor++) {
		struct call calls[CALLS_MAX];
		uint32_t count = read_calls("n1n1n", calls);
		struct unwind unwind;
		char what[16];

		snprintf(what, sizeof(what), "3.%u", minor);
		make_process(minor, calls, count);
		fake.process.ways = 0;
		make_list();
		unwind = walk(calls);
		EXPECT_STR("n0n1ns", text_of(&unwind), what);
	}
}

TEST(a_list_of_threads_without_end_ends)
{
	struct call calls[CALLS_MAX];
	uint32_t count = read_calls("n1n1n", calls);
	struct unwind unwind;

	make_process(13, calls, count);
	cut_calls();
	make_list();
	put_state(OTHER_AT, HEAP + THREAD_AT + 8, HEAP + OTHER_AT);
	unwind = walk(calls);
	assert_string_equal("n0nLns", text_of(&unwind));
	assert_int_equal(END_TAG_PYTHON, unwind.end); // nobody has seen them all
	put_state(OTHER_AT, HEAP + THREAD_AT + 8, ~0ULL - 7);
	unwind = walk(calls);
	assert_string_equal("n0nLns", text_of(&unwind));
}

/* ---- damage ------------------------------------------------------------------------------------- */

enum damage {
	CODE_UNREADABLE,
	CODE_OF_ANOTHER_TYPE,
	TRAMPOLINE,
	FRAME_UNREADABLE,
	FRAME_IN_A_CIRCLE,
	RUNTIME_UNKNOWN,
	POSITION_BEFORE_THE_FIRST,
	POSITION_BEFORE_THE_CODE,
	POSITION_FAR_AWAY,
	TYPE_UNKNOWN,
};

static const struct {
	const char *what;
	enum damage damage; // of the second of three frames
	const char *stack;
	enum end_tag end;
	uint32_t index, checksum; // of the second frame; 0: not looked at
} damages[] = {
	{ "a code object that is not in memory", CODE_UNREADABLE, "n0", END_TAG_COMPLETE, 0, 0 },
	{ "code that is no code object", CODE_OF_ANOTHER_TYPE, "n02s", END_TAG_COMPLETE, 0, 0 },
	{ "code of the interpreter's own", TRAMPOLINE, "n02s", END_TAG_COMPLETE, 0, 0 },
	{ "a frame that is not in memory", FRAME_UNREADABLE, "n0s", END_TAG_PYTHON, 0, 0 },
	{ "an interpreter that nobody described", RUNTIME_UNKNOWN, "nLs", END_TAG_COMPLETE, 0, 0 },
	{ "a function that has not begun", POSITION_BEFORE_THE_FIRST, "n012s", END_TAG_COMPLETE, 0,
	  1 },
	{ "a position before its code", POSITION_BEFORE_THE_CODE, "n012s", END_TAG_COMPLETE,
	  PYTHON_INDEX_MAX, 1 },
	{ "a position far behind its code", POSITION_FAR_AWAY, "n012s", END_TAG_COMPLETE,
	  PYTHON_INDEX_MAX, 1 },
	{ "a type that nobody knows", TYPE_UNKNOWN, "n012s", END_TAG_COMPLETE, 6, 1 },
};

static void do_damage(enum damage damage)
{
	const struct python_offsets *offsets = &fake.layout.offsets;
	uint64_t frame = frame_address(1) + offsets->frame_start;
	uint64_t first = frame_address(0) + offsets->frame_start;
	uint64_t instructions = code_address(1) + offsets->code_instructions;

	switch (damage) {
	case CODE_UNREADABLE:
		return put_word(frame + offsets->frame_code, HEAP + HEAP_BYTES - 16);
	case CODE_OF_ANOTHER_TYPE:
		return put_word(code_address(1) + offsets->code_start + offsets->code_type, HEAP);
	case TRAMPOLINE:
		put_int(code_address(1) + offsets->code_start + offsets->code_flags, 0x2000001);
		return put_int(code_address(1) + offsets->code_start + offsets->code_firstlineno,
			       0);
	case FRAME_UNREADABLE:
		return put_word(first + offsets->frame_previous, HEAP + HEAP_BYTES - 16);
	case FRAME_IN_A_CIRCLE:
		return put_word(frame + offsets->frame_previous, frame_address(0));
	case RUNTIME_UNKNOWN:
		fake.process.runtime = 2;
		return;
	case POSITION_BEFORE_THE_FIRST:
		return put_word(frame + offsets->frame_position, instructions - 2);
	case POSITION_BEFORE_THE_CODE:
		return put_word(frame + offsets->frame_position, instructions - 200);
	case POSITION_FAR_AWAY:
		return put_word(frame + offsets->frame_position, instructions + (1 << 24));
	case TYPE_UNKNOWN:
		fake.process.code_type = 0;
		return put_word(code_address(1) + offsets->code_start + offsets->code_type, HEAP);
	}
}

TEST(what_is_damaged_costs_python_frames_only)
{
	for EACH (row, damages) {
		struct call calls[CALLS_MAX];
		uint32_t count = read_calls("n3", calls);
		struct unwind unwind;

		make_process(13, calls, count);
		do_damage(row->damage);
		unwind = walk(calls);
		if (row->damage == CODE_UNREADABLE) {
			// It is kept without a checksum: somebody else may be able to read it.
			assert_int_equal(HEAP + HEAP_BYTES - 16, recorded.frames[1].address);
			assert_int_equal(0, PYTHON_DETAIL_CHECKSUM(recorded.frames[1].detail));
			continue;
		}
		EXPECT_STR(row->stack, text_of(&unwind), row->what);
		EXPECT_EQ(row->end, unwind.end, row->what);
		if (!row->checksum)
			continue;
		EXPECT_EQ(row->index, PYTHON_DETAIL_INDEX(recorded.frames[1].detail), row->what);
		EXPECT_EQ(checksum_of(1), PYTHON_DETAIL_CHECKSUM(recorded.frames[1].detail),
			  row->what);
	}
}

TEST(frames_in_a_circle_end_at_the_limit)
{
	for (uint32_t minor = 11; minor <= 14; minor++) {
		struct call calls[CALLS_MAX];
		uint32_t count = read_calls("n3", calls);
		struct unwind unwind;

		make_process(minor, calls, count);
		do_damage(FRAME_IN_A_CIRCLE);
		unwind = walk(calls);
		assert_int_equal(END_TAG_DEPTH, unwind.end);
		assert_true(unwind.frame_count < STACK_DEPTH_MAX);
	}
}

/* Noise over all that the process can write: every walk ends, and reads what it may only. */
TEST(noise_ends)
{
	uint32_t random = 1;

	for (uint32_t round = 0; round < 20000; round++) {
		uint32_t minor = 6 + round % 9;
		struct call calls[CALLS_MAX];
		uint32_t count = read_calls(minor < 11 ? "n1n11n" : "n2nO3E1", calls);

		make_process(minor, calls, count);
		for (uint32_t i = 0; i < 1 + round % 20; i++) {
			random = random * 1664525 + 1013904223;
			fake.heap[random % 0xa000] = (uint8_t)(random >> 24);
			fake.stack[random % (8 * FRAME_BYTES)] ^= (uint8_t)(random >> 16);
		}
		walk(calls);
		assert_true(recorded.steps <= UNWIND_STEPS_MAX + 1);
	}
}

RUN_TESTS(cmocka_unit_test(python_frames_stand_for_the_loop_that_runs_them),
	  cmocka_unit_test(frames_say_where_they_are_in_which_code),
	  cmocka_unit_test(frames_that_were_taken_back_leave_no_trace_in_the_hash),
	  cmocka_unit_test(the_thread_leads_to_its_frames_or_the_native_stack_is_kept),
	  cmocka_unit_test(outer_interpreters_are_found_by_the_list_of_threads),
	  cmocka_unit_test(a_state_above_the_stack_is_no_call_of_the_loop),
	  cmocka_unit_test(threads_may_be_named_otherwise_than_by_the_thread_pointer),
	  cmocka_unit_test(the_list_of_threads_is_the_last_way_to_a_state),
	  cmocka_unit_test(a_list_of_threads_without_end_ends),
	  cmocka_unit_test(what_is_damaged_costs_python_frames_only),
	  cmocka_unit_test(frames_in_a_circle_end_at_the_limit), cmocka_unit_test(noise_ends))
