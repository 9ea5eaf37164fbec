// SPDX-License-Identifier: Apache-2.0
// The different states that frames are in while code is followed (agent/unwind/analysis/code_analysis.h), numbered as they
// come. Hostile code makes a new one with each byte.
#pragma once

#include <stdint.h>

#include "base/hash_table.h"

enum {
	FRAME_STATES_MAX = 4096, // numbers; those of libraries are some hundreds
	STATE_UNREACHED = 0,
	STATE_LOST = 1, // reached, but nobody knows where the stack is
	STATE_ENTRY = 2,
	STATE_INSIDE = UINT16_MAX, // of an instruction
};

enum frame_base {
	BASE_SP,
	BASE_FP,   // fp is this function's own
	BASE_SLOT, // fp is some number; what it was lies in memory at sp + slot
};

/** Where the caller is, before an instruction: the CFA is the base + cfa_offset. */
struct frame_state {
	uint32_t base; // enum frame_base
	int32_t cfa_offset;
	int32_t fp_saved; // the caller's fp is at CFA + this; 0: still in its register
	int32_t sp_depth; // CFA - sp where that is known and the base is not sp; else 0
	int32_t slot;     // -1: none
};

struct frame_states {
	struct frame_state *known; // by number
	uint32_t count;
	struct hash_table by_state;
	uint64_t compared; // states, in all look-ups: exposed for tests only
};

/** STATE_ENTRY is that of a function's first instruction. Returns 0 or -ENOMEM; deinit in any case. */
int frame_states_init(struct frame_states *states);
void frame_states_deinit(struct frame_states *states);

/** The number of @state, from STATE_ENTRY on; STATE_LOST when there are too many, or no memory is left. */
uint16_t frame_states_number(struct frame_states *states, const struct frame_state *state);
