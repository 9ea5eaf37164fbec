// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/analysis/arm64_analysis.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum {
	WORD_BYTES = 4,
	FRAME_BYTES_MAX = 1 << 24, // larger is none
	PASSES_MAX = 8,            // each puts right what jumps back have shown to be wrong
	REGISTER_ZERO_OR_SP = 31,
};

/* How the state before an instruction is known. */
enum certainty {
	STATE_NONE = 0,  // nothing has led here yet
	STATE_GUESS = 1, // code before it ended: another function, or a place that a table leads to
	STATE_JUMP = 2,  // a jump leads here, or code that does runs into it
	STATE_FIXED = 3, // a function begins, or a guess was wrong: the same in all passes
};

/* Of a frame, before an instruction. Distances are from the CFA down. */
struct state {
	int32_t sp;           // CFA - sp
	int32_t fp;           // CFA - x29, if x29 was set from sp
	int32_t saved_fp;     // where the caller's x29 is; 0: in its register
	int32_t saved_return; // where the return address is; 0: in x30
	int32_t made_room;    // bytes that the last change of sp has made
	bool sp_is_known;
	bool fp_is_set;
	bool return_is_lost; // a call has replaced it
	uint8_t certainty;
};

struct analysis {
	const uint8_t *code;
	uint32_t count; // of instructions
	struct state *states;
	bool changed; // another pass finds more
};

// ---- decoding (Arm Architecture Reference Manual for A-profile, C4.1) ---------------------------

static uint32_t bits(uint32_t word, unsigned from, unsigned count)
{
	return word >> from & ((1U << count) - 1);
}

static int64_t signed_bits(uint32_t word, unsigned from, unsigned count)
{
	return (int64_t)((uint64_t)bits(word, from, count) << (64 - count)) >> (64 - count);
}

static uint32_t word_at(const struct analysis *analysis, uint32_t index)
{
	uint32_t word;

	memcpy(&word, analysis->code + (size_t)index * WORD_BYTES, sizeof(word));
	return word;
}

static bool is_nothing(uint32_t word) // padding, or data
{
	return word == 0;
}

static bool is_return(uint32_t word)
{
	// ret; retaa, retab
	return (word & 0xfffffc1f) == 0xd65f0000 || (word & 0xfffffbff) == 0xd65f0bff;
}

static bool is_jump_by_register(uint32_t word)
{
	// br; braa and its like
	return (word & 0xfffffc1f) == 0xd61f0000 || (word & 0xfefff800) == 0xd61f0800;
}

static bool is_call(uint32_t word)
{
	// bl; blr; blraa and its like
	return (word & 0xfc000000) == 0x94000000 || (word & 0xfffffc1f) == 0xd63f0000 ||
	       (word & 0xfefff800) == 0xd63f0800;
}

static bool is_trap(uint32_t word) // brk, hlt, udf
{
	return (word & 0xffe0001f) == 0xd4200000 || (word & 0xffe0001f) == 0xd4400000 ||
	       (word & 0xffff0000) == 0;
}

/* Up to the next function, where code has ended, or in a call that does not return. */
static bool is_padding(uint32_t word)
{
	return word == 0xd503201f; // nop
}

static bool begins_function(uint32_t word) // paciasp, pacibsp, bti c
{
	return word == 0xd503233f || word == 0xd503237f || word == 0xd503245f;
}

/* Instructions from here to where the jump at @word leads; 0: it is no jump of a known distance. */
static int64_t jump_distance(uint32_t word)
{
	if ((word & 0xfc000000) == 0x14000000) // b
		return signed_bits(word, 0, 26);
	if ((word & 0xff000000) == 0x54000000 ||
	    (word & 0x7e000000) == 0x34000000) // b.cond; cbz, cbnz
		return signed_bits(word, 5, 19);
	if ((word & 0x7e000000) == 0x36000000) // tbz, tbnz
		return signed_bits(word, 5, 14);
	return 0;
}

static bool is_end(uint32_t word)
{
	return is_return(word) || is_jump_by_register(word) || is_trap(word) ||
	       (word & 0xfc000000) == 0x14000000;
}

// ---- what an instruction does -----------------------------------------------------------------

static void lose_sp(struct state *state)
{
	state->sp_is_known = false;
}

static void move_sp(struct state *state, int64_t bytes)
{
	int64_t sp = state->sp - bytes;

	if (!state->sp_is_known)
		return;
	if (sp < 0 || sp > FRAME_BYTES_MAX) {
		lose_sp(state);
		return;
	}
	state->sp = (int32_t)sp;
	state->made_room = (int32_t)-bytes;
	// What lies below sp is in its register again, or nobody wants it.
	if (state->saved_return > state->sp)
		state->saved_return = 0;
	if (state->saved_fp > state->sp)
		state->saved_fp = 0;
}

/* The distance of @offset(sp) from the CFA; 0: unknown, or not below it. */
static int32_t place_of(const struct state *state, int64_t offset)
{
	int64_t place = state->sp - offset;

	return state->sp_is_known && place > 0 && place <= FRAME_BYTES_MAX ? (int32_t)place : 0;
}

/* A function saves its return address once: a call before it did not return, and another function begins. */
static void begin_anew(struct state *state)
{
	*state = (struct state){
		.sp = state->made_room,
		.made_room = state->made_room,
		.sp_is_known = true,
		.certainty = STATE_GUESS,
	};
}

/* Of one or two registers; @second is none where it is REGISTER_ZERO_OR_SP. */
static void store(struct state *state, uint32_t first, uint32_t second, int64_t offset)
{
	bool has_return = first == ARM64_REGISTER_LR || second == ARM64_REGISTER_LR;

	if (first == ARM64_REGISTER_FP && second == ARM64_REGISTER_LR && state->made_room > 0 &&
	    (state->saved_return || state->return_is_lost))
		begin_anew(state);
	int32_t place = place_of(state, offset), next = place_of(state, offset + 8);

	if (has_return && !state->return_is_lost && !state->saved_return)
		state->saved_return = first == ARM64_REGISTER_LR ? place : next;
	if ((first == ARM64_REGISTER_FP || second == ARM64_REGISTER_FP) && !state->fp_is_set &&
	    !state->saved_fp)
		state->saved_fp = first == ARM64_REGISTER_FP ? place : next;
}

/* A register is read from @place, a distance from the CFA; 0: from somewhere else. What is saved in memory stays there. */
static void load(struct state *state, uint32_t number, int32_t place)
{
	if (number == ARM64_REGISTER_LR) {
		state->return_is_lost = !place || place != state->saved_return;
		if (!state->return_is_lost)
			state->saved_return = 0;
	}
	if (number == ARM64_REGISTER_FP) {
		state->fp_is_set = false;
		if (place && place == state->saved_fp)
			state->saved_fp = 0;
	}
}

static void load_two(struct state *state, uint32_t first, uint32_t second, int32_t place)
{
	load(state, first, place);
	load(state, second, place > 8 ? place - 8 : 0);
}

/* The same by x29, and by other registers, of which nothing is known. */
static int32_t place_by(const struct state *state, uint32_t base, int64_t offset)
{
	int64_t place = state->fp - offset;

	return base == ARM64_REGISTER_FP && state->fp_is_set && place > 0 &&
			       place <= FRAME_BYTES_MAX
		       ? (int32_t)place
		       : 0;
}

/* stp, ldp of general registers, and what of vector registers moves sp. */
static bool apply_pair(struct state *state, uint32_t word)
{
	bool is_vector = bits(word, 26, 1), is_load = bits(word, 22, 1);
	uint32_t kind = bits(word, 30, 2), mode = bits(word, 23, 2);
	uint32_t first = bits(word, 0, 5), second = bits(word, 10, 5), base = bits(word, 5, 5);
	int64_t offset = signed_bits(word, 15, 7) * (1 << (is_vector ? 2 + kind : 2 + (kind >> 1)));

	if ((word & 0x3a000000) != 0x28000000)
		return false;
	if (base != REGISTER_ZERO_OR_SP) {
		if (is_load && !is_vector)
			load_two(state, first, second, place_by(state, base, offset));
		return true;
	}
	if (mode == 3) // before the access
		move_sp(state, offset);
	if (!is_vector && kind == 2) {
		int64_t at = mode == 2 || mode == 0 ? offset : 0;

		if (is_load)
			load_two(state, first, second, place_of(state, at));
		else
			store(state, first, second, at);
	}
	if (mode == 1) // after it
		move_sp(state, offset);
	return true;
}

/* str, ldr of one register. */
static bool apply_single(struct state *state, uint32_t word)
{
	bool is_wide = (word & 0xfc000000) == 0xf8000000; // x registers
	bool is_load = bits(word, 22, 2) == 1, is_store = bits(word, 22, 2) == 0;
	uint32_t mode = bits(word, 10, 2), number = bits(word, 0, 5), base = bits(word, 5, 5);
	int64_t offset = signed_bits(word, 12, 9);

	if ((word & 0x3a000000) != 0x38000000)
		return false;
	if (bits(word, 24, 1)) { // an unsigned offset
		offset = (int64_t)bits(word, 10, 12) * 8;
		mode = 0;
	}
	if (base != REGISTER_ZERO_OR_SP) {
		if (is_wide && is_load)
			load(state, number, place_by(state, base, offset));
		return true;
	}
	if (!bits(word, 24, 1) && bits(word, 21, 1)) // a register's
		return true;
	if (mode == 3)
		move_sp(state, offset);
	if (is_wide && is_load)
		load(state, number, place_of(state, mode == 0 ? offset : 0));
	else if (is_wide && is_store)
		store(state, number, REGISTER_ZERO_OR_SP, mode == 0 ? offset : 0);
	if (mode == 1)
		move_sp(state, offset);
	return true;
}

static void set_sp_by_fp(struct state *state, int64_t bytes)
{
	if (!state->fp_is_set) {
		lose_sp(state);
		return;
	}
	state->sp = state->fp;
	state->sp_is_known = true;
	move_sp(state, bytes);
}

/* add, sub of a constant. */
static bool apply_constant(struct state *state, uint32_t word)
{
	uint32_t to = bits(word, 0, 5), from = bits(word, 5, 5);
	int64_t bytes = (int64_t)bits(word, 10, 12) << (bits(word, 22, 1) ? 12 : 0);

	if ((word & 0xbf800000) != 0x91000000 && (word & 0xff800000) != 0xd1000000)
		return false;
	if (bits(word, 30, 1))
		bytes = -bytes;
	if (to == REGISTER_ZERO_OR_SP && from == REGISTER_ZERO_OR_SP) {
		move_sp(state, bytes);
	} else if (to == REGISTER_ZERO_OR_SP && from == ARM64_REGISTER_FP) {
		set_sp_by_fp(state, bytes);
	} else if (to == REGISTER_ZERO_OR_SP) {
		lose_sp(state);
	} else if (to == ARM64_REGISTER_FP) {
		state->fp_is_set = from == REGISTER_ZERO_OR_SP && state->sp_is_known;
		state->fp = state->sp - (int32_t)bytes;
		if (!state->saved_fp) // it was not kept
			state->fp_is_set = false;
	}
	return true;
}

/* Other instructions that write sp: and with a constant; add, sub of a register; add of a vector's length. */
static bool writes_sp(uint32_t word)
{
	return bits(word, 0, 5) == REGISTER_ZERO_OR_SP &&
	       ((word & 0xff800000) == 0x92000000 || (word & 0xbfe00000) == 0x8b200000 ||
		(word & 0xffa0f800) == 0x04205000);
}

static void apply(struct state *state, uint32_t word)
{
	if (is_call(word)) {
		state->return_is_lost = true;
		return;
	}
	if (apply_pair(state, word) || apply_single(state, word) || apply_constant(state, word))
		return;
	if (writes_sp(word))
		lose_sp(state);
	if ((word & 0xffe0ffff) == 0xaa0003fe) // mov x30, register
		state->return_is_lost = true;
}

// ---- control flow -----------------------------------------------------------------------------

static struct state at_entry(enum certainty certainty)
{
	return (struct state){ .sp_is_known = true, .certainty = (uint8_t)certainty };
}

static bool is_same(const struct state *a, const struct state *b)
{
	return a->sp == b->sp && a->fp == b->fp && a->saved_fp == b->saved_fp &&
	       a->saved_return == b->saved_return && a->sp_is_known == b->sp_is_known &&
	       a->fp_is_set == b->fp_is_set && a->return_is_lost == b->return_is_lost;
}

/* Onwards what is known stays. Back a guess may have been wrong: the next pass begins with what is right. */
static void lead_to(struct analysis *analysis, uint32_t from, int64_t distance,
		    const struct state *state)
{
	int64_t to = (int64_t)from + distance;

	if (to < 0 || to >= analysis->count)
		return;
	struct state *known = &analysis->states[to];
	if (to > from && known->certainty < STATE_JUMP) {
		*known = *state;
		known->certainty = STATE_JUMP;
	} else if (to <= from && known->certainty == STATE_GUESS && !is_same(known, state)) {
		*known = *state;
		known->certainty = STATE_FIXED;
		analysis->changed = true;
	}
}

/* What is called is a function. */
static void lead_to_called(struct analysis *analysis, uint32_t from, uint32_t word)
{
	int64_t to = (int64_t)from + signed_bits(word, 0, 26);

	if ((word & 0xfc000000) != 0x94000000 || to < 0 || to >= analysis->count)
		return;
	struct state *known = &analysis->states[to], entry = at_entry(STATE_FIXED);
	if (known->certainty == STATE_FIXED)
		return;
	analysis->changed |= to <= from && !is_same(known, &entry);
	*known = entry;
}

/*
 * The state behind the end of some code: another function begins, but behind a jump within a frame, as one by a table, that frame
 * goes on.
 */
static struct state behind_end(uint32_t word, const struct state *state)
{
	struct state next = *state;

	if (is_return(word) || is_trap(word) || (state->sp_is_known && !state->sp))
		next = at_entry(STATE_GUESS);
	next.certainty = STATE_GUESS;
	return next;
}

/* sub sp, sp, register: of a frame too large for a constant. */
static bool makes_large_room(uint32_t word)
{
	return (word & 0xffe0ffff) == 0xcb2063ff;
}

/* One or two instructions before have put its size into the register: mov, movk. */
static void make_large_room(const struct analysis *analysis, uint32_t i, struct state *state)
{
	uint32_t number = bits(word_at(analysis, i), 16, 5), high = 0, word;

	if (i >= 2 && (word_at(analysis, i - 1) & 0xffe0001f) == (0xf2a00000 | number))
		high = bits(word_at(analysis, --i), 5, 16) << 16;
	word = i ? word_at(analysis, i - 1) : 0;
	if ((word & 0xffe0001f) == (0xd2800000 | number))
		move_sp(state, -(int64_t)(high | bits(word, 5, 16)));
	else if (!high && (word & 0xffe0001f) == (0xd2a00000 | number))
		move_sp(state, -((int64_t)bits(word, 5, 16) << 16));
	else
		lose_sp(state);
}

static void step(struct analysis *analysis, uint32_t i, struct state *state)
{
	struct state *known = &analysis->states[i];
	uint32_t word = word_at(analysis, i);
	int64_t distance = jump_distance(word);

	if (is_padding(word) && i &&
	    (is_call(word_at(analysis, i - 1)) || is_end(word_at(analysis, i - 1))))
		*state = at_entry(STATE_GUESS);
	if (begins_function(word))
		*known = at_entry(STATE_FIXED);
	// What runs into a place is right about it, but a jump is where code has ended before.
	if (known->certainty == STATE_FIXED ||
	    (known->certainty == STATE_JUMP && state->certainty == STATE_GUESS)) {
		*state = *known;
		state->certainty = STATE_JUMP;
	} else {
		*known = *state;
	}
	if (is_nothing(word))
		return;
	if (makes_large_room(word))
		make_large_room(analysis, i, state);
	else
		apply(state, word);
	if (distance)
		lead_to(analysis, i, distance, state);
	lead_to_called(analysis, i, word);
	if (is_end(word))
		*state = behind_end(word, state);
}

static void pass(struct analysis *analysis)
{
	struct state state = at_entry(STATE_GUESS);

	analysis->changed = false;
	for (uint32_t i = 0; i < analysis->count; i++)
		if (analysis->states[i].certainty != STATE_FIXED)
			analysis->states[i].certainty = STATE_NONE;
	for (uint32_t i = 0; i < analysis->count; i++)
		step(analysis, i, &state);
}

// ---- rules ------------------------------------------------------------------------------------

static struct unwind_rule rule_of(const struct state *state)
{
	struct unwind_rule rule = { .cfa = CFA_REGISTER };
	int32_t base = state->sp_is_known ? state->sp : state->fp, from_base;

	if ((!state->sp_is_known && !state->fp_is_set) ||
	    (state->return_is_lost && !state->saved_return))
		return (struct unwind_rule){ .cfa = CFA_NO_TABLE };
	rule.cfa_register = state->sp_is_known ? ARM64_REGISTER_SP : ARM64_REGISTER_FP;
	rule.cfa_offset = base;
	if (state->saved_fp) {
		rule.saved = SAVED_AT_CFA;
		rule.fp_offset = -state->saved_fp;
	}
	if (!state->saved_return)
		return rule;
	from_base = base - state->saved_return;
	if (state->saved_return <= -INT16_MIN) {
		rule.saved |= SAVED_AT_CFA << 4;
		rule.return_offset = (int16_t)-state->saved_return;
	} else if (from_base >= INT16_MIN && from_base <= INT16_MAX) {
		rule.saved |= (state->sp_is_known ? SAVED_AT_SP : SAVED_AT_FP) << 4;
		rule.return_offset = (int16_t)from_base;
	} else {
		return (struct unwind_rule){ .cfa = CFA_NO_TABLE };
	}
	return rule;
}

static void report(const struct analysis *analysis, code_analysis_fn fn, void *context)
{
	struct unwind_rule last = { .cfa = CFA_NO_TABLE };

	fn(context, 0, &last);
	for (uint32_t i = 0; i < analysis->count; i++) {
		struct unwind_rule rule = is_nothing(word_at(analysis, i))
						  ? (struct unwind_rule){ .cfa = CFA_NO_TABLE }
						  : rule_of(&analysis->states[i]);

		if (memcmp(&rule, &last, sizeof(rule)) == 0)
			continue;
		fn(context, (uint64_t)i * WORD_BYTES, &rule);
		last = rule;
	}
}

int arm64_analysis_each(const uint8_t *code, size_t size, const uint32_t *entries,
			uint32_t entry_count, code_analysis_fn fn, void *context)
{
	if (size > CODE_ANALYSIS_BYTES_MAX)
		return -E2BIG;
	struct analysis analysis = { .code = code, .count = (uint32_t)(size / WORD_BYTES) };
	_cleanup_free_ struct state *states = calloc(analysis.count + 1, sizeof(*states));

	if (!states)
		return -ENOMEM;
	analysis.states = states;
	for (uint32_t i = 0; i < entry_count; i++)
		if (entries[i] % WORD_BYTES == 0 && entries[i] / WORD_BYTES < analysis.count)
			states[entries[i] / WORD_BYTES] = at_entry(STATE_FIXED);
	for (int i = 0; i < PASSES_MAX; i++) {
		pass(&analysis);
		if (!analysis.changed)
			break;
	}
	report(&analysis, fn, context);
	return 0;
}
