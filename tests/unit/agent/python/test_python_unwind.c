// SPDX-License-Identifier: Apache-2.0
// Python frames among native ones: which stand for which C frame of the loop, and frames of hostile or
// half-written memory.
// Subject: bpf/unwind/unwind_python.h

#include "tests/unit/agent/python/python_stack.h"

/* ---- frames of the loop - ------------------------------------------------------------------------ */

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

TEST(python_frames_stand_for_their_loop)
{
	for EACH (row, cases) {
		for (uint32_t minor = row->first_minor; minor <= row->last_minor; minor++) {
			struct unwind unwind = unwind_calls(minor, row->calls);
			char what[128];

			snprintf(what, sizeof(what), "3.%u: %s", minor, row->what);
			EXPECT_STR(row->stack, text_of(&unwind), what);
			EXPECT_EQ(STACK_END_COMPLETE, unwind.end, what);
		}
	}
}

TEST(frames_have_code_object_and_position)
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

TEST(dropped_frames_leave_the_hash_unchanged)
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

/* ---- damage ------------------------------------------------------------------------------------- */

enum damage {
	CODE_UNREADABLE,
	CODE_OF_ANOTHER_TYPE,
	TRAMPOLINE,
	FRAME_UNREADABLE,
	FRAME_IN_A_CIRCLE,
	RUNTIME_UNKNOWN,
	RUNTIME_UNPUBLISHED,
	POSITION_BEFORE_THE_FIRST,
	POSITION_BEFORE_THE_CODE,
	POSITION_FAR_AWAY,
	TYPE_UNKNOWN,
};

static const struct {
	const char *what;
	enum damage damage; // of the second of three frames
	const char *stack;
	enum stack_end end;
	uint32_t index, checksum; // of the second frame; 0: not looked at
} damages[] = {
	{ "a code object that is not in memory", CODE_UNREADABLE, "n0", STACK_END_COMPLETE, 0, 0 },
	{ "code that is no code object", CODE_OF_ANOTHER_TYPE, "n02s", STACK_END_COMPLETE, 0, 0 },
	{ "code of the interpreter's own", TRAMPOLINE, "n02s", STACK_END_COMPLETE, 0, 0 },
	{ "a frame that is not in memory", FRAME_UNREADABLE, "n0s", STACK_END_PYTHON, 0, 0 },
	{ "an interpreter that nobody described", RUNTIME_UNKNOWN, "nLs", STACK_END_PYTHON, 0, 0 },
	{ "an interpreter that is not published yet", RUNTIME_UNPUBLISHED, "nLs", STACK_END_PYTHON,
	  0, 0 },
	{ "a function that has not begun", POSITION_BEFORE_THE_FIRST, "n012s", STACK_END_COMPLETE,
	  0, 1 },
	{ "a position before its code", POSITION_BEFORE_THE_CODE, "n012s", STACK_END_COMPLETE,
	  PYTHON_INDEX_MAX, 1 },
	{ "a position far behind its code", POSITION_FAR_AWAY, "n012s", STACK_END_COMPLETE,
	  PYTHON_INDEX_MAX, 1 },
	{ "a type that nobody knows", TYPE_UNKNOWN, "n012s", STACK_END_COMPLETE, 6, 1 },
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
	case RUNTIME_UNPUBLISHED:
		fake.process.runtime = 0;
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

TEST(damage_costs_python_frames_only)
{
	for EACH (row, damages) {
		struct call calls[CALLS_MAX];
		uint32_t count = read_calls("n3", calls);
		struct unwind unwind;

		make_process(13, calls, count);
		do_damage(row->damage);
		unwind = walk(calls);
		if (row->damage == CODE_UNREADABLE) {
			// It is kept without a checksum: the agent may be able to read it.
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

TEST(bounds_circular_frames)
{
	for (uint32_t minor = 11; minor <= 14; minor++) {
		struct call calls[CALLS_MAX];
		uint32_t count = read_calls("n3", calls);
		struct unwind unwind;

		make_process(minor, calls, count);
		do_damage(FRAME_IN_A_CIRCLE);
		unwind = walk(calls);
		assert_int_equal(STACK_END_DEPTH, unwind.end);
		assert_true(unwind.frame_count < STACK_DEPTH_MAX);
	}
}

/* Noise in all writable memory: every walk ends, and reads only what it may. */
TEST(survives_noise)
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

/* ---- frames one after the other ----------------------------------------------------------------- */

TEST(stacked_frames_are_read_in_pieces)
{
	frames_are_stacked = true;
	python_frames_stand_for_their_loop(state);
	frames_have_code_object_and_position(state);
	damage_costs_python_frames_only(state);

	recorded.reads = 0;
	unwind_calls(13, "n9n");
	uint32_t reads = recorded.reads;

	frames_are_stacked = false;
	recorded.reads = 0;
	unwind_calls(13, "n9n");
	assert_true(reads + 5 <= recorded.reads);
}

RUN_TESTS(cmocka_unit_test(python_frames_stand_for_their_loop),
	  cmocka_unit_test(frames_have_code_object_and_position),
	  cmocka_unit_test(dropped_frames_leave_the_hash_unchanged),
	  cmocka_unit_test(damage_costs_python_frames_only),
	  cmocka_unit_test(bounds_circular_frames), cmocka_unit_test(survives_noise),
	  cmocka_unit_test(stacked_frames_are_read_in_pieces))
