// SPDX-License-Identifier: Apache-2.0
// States of frames get numbers, and keep them.

#include "tests/test.h"

#include "agent/unwind/analysis/frame_states.h"

static struct frame_state deep(int32_t depth)
{
	return (struct frame_state){ .base = BASE_SP, .cfa_offset = depth, .slot = -1 };
}

static uint16_t number_of(struct frame_states *states, int32_t depth)
{
	struct frame_state state = deep(depth);

	return frame_states_number(states, &state);
}

TEST(equal_states_share_a_number)
{
	struct frame_states states;

	assert_int_equal(0, frame_states_init(&states));
	EXPECT_EQ(STATE_ENTRY, number_of(&states, 8), "a function's first");
	EXPECT_EQ(STATE_ENTRY + 1, number_of(&states, 16), "another");
	EXPECT_EQ(STATE_ENTRY, number_of(&states, 8), "again");
	EXPECT_EQ(16, states.known[STATE_ENTRY + 1].cfa_offset, "it is known by its number");
	frame_states_deinit(&states);
}

/* A file of such code held up all other tables for minutes. */
TEST(states_beyond_the_limit_are_lost_cheaply)
{
	enum { MORE = 100000 };
	struct frame_states states;

	assert_int_equal(0, frame_states_init(&states));
	for (int32_t i = 0; i < MORE; i++) {
		uint16_t number = number_of(&states, 8 + i);

		EXPECT_EQ(i < FRAME_STATES_MAX - STATE_ENTRY ? STATE_ENTRY + i : STATE_LOST, number,
			  "in turn");
	}
	EXPECT_EQ(STATE_ENTRY + 1000, number_of(&states, 1008), "those before are known still");
	assert_true(states.compared < MORE);
	frame_states_deinit(&states);
}

RUN_TESTS(cmocka_unit_test(equal_states_share_a_number),
	  cmocka_unit_test(states_beyond_the_limit_are_lost_cheaply))
