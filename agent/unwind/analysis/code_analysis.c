// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/analysis/code_analysis.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <capstone/capstone.h>

#include "base/array.h"
#include "base/cleanup.h"

#include "agent/unwind/analysis/frame_effect.h"
#include "agent/unwind/analysis/frame_states.h"
#include "agent/unwind/analysis/vector_size.h"

enum {
	PENDING_MAX = 1 << 20, // places to analyze, one per jump
	PASSES_MAX = 3,        // until all functions are known
	POINTER_PASSES_MAX =
		16, // functions that take addresses of earlier ones: so many in a chain
};

struct pending {
	uint32_t offset;
	uint16_t state;
};

struct code_analysis {
	csh decoder;
	cs_insn *instruction;
	const uint8_t *code;
	uint32_t size;
	uint64_t address;
	uint16_t *states;       // by offset: state before the instruction
	uint8_t *is_table_jump; // by offset, a bit each
	uint16_t *jump_states;  // by offset: state at the jumps there, of the last pass
	uint8_t *is_entry;      // by offset, a bit each: where functions begin
	uint8_t *is_pointed_to; // likewise: address taken
	uint8_t *is_end;        // likewise: functions that do not return
	uint8_t *is_divide;     // likewise: where a function ends that is described elsewhere
	bool is_decoded;        // the present instruction is decoded by capstone
	bool found_new;         // this pass found something new
	bool has_guesses;       // of where functions begin: they have no names
	uint64_t decodes_left;
	struct frame_states known;
	struct pending *pending;
	uint32_t pending_count, pending_capacity;
};

// ---- life -----------------------------------------------------------------------------------

static int open_decoder(struct code_analysis *analysis)
{
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &analysis->decoder) != CS_ERR_OK)
		return -ENOMEM;
	cs_option(analysis->decoder, CS_OPT_DETAIL, CS_OPT_ON);
	analysis->instruction = cs_malloc(analysis->decoder);
	return analysis->instruction ? 0 : -ENOMEM;
}

int code_analysis_open(const uint8_t *code, size_t size, uint64_t address,
		       struct code_analysis **ret_analysis)
{
	if (size > CODE_ANALYSIS_BYTES_MAX)
		return -E2BIG;

	struct code_analysis *analysis = calloc(1, sizeof(*analysis));
	if (!analysis)
		return -ENOMEM;
	analysis->code = code;
	analysis->size = (uint32_t)size;
	analysis->address = address;
	analysis->decodes_left = UINT64_MAX;
	analysis->states = calloc(size + 1, sizeof(*analysis->states));
	analysis->is_table_jump = calloc(size / 8 + 1, 1);
	analysis->jump_states = calloc(size + 1, sizeof(*analysis->jump_states));
	analysis->is_entry = calloc(size / 8 + 1, 1);
	analysis->is_pointed_to = calloc(size / 8 + 1, 1);
	analysis->is_end = calloc(size / 8 + 1, 1);
	analysis->is_divide = calloc(size / 8 + 1, 1);
	if (!analysis->states || !analysis->is_table_jump || !analysis->jump_states ||
	    !analysis->is_entry || !analysis->is_pointed_to || !analysis->is_end ||
	    !analysis->is_divide || frame_states_init(&analysis->known) || open_decoder(analysis)) {
		code_analysis_close(analysis);
		return -ENOMEM;
	}
	*ret_analysis = analysis;
	return 0;
}

void code_analysis_close(struct code_analysis *analysis)
{
	if (!analysis)
		return;
	if (analysis->instruction)
		cs_free(analysis->instruction, 1);
	if (analysis->decoder)
		cs_close(&analysis->decoder);
	free(analysis->states);
	free(analysis->is_table_jump);
	free(analysis->jump_states);
	free(analysis->is_entry);
	free(analysis->is_pointed_to);
	free(analysis->is_end);
	free(analysis->is_divide);
	frame_states_deinit(&analysis->known);
	free(analysis->pending);
	free(analysis);
}

void code_analysis_limit(struct code_analysis *analysis, uint32_t instructions)
{
	analysis->decodes_left = instructions;
}

bool code_analysis_is_cut(const struct code_analysis *analysis)
{
	return !analysis->decodes_left;
}

// ---- control flow ---------------------------------------------------------------------------

static bool bit(const uint8_t *bits, uint32_t at)
{
	return bits[at / 8] & 1U << at % 8;
}

static void set_bit(uint8_t *bits, uint32_t at)
{
	bits[at / 8] |= (uint8_t)(1U << at % 8);
}

static void add_pending(struct code_analysis *analysis, uint32_t offset, uint16_t state)
{
	if (analysis->states[offset] != STATE_UNREACHED)
		return;
	// On failure the code there gets no rule.
	if (array_reserve(&analysis->pending, sizeof(*analysis->pending),
			  &analysis->pending_capacity, analysis->pending_count, 1, PENDING_MAX))
		return;
	analysis->pending[analysis->pending_count++] = (struct pending){ offset, state };
}

static void add_entry(struct code_analysis *analysis, uint32_t offset)
{
	if (bit(analysis->is_entry, offset))
		return;
	set_bit(analysis->is_entry, offset);
	analysis->found_new = true;
}

// A function that lies before its caller is followed in this pass, too: in the next one its callees are known.
static void call(struct code_analysis *analysis, uint32_t to)
{
	if (bit(analysis->is_entry, to))
		return;
	add_entry(analysis, to);
	add_pending(analysis, to, STATE_ENTRY);
}

static void add_jump(struct code_analysis *analysis, uint32_t to, uint16_t state)
{
	if (analysis->jump_states[to] == STATE_UNREACHED) {
		analysis->jump_states[to] = state;
		analysis->found_new = true;
	}
	add_pending(analysis, to, state);
}

// lea target(%rip), register
static void note_pointer(struct code_analysis *analysis, const cs_insn *instruction)
{
	const cs_x86_op *from = &instruction->detail->x86.operands[1];
	uint64_t to = instruction->address + instruction->size + (uint64_t)from->mem.disp -
		      analysis->address;

	if (instruction->id != X86_INS_LEA || from->mem.base != X86_REG_RIP ||
	    to >= analysis->size || bit(analysis->is_pointed_to, (uint32_t)to))
		return;
	set_bit(analysis->is_pointed_to, (uint32_t)to);
	analysis->found_new = true;
}

// Decodes the instruction at @offset. Returns its size; 0: invalid, or past the limit.
static uint32_t decode(struct code_analysis *analysis, uint32_t offset)
{
	const uint8_t *at = analysis->code + offset;
	size_t left = analysis->size - offset;
	uint64_t address = analysis->address + offset;
	uint32_t size = vector_size(at, left);

	if (!analysis->decodes_left || !--analysis->decodes_left)
		return 0;
	analysis->is_decoded = !size && cs_disasm_iter(analysis->decoder, &at, &left, &address,
						       analysis->instruction);
	return analysis->is_decoded ? analysis->instruction->size : size;
}

static bool ends_flow(csh decoder, const cs_insn *instruction)
{
	return instruction->id == X86_INS_JMP || instruction->id == X86_INS_HLT ||
	       instruction->id == X86_INS_UD2 || instruction->id == X86_INS_INT3 ||
	       cs_insn_group(decoder, instruction, X86_GRP_RET);
}

/*
 * A copy of sp is followed along straight code only: else states would differ by what no code uses. An instruction that is
 * not decoded may write it.
 */
static uint16_t without_copy(struct code_analysis *analysis, uint16_t number)
{
	struct frame_state state = analysis->known.known[number];

	if (number < STATE_ENTRY || !state.copy)
		return number;
	return frame_effect_drop_copy(&state) ? frame_states_number(&analysis->known, &state)
					      : STATE_LOST;
}

static bool is_branch(const struct code_analysis *analysis)
{
	return analysis->instruction->id == X86_INS_CALL ||
	       cs_insn_group(analysis->decoder, analysis->instruction, X86_GRP_JUMP);
}

// Where the control flow goes from here, and what it enters.
static void branch(struct code_analysis *analysis, const cs_insn *instruction, uint32_t offset)
{
	const cs_x86_op *target = &instruction->detail->x86.operands[0];
	bool is_call = instruction->id == X86_INS_CALL;
	uint64_t to = (uint64_t)target->imm - analysis->address;

	note_pointer(analysis, instruction);
	if (!is_branch(analysis))
		return;
	if (target->type != X86_OP_IMM) {
		if (!is_call)
			set_bit(analysis->is_table_jump, offset);
	} else if (to < analysis->size) {
		if (is_call)
			call(analysis, (uint32_t)to);
		else if (!bit(analysis->is_entry,
			      (uint32_t)to)) // else a tail call: the entry's state holds
			add_jump(analysis, (uint32_t)to,
				 without_copy(analysis, analysis->states[offset]));
	}
}

static uint16_t state_after(struct code_analysis *analysis, uint16_t number)
{
	struct frame_state state = analysis->known.known[number];

	if (number == STATE_LOST)
		return STATE_LOST;
	if (!frame_effect_apply(analysis->decoder, analysis->instruction, &state))
		return STATE_LOST;
	return frame_states_number(&analysis->known, &state);
}

/*
 * Does a call not return? Then another function follows, or a cold part of one, as the jumps to it show.
 */
static bool is_no_return(const struct code_analysis *analysis, uint32_t next, uint16_t state)
{
	const cs_x86_op *target = &analysis->instruction->detail->x86.operands[0];
	uint64_t to = (uint64_t)target->imm - analysis->address;
	uint16_t jumped = analysis->jump_states[next];

	if (target->type == X86_OP_IMM && to < analysis->size &&
	    bit(analysis->is_end, (uint32_t)to))
		return true;
	return bit(analysis->is_pointed_to, next) || (jumped != STATE_UNREACHED && jumped != state);
}

// Does no code before @offset run into it?
static bool begins_apart(const struct code_analysis *analysis, uint32_t offset)
{
	return bit(analysis->is_entry, offset) || bit(analysis->is_divide, offset);
}

// From one place on, until control flow ends, meets analyzed code, or enters another function.
static void analyze(struct code_analysis *analysis, struct pending from)
{
	uint32_t offset = from.offset;
	uint16_t state = from.state;

	while (offset < analysis->size && analysis->states[offset] == STATE_UNREACHED &&
	       (offset == from.offset || !begins_apart(analysis, offset))) {
		uint32_t size = decode(analysis, offset), next = offset + size;

		if (!size)
			return;
		analysis->states[offset] = state;
		for (uint32_t inside = offset + 1; inside < next; inside++)
			analysis->states[inside] = STATE_INSIDE;
		offset = next;
		if (!analysis->is_decoded) {
			state = without_copy(analysis, state);
			continue;
		}
		branch(analysis, analysis->instruction, next - size);
		if (ends_flow(analysis->decoder, analysis->instruction))
			return;
		state = state_after(analysis, state);
		if (is_branch(analysis))
			state = without_copy(analysis, state);
		if (analysis->instruction->id == X86_INS_CALL && next < analysis->size &&
		    is_no_return(analysis, next, state))
			return;
	}
}

static void follow_pending(struct code_analysis *analysis)
{
	while (analysis->pending_count)
		analyze(analysis, analysis->pending[--analysis->pending_count]);
}

static void follow_entries(struct code_analysis *analysis)
{
	memset(analysis->states, 0, analysis->size * sizeof(*analysis->states));
	memset(analysis->is_table_jump, 0, analysis->size / 8 + 1);
	analysis->found_new = false;
	for (uint32_t offset = 0; offset < analysis->size; offset++) {
		if (!bit(analysis->is_entry, offset))
			continue;
		add_pending(analysis, offset, STATE_ENTRY);
		follow_pending(analysis);
	}
}

void code_analysis_enter(struct code_analysis *analysis, uint64_t address)
{
	uint64_t offset = address - analysis->address;

	if (offset < analysis->size)
		add_entry(analysis, (uint32_t)offset);
}

void code_analysis_point(struct code_analysis *analysis, uint64_t address)
{
	uint64_t offset = address - analysis->address;

	analysis->has_guesses = true;
	if (offset < analysis->size)
		set_bit(analysis->is_pointed_to, (uint32_t)offset);
}

void code_analysis_divide(struct code_analysis *analysis, uint64_t address)
{
	uint64_t offset = address - analysis->address;

	if (offset < analysis->size)
		set_bit(analysis->is_divide, (uint32_t)offset);
}

void code_analysis_never_returns(struct code_analysis *analysis, uint64_t address)
{
	uint64_t offset = address - analysis->address;

	if (offset < analysis->size)
		set_bit(analysis->is_end, (uint32_t)offset);
}

// Functions that are not called, but whose address is taken. They take the addresses of others.
static void follow_pointers(struct code_analysis *analysis)
{
	bool any = true;

	for (uint32_t pass = 0; pass < POINTER_PASSES_MAX && any; pass++) {
		any = false;
		for (uint32_t offset = 0; offset < analysis->size; offset++) {
			if (!bit(analysis->is_pointed_to, offset) ||
			    analysis->states[offset] != STATE_UNREACHED)
				continue;
			add_entry(analysis, offset);
			add_pending(analysis, offset, STATE_ENTRY);
			follow_pending(analysis);
			any = analysis->states[offset] != STATE_UNREACHED || any;
		}
	}
}

// Repeats while a pass finds something that would have ended an earlier one sooner.
static void follow_all(struct code_analysis *analysis)
{
	for (uint32_t pass = 0; pass < PASSES_MAX && analysis->found_new; pass++)
		follow_entries(analysis);
}

// Code reached through jump tables only.
static void follow_tables(struct code_analysis *analysis)
{
	uint16_t guess = STATE_LOST;

	for (uint32_t offset = 0; offset < analysis->size; offset++) {
		if (begins_apart(analysis, offset))
			guess = STATE_LOST;
		if (bit(analysis->is_table_jump, offset) &&
		    analysis->states[offset] != STATE_INSIDE)
			guess = analysis->states[offset];
		if (analysis->states[offset] != STATE_UNREACHED || guess == STATE_LOST)
			continue;
		add_pending(analysis, offset, guess);
		follow_pending(analysis);
	}
}

void code_analysis_run(struct code_analysis *analysis)
{
	follow_all(analysis);
	follow_pointers(analysis);
	follow_all(analysis);
	follow_tables(analysis);
	// Where nothing has a name, functions are also known by code behind tables.
	for (uint32_t pass = 0; pass < PASSES_MAX && analysis->found_new && analysis->has_guesses;
	     pass++) {
		follow_entries(analysis);
		follow_pointers(analysis);
		follow_tables(analysis);
	}
}

// ---- rules ----------------------------------------------------------------------------------

/*
 * By the saved word in memory even while fp still has the caller's value, where sp is unknown: at the head of a loop that
 * uses fp otherwise, only that holds in each iteration.
 */
static bool is_by_slot(const struct frame_state *state)
{
	return state->base == BASE_SLOT || (state->base == BASE_FP && state->slot >= 0 &&
					    !state->sp_depth && state->cfa_offset <= INT16_MAX);
}

static struct unwind_rule rule_of(const struct code_analysis *analysis, uint16_t number)
{
	const struct frame_state *state = &analysis->known.known[number];
	struct unwind_rule rule = { .cfa = CFA_NO_TABLE };

	if (number < STATE_ENTRY || state->base == BASE_POPPED)
		return rule;
	if (state->base == BASE_SLOT && state->cfa_offset > INT16_MAX)
		return rule;
	rule.cfa = is_by_slot(state) ? CFA_DEREF : CFA_REGISTER;
	rule.cfa_register = state->base == BASE_COPY
				    ? (uint8_t)frame_effect_dwarf_number(state->copy)
			    : state->base == BASE_FP && !is_by_slot(state) ? X86_REGISTER_FP
									   : X86_REGISTER_SP;
	rule.cfa_offset = state->cfa_offset;
	if (is_by_slot(state)) {
		rule.cfa_offset = state->slot;
		rule.deref_offset = (int16_t)state->cfa_offset;
	}
	rule.return_offset = -8;
	rule.saved = SAVED_AT_CFA << 4 | (state->fp_saved ? SAVED_AT_CFA : SAVED_SAME);
	rule.fp_offset = state->fp_saved;
	return rule;
}

void code_analysis_each(const struct code_analysis *analysis, code_analysis_fn fn, void *context)
{
	struct unwind_rule last = { .cfa = CFA_NO_TABLE };

	fn(context, 0, &last);
	for (uint32_t offset = 0; offset < analysis->size; offset++) {
		if (analysis->states[offset] == STATE_INSIDE)
			continue;

		struct unwind_rule rule = rule_of(analysis, analysis->states[offset]);
		if (memcmp(&rule, &last, sizeof(rule)))
			fn(context, offset, &rule);
		last = rule;
	}
}
