// SPDX-License-Identifier: Apache-2.0
// The ways from a thread to its states in the interpreter, and stacks without one.
// Subject: bpf/unwind/unwind_python.h

#include "tests/unit/agent/python/python_stack.h"

/* ---- ways to the thread's state ----------------------------------------------------------------- */

static const struct {
	const char *what;
	struct python_process process; // runtime and code_type are set
	struct {
		uint32_t at;
		uint64_t word;
	} words[4]; // on the heap
	const char *stack;
	enum stack_end end;
} ways[] = {
	{ "no way", { .ways = 0 }, { { 0 } }, "nLs", STACK_END_PYTHON },
	{ "a key whose value is not set",
	  { .ways = PYTHON_WAY_KEY, .key_at = 0x40 },
	  { { 0 } },
	  "nLs",
	  STACK_END_PYTHON },
	{ "a key in a table",
	  { .ways = PYTHON_WAY_KEY | PYTHON_WAY_KEY_INSIDE, .key_at = 0x40, .key_inside = 24 },
	  { { THREAD_AT + 0x40, HEAP + TABLE_AT }, { TABLE_AT + 24, HEAP + STATE_AT } },
	  "n0s",
	  STACK_END_COMPLETE },
	{ "a table that is not there yet",
	  { .ways = PYTHON_WAY_KEY | PYTHON_WAY_KEY_INSIDE, .key_at = 0x40, .key_inside = 24 },
	  { { 0 } },
	  "nLs",
	  STACK_END_PYTHON },
	{ "a variable at a fixed place",
	  { .ways = PYTHON_WAY_TLS, .tls_at = -0x40, .tls_also_at = -0x40 },
	  { { THREAD_AT - 0x40, HEAP + STATE_AT } },
	  "n0s",
	  STACK_END_COMPLETE },
	{ "a variable of a module",
	  { .ways = PYTHON_WAY_TLS | PYTHON_WAY_TLS_DYNAMIC,
	    .dtv_at = 8,
	    .dtv_inside = 32,
	    .tls_at = 16,
	    .tls_also_at = 16 },
	  { { THREAD_AT + 8, HEAP + TABLE_AT },
	    { TABLE_AT + 32, HEAP + BLOCK_AT },
	    { BLOCK_AT + 16, HEAP + STATE_AT } },
	  "n0s",
	  STACK_END_COMPLETE },
	{ "the second of two variables",
	  { .ways = PYTHON_WAY_TLS | PYTHON_WAY_TLS_DYNAMIC,
	    .dtv_at = 8,
	    .dtv_inside = 32,
	    .tls_at = 24,
	    .tls_also_at = 16 },
	  { { THREAD_AT + 8, HEAP + TABLE_AT },
	    { TABLE_AT + 32, HEAP + BLOCK_AT },
	    { BLOCK_AT + 16, HEAP + STATE_AT } },
	  "n0s",
	  STACK_END_COMPLETE },
	{ "a module without a block",
	  { .ways = PYTHON_WAY_TLS | PYTHON_WAY_TLS_DYNAMIC, .dtv_at = 8, .dtv_inside = 32 },
	  { { THREAD_AT + 8, HEAP + TABLE_AT } },
	  "nLs",
	  STACK_END_PYTHON },
	{ "the variable where the key is not set",
	  { .ways = PYTHON_WAY_KEY | PYTHON_WAY_TLS, .key_at = 0x48, .tls_at = 0x40 },
	  { { THREAD_AT + 0x40, HEAP + STATE_AT } },
	  "n0s",
	  STACK_END_COMPLETE },
	{ "the holder of the GIL, which is this thread",
	  { .ways = PYTHON_WAY_HOLDER, .holder = HEAP + HOLDER_AT },
	  { { HOLDER_AT, HEAP + STATE_AT }, { STATE_AT + 176, HEAP + THREAD_AT } },
	  "n0s",
	  STACK_END_COMPLETE },
	{ "the holder of the GIL, which is another thread",
	  { .ways = PYTHON_WAY_HOLDER, .holder = HEAP + HOLDER_AT },
	  { { HOLDER_AT, HEAP + STATE_AT }, { STATE_AT + 176, HEAP + THREAD_AT + 8 } },
	  "nLs",
	  STACK_END_PYTHON },
	{ "a key that leads out of memory",
	  { .ways = PYTHON_WAY_KEY, .key_at = 0x40 },
	  { { THREAD_AT + 0x40, ~0ULL - 7 } },
	  "nLs",
	  STACK_END_COMPLETE },
	{ "a key that leads to what is no thread state",
	  { .ways = PYTHON_WAY_KEY, .key_at = 0x40 },
	  { { THREAD_AT + 0x40, HEAP + TYPE_AT } },
	  "nLs",
	  STACK_END_COMPLETE },
};

TEST(finds_python_frames_or_reports_their_lack)
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
		EXPECT_EQ(row->end, unwind.end, row->what);
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
		EXPECT_EQ(STACK_END_COMPLETE, unwind.end, what);
	}
}

TEST(finds_outer_interpreters_by_the_thread_list)
{
	outer_interpreters_are_found();
}

/* Its last link or frame is then above all C frames, where those of outer calls are. */
TEST(ignores_a_state_above_the_stack)
{
	state_at = STACK + STACK_BYTES - 0x800;
	outer_interpreters_are_found();
	state_at = HEAP + STATE_AT;
}

TEST(finds_threads_by_pthread_self)
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

TEST(searches_the_thread_list_last)
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

TEST(bounds_an_endless_thread_list)
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
	assert_int_equal(STACK_END_PYTHON, unwind.end); // the list was not read to its end
	put_state(OTHER_AT, HEAP + THREAD_AT + 8, ~0ULL - 7);
	unwind = walk(calls);
	assert_string_equal("n0nLns", text_of(&unwind));
}

RUN_TESTS(cmocka_unit_test(finds_python_frames_or_reports_their_lack),
	  cmocka_unit_test(finds_outer_interpreters_by_the_thread_list),
	  cmocka_unit_test(ignores_a_state_above_the_stack),
	  cmocka_unit_test(finds_threads_by_pthread_self),
	  cmocka_unit_test(searches_the_thread_list_last),
	  cmocka_unit_test(bounds_an_endless_thread_list))
