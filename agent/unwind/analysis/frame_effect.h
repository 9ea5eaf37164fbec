// SPDX-License-Identifier: Apache-2.0
// What one x86-64 instruction does to a frame: how sp and fp move, and where the caller's are afterwards.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <capstone/capstone.h>

#include "agent/unwind/analysis/frame_states.h"

/** Change @state as the instruction does, which @decoder has decoded with details. Returns false if the frame is unknown then. */
bool frame_effect_apply(csh decoder, const cs_insn *instruction, struct frame_state *state);

/** The register with a copy of sp is overwritten. Returns false if the frame was by it. */
bool frame_effect_drop_copy(struct frame_state *state);

/** DWARF's number of a general register but sp and fp (System V ABI for x86-64, figure 3.36); -1: it is none. */
int frame_effect_dwarf_number(uint32_t reg);
