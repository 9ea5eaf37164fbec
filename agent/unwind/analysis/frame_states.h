// SPDX-License-Identifier: Apache-2.0
// The distinct frame states of a code analysis, numbered in the order that they are found. Hostile code makes a new one
// with each byte.
#pragma once

#include <stdint.h>

#include "base/hash_table.h"

enum {
	FRAME_STATES_MAX = 4096, // of numbers; libraries have some hundred states
	STATE_UNREACHED = 0,
	STATE_LOST = 1, // reached, but the stack is unknown
	STATE_ENTRY = 2,
	STATE_INSIDE = UINT16_MAX, // inside of an instruction
};

enum frame_base {
	BASE_SP,
	BASE_FP,   // fp is this function's own
	BASE_SLOT, // fp is used otherwise, or sp was aligned; the old value is in memory at sp + slot
	BASE_COPY, // sp was aligned; its old value is in register copy
	BASE_POPPED, // the return address is in register cfa_offset: words are pushed or dropped below it
};

/** Where the caller is before an instruction: the CFA is base + cfa_offset. */
struct frame_state {
	uint32_t base; // enum frame_base
	int32_t cfa_offset;
	int32_t fp_saved; // the caller's fp is at CFA + this; 0: still in its register
	int32_t sp_depth; // CFA - sp, if known and the base is not sp; else 0
	int32_t slot;     // -1: none
	uint32_t
		copy; // BASE_SP, BASE_COPY: capstone's number of a register with an earlier sp; 0: none
	int32_t copy_depth; // CFA - copy
};

struct frame_states {
	struct frame_state *known; // by number
	uint32_t count;
	struct hash_table by_state;
	uint64_t compared; // comparisons in all lookups, for tests
};

/** STATE_ENTRY is a function's first state. Returns 0 or -ENOMEM; call deinit in any case. */
int frame_states_init(struct frame_states *states);
void frame_states_deinit(struct frame_states *states);

/** Number of @state, from STATE_ENTRY on; STATE_LOST if there are too many or memory is out. */
uint16_t frame_states_number(struct frame_states *states, const struct frame_state *state);
