// SPDX-License-Identifier: Apache-2.0
// A recorded process with Python frames among native ones, in memory laid out as each version of CPython
// lays it out, and its stack as letters.
#pragma once

#include <errno.h>
#include <stddef.h>

#include "agent/python/python_layout.h"
#include "base/cleanup.h"

#define RECORDED_PYTHON
#include "tests/unit/bpf/unwind/unwind_memory.h"

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
	FRAMES_MAX = 64,
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

static inline void put(uint64_t address, const void *bytes, size_t size)
{
	uint8_t *to =
		address >= STACK ? fake.stack + (address - STACK) : fake.heap + (address - HEAP);

	memcpy(to, bytes, size);
}

static inline void put_word(uint64_t address, uint64_t word)
{
	put(address, &word, sizeof(word));
}

static inline void put_int(uint64_t address, uint32_t value)
{
	put(address, &value, sizeof(value));
}

/* As since 3.11: callers below. Else scattered, as objects of their own are. */
static bool frames_are_stacked;

static inline uint64_t frame_address(uint32_t frame)
{
	uint32_t at = frames_are_stacked ? FRAMES_MAX - 1 - frame : frame * 5 % FRAMES_MAX;

	return HEAP + FRAMES_AT + at * FRAME_STEP;
}

static inline uint64_t code_address(uint32_t frame)
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

static inline void read_debug_offsets(const uint64_t *words, size_t count)
{
	uint8_t bytes[PYTHON_DEBUG_OFFSETS_BYTES] = "xdebugpy";

	memcpy(bytes + 8, words, count * sizeof(*words));
	assert_int_equal(0,
			 python_layout_of_debug_offsets(bytes, sizeof(bytes), &fake.layout, NULL));
}

/* 6 to 13, and 14: without the GIL, whose references have tags. */
static inline void choose_version(uint32_t minor)
{
	if (minor < 13)
		assert_int_equal(0, python_layout_of_version(minor, &fake.layout));
	else if (minor == 13)
		read_debug_offsets(words_313, ARRAY_SIZE(words_313));
	else
		read_debug_offsets(words_314t, ARRAY_SIZE(words_314t));
}

static inline void make_code(uint32_t frame)
{
	const struct python_offsets *offsets = &fake.layout.offsets;
	uint64_t head = code_address(frame) + offsets->code_start;

	put_word(head + offsets->code_type, HEAP + TYPE_AT);
	put_int(head + offsets->code_argcount, frame);
	put_int(head + offsets->code_kwonlyargcount, 0);
	put_int(head + offsets->code_flags, 3);
	put_int(head + offsets->code_firstlineno, 100 + frame);
}

static inline uint32_t index_of(uint32_t frame)
{
	return 5 + frame;
}

static inline uint32_t checksum_of(uint32_t frame)
{
	return python_checksum(frame, 0, 3, 100 + frame, 0, 0);
}

static inline void put_position(uint64_t start, uint32_t frame)
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
static inline void make_frame(bool is_entry, uint64_t previous)
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

static inline uint64_t stack_address(uint32_t call)
{
	return STACK + call * FRAME_BYTES;
}

static inline bool is_loop(const struct call *call)
{
	return (call->function == FUNCTION_LOOP || call->function == FUNCTION_UNMARKED_LOOP) &&
	       call->python >= 0;
}

/* Since 3.14 the list of frames ends with one in the thread's state. */
static inline uint64_t last_frame(void)
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
static inline uint64_t first_frame(const struct call *calls, uint32_t count, uint32_t at,
				   uint32_t frame)
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

static inline uint64_t first_cframe(const struct call *calls, uint32_t count, uint32_t at)
{
	for (; at < count; at++) {
		if (is_loop(&calls[at]))
			return stack_address(at) + CFRAME_AT;
	}
	return state_at + 0x200; // in the thread's state: the list's end
}

static inline void make_links(const struct call *calls, uint32_t count, uint32_t at)
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
static inline void record_program(void)
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

static inline void make_process(uint32_t minor, const struct call *calls, uint32_t count)
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

static inline struct unwind walk(const struct call *calls)
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

/*
 * Calls, leaf first: n: native code; a number: the loop with so many Python frames; E: the loop, just
 * entered; O: an opcode that is a function; U and a number: a part of the loop that is not marked.
 */
static inline uint32_t read_calls(const char *text, struct call calls[CALLS_MAX])
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
static inline struct unwind unwind_calls(uint32_t minor, const char *text)
{
	struct call calls[CALLS_MAX];
	uint32_t count = read_calls(text, calls);

	make_process(minor, calls, count);
	recorded.caches_rules = true; // the second walk is by cached rules
	walk(calls);
	return walk(calls);
}
