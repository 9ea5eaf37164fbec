// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/analysis/code_analysis.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <capstone/capstone.h>

#include "base/array.h"
#include "base/cleanup.h"

#include "agent/unwind/analysis/frame_states.h"
#include "agent/unwind/analysis/vector_size.h"

enum {
	STACK_BYTES_MAX = 1 << 24, // of a frame
	PENDING_MAX = 1 << 20,     // places to analyze, one per jump
	PASSES_MAX = 3,            // until all functions are known
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

// ---- states ---------------------------------------------------------------------------------

// CFA - sp; 0: unknown.
static int32_t depth_of(const struct frame_state *state)
{
	return state->base == BASE_SP ? state->cfa_offset : state->sp_depth;
}

// sp is at CFA - @depth. Returns false if that is impossible.
static bool set_depth(struct frame_state *state, int64_t depth)
{
	if (depth < 8 || depth > STACK_BYTES_MAX)
		return false;
	if (state->base == BASE_SP)
		state->cfa_offset = (int32_t)depth;
	else
		state->sp_depth = (int32_t)depth;
	return true;
}

// sp moves down by @bytes, or up.
static bool grow(struct frame_state *state, int64_t bytes)
{
	int32_t depth = depth_of(state);

	if (state->slot >= 0) {
		int64_t slot = state->slot + bytes;

		state->slot = slot >= 0 && slot <= STACK_BYTES_MAX ? (int32_t)slot : -1;
		if (state->slot < 0 && state->base == BASE_SLOT)
			return false;
	}
	return depth ? set_depth(state, depth + bytes) : state->base != BASE_SP;
}

// The frame is by sp again; fp has the caller's value.
static struct frame_state frame_by_sp(int32_t depth)
{
	return (struct frame_state){ .base = BASE_SP, .cfa_offset = depth, .slot = -1 };
}

// fp is overwritten.
static bool lose_fp(struct frame_state *state)
{
	switch (state->base) {
	case BASE_SP:
		return state->fp_saved; // else the caller's value is lost
	case BASE_FP:
		if (state->slot < 0 && state->sp_depth) {
			// fp was the frame pointer and is used otherwise from here on.
			state->base = BASE_SP;
			state->cfa_offset = state->sp_depth;
			state->sp_depth = 0;
			return true;
		}
		state->base = BASE_SLOT;
		return state->slot >= 0;
	default:
		return state->fp_saved;
	}
}

// ---- one instruction ------------------------------------------------------------------------

static bool is_register(const cs_x86_op *operand, x86_reg number)
{
	return operand->type == X86_OP_REG && operand->reg == number;
}

static bool push(struct frame_state *state, const cs_x86_op *operand, int64_t bytes)
{
	if (!grow(state, bytes))
		return false;
	if (is_register(operand, X86_REG_RBP) && !state->fp_saved && state->base == BASE_SP)
		state->fp_saved = -state->cfa_offset;
	return true;
}

static bool pop(struct frame_state *state, const cs_x86_op *operand, int64_t bytes)
{
	int32_t depth = depth_of(state);

	if (is_register(operand, X86_REG_RSP))
		return false;
	if (state->base == BASE_SP && depth == 8 && bytes == 8 && !state->fp_saved &&
	    operand->type == X86_OP_REG && operand->reg != X86_REG_RBP) {
		*state = (struct frame_state){
			.base = BASE_POPPED,
			.cfa_offset = (int32_t)operand->reg,
			.slot = -1,
		};
		return true;
	}
	if (is_register(operand, X86_REG_RBP)) {
		if (!depth)
			return false;
		*state = frame_by_sp(depth);
	}
	return grow(state, -bytes);
}

// mov %rsp, %rbp: the frame is by fp from here on, if the caller's fp is saved.
static bool fix_frame(struct frame_state *state)
{
	int32_t depth = depth_of(state);

	if (!depth || !state->fp_saved)
		return lose_fp(state);
	state->base = BASE_FP;
	state->cfa_offset = state->sp_depth = depth;
	return true;
}

// lea disp(base), %rsp or mov %rbp, %rsp (@displacement 0)
static bool load_sp(struct frame_state *state, x86_reg base, int64_t displacement)
{
	if (base == X86_REG_RSP)
		return grow(state, -displacement);
	if (base != X86_REG_RBP || state->base != BASE_FP)
		return false;
	state->slot = -1;
	return set_depth(state, state->cfa_offset - displacement);
}

// mov %rbp, displacement(%rsp): the caller's fp, or our own
static void save_fp(struct frame_state *state, int64_t displacement)
{
	int32_t depth = depth_of(state);

	if (displacement < 0 || displacement > STACK_BYTES_MAX)
		return;
	if (state->base == BASE_FP)
		state->slot = (int32_t)displacement;
	else if (state->base == BASE_SP && !state->fp_saved && displacement <= depth - 16)
		state->fp_saved = (int32_t)displacement - depth;
}

// mov displacement(%rsp), %rbp
static bool restore_fp(struct frame_state *state, int64_t displacement)
{
	int32_t depth = depth_of(state);

	if (state->base != BASE_SP && displacement == state->slot && state->fp_saved) {
		state->base = BASE_FP;
		return true;
	}
	if (!depth || !state->fp_saved || displacement - depth != state->fp_saved)
		return lose_fp(state);
	*state = frame_by_sp(depth);
	return true;
}

static bool leave(struct frame_state *state)
{
	if (state->base != BASE_FP)
		return false;
	// fp is where it was saved: sp is behind that word.
	*state = frame_by_sp(state->cfa_offset - 8);
	return state->cfa_offset >= 8;
}

static bool is_part_of(x86_reg number, x86_reg whole)
{
	// r8 to r15 follow each other in each of their widths.
	static const x86_reg first_parts[] = { X86_REG_R8, X86_REG_R8D, X86_REG_R8W, X86_REG_R8B };
	static const x86_reg parts[][5] = {
		// the whole one first
		{ X86_REG_RAX, X86_REG_EAX, X86_REG_AX, X86_REG_AH, X86_REG_AL },
		{ X86_REG_RBX, X86_REG_EBX, X86_REG_BX, X86_REG_BH, X86_REG_BL },
		{ X86_REG_RCX, X86_REG_ECX, X86_REG_CX, X86_REG_CH, X86_REG_CL },
		{ X86_REG_RDX, X86_REG_EDX, X86_REG_DX, X86_REG_DH, X86_REG_DL },
		{ X86_REG_RSI, X86_REG_ESI, X86_REG_SI, X86_REG_SIL },
		{ X86_REG_RDI, X86_REG_EDI, X86_REG_DI, X86_REG_DIL },
		{ X86_REG_RBP, X86_REG_EBP, X86_REG_BP, X86_REG_BPL },
		{ X86_REG_RSP, X86_REG_ESP, X86_REG_SP, X86_REG_SPL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(first_parts); i++)
		if (number >= first_parts[i] && number < first_parts[i] + 8)
			return whole == X86_REG_R8 + (number - first_parts[i]);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		for (size_t k = 0; k < ARRAY_SIZE(parts[i]) && parts[i][0] == whole; k++)
			if (parts[i][k] == number)
				return number != X86_REG_INVALID;
	return false;
}

static bool writes(csh decoder, const cs_insn *instruction, x86_reg number)
{
	cs_regs read, written;
	uint8_t read_count, written_count;

	if (cs_regs_access(decoder, instruction, read, &read_count, written, &written_count))
		return false;
	for (uint8_t i = 0; i < written_count; i++)
		if (is_part_of((x86_reg)written[i], number))
			return true;
	return false;
}

// Any other change of sp or fp.
static bool other(csh decoder, const cs_insn *instruction, struct frame_state *state)
{
	if (writes(decoder, instruction, X86_REG_RBP) && !lose_fp(state))
		return false;
	if (!writes(decoder, instruction, X86_REG_RSP))
		return true;
	state->sp_depth = 0; // aligned, or moved by an unknown amount
	state->slot = -1;
	if (state->base != BASE_SP || !state->copy)
		return state->base == BASE_FP;
	state->base = BASE_COPY;
	state->cfa_offset = state->copy_depth;
	return true;
}

// A word of the stack addressed by sp alone.
static bool is_stack_word(const cs_x86_op *operand)
{
	return operand->type == X86_OP_MEM && operand->size == 8 &&
	       operand->mem.base == X86_REG_RSP && operand->mem.index == X86_REG_INVALID &&
	       operand->mem.segment == X86_REG_INVALID;
}

// System V ABI for x86-64, figure 3.36; sp and fp have rules of their own. -1: no such register.
static int dwarf_number(uint32_t reg)
{
	static const x86_reg registers[] = {
		X86_REG_RAX, X86_REG_RDX, X86_REG_RCX,     X86_REG_RBX,
		X86_REG_RSI, X86_REG_RDI, X86_REG_INVALID, X86_REG_INVALID,
		X86_REG_R8,  X86_REG_R9,  X86_REG_R10,     X86_REG_R11,
		X86_REG_R12, X86_REG_R13, X86_REG_R14,     X86_REG_R15,
	};

	for (size_t i = 0; i < ARRAY_SIZE(registers); i++)
		if (reg != X86_REG_INVALID && registers[i] == reg)
			return (int)i;
	return -1;
}

/*
 * Assembly that aligns its stack, as that of video codecs does: mov %rsp, %r11; and $-32, %rsp; sub $544, %rsp;
 * mov %r11, 512(%rsp), and at the end mov 512(%rsp), %rsp. Returns true if the instruction is one of the moves.
 */
static bool keeps_sp(const cs_x86_op *to, const cs_x86_op *from, struct frame_state *state)
{
	if (is_register(from, X86_REG_RSP) && to->type == X86_OP_REG && state->base == BASE_SP &&
	    dwarf_number(to->reg) >= 0) {
		state->copy = to->reg;
		state->copy_depth = state->cfa_offset;
		return true;
	}
	if (is_stack_word(to) && state->base == BASE_COPY &&
	    is_register(from, (x86_reg)state->copy) && to->mem.disp >= 0 &&
	    to->mem.disp <= STACK_BYTES_MAX) {
		state->base = BASE_SLOT;
		state->slot = (int32_t)to->mem.disp;
		state->copy = 0;
		state->copy_depth = 0;
		return true;
	}
	if (is_register(to, X86_REG_RSP) &&
	    (state->base == BASE_COPY ? is_register(from, (x86_reg)state->copy)
				      : state->base == BASE_SLOT && is_stack_word(from) &&
						from->mem.disp == state->slot)) {
		int32_t fp_saved = state->fp_saved;

		*state = frame_by_sp(state->cfa_offset);
		state->fp_saved = fp_saved;
		return true;
	}
	return false;
}

static bool move(csh decoder, const cs_insn *instruction, struct frame_state *state)
{
	const cs_x86_op *to = &instruction->detail->x86.operands[0];
	const cs_x86_op *from = &instruction->detail->x86.operands[1];

	if (keeps_sp(to, from, state))
		return true;
	if (is_register(to, X86_REG_RSP) && from->type == X86_OP_REG)
		return load_sp(state, from->reg, 0);
	if (is_register(to, X86_REG_RBP) && is_register(from, X86_REG_RSP))
		return fix_frame(state);
	if (is_register(to, X86_REG_RBP) && is_stack_word(from))
		return restore_fp(state, from->mem.disp);
	if (is_stack_word(to) && is_register(from, X86_REG_RBP)) {
		save_fp(state, to->mem.disp);
		return true;
	}
	return other(decoder, instruction, state);
}

// V8 pops the return address, pushes or drops arguments, and pushes it again: a frame begins, or ends, there.
static bool apply_popped(csh decoder, const cs_insn *instruction, struct frame_state *state)
{
	x86_reg number = (x86_reg)state->cfa_offset;
	const cs_x86_op *first = &instruction->detail->x86.operands[0];

	if (instruction->id == X86_INS_PUSH && is_register(first, number)) {
		*state = frame_by_sp(8);
		return true;
	}
	return instruction->id != X86_INS_CALL && !writes(decoder, instruction, number) &&
	       !writes(decoder, instruction, X86_REG_RBP);
}

// The copy of sp is overwritten. Returns false if the frame was by it.
static bool drop_copy(struct frame_state *state)
{
	state->copy = 0;
	state->copy_depth = 0;
	return state->base != BASE_COPY;
}

// What the instruction does to the frame. Returns false if that is unknown.
static bool apply(csh decoder, const cs_insn *instruction, struct frame_state *state)
{
	const cs_x86 *x86 = &instruction->detail->x86;
	const cs_x86_op *first = &x86->operands[0], *second = &x86->operands[1];
	bool on_sp = x86->op_count == 2 && is_register(first, X86_REG_RSP);

	if (state->base == BASE_POPPED)
		return apply_popped(decoder, instruction, state);
	if (state->copy && writes(decoder, instruction, (x86_reg)state->copy) && !drop_copy(state))
		return false;
	switch (instruction->id) {
	case X86_INS_PUSH:
		return push(state, first, first->size == 2 ? 2 : 8);
	case X86_INS_PUSHFQ:
		return grow(state, 8);
	case X86_INS_POP:
		return pop(state, first, first->size == 2 ? 2 : 8);
	case X86_INS_POPFQ:
		return grow(state, -8);
	case X86_INS_LEAVE:
		return leave(state);
	case X86_INS_CALL: // returns, or ends the function
		return true;
	case X86_INS_SUB:
	case X86_INS_ADD:
		if (on_sp && second->type == X86_OP_IMM)
			return grow(state,
				    instruction->id == X86_INS_SUB ? second->imm : -second->imm);
		break;
	case X86_INS_LEA:
		if (on_sp && second->mem.index == X86_REG_INVALID)
			return load_sp(state, second->mem.base, second->mem.disp);
		break;
	case X86_INS_MOV:
		return move(decoder, instruction, state);
	}
	return other(decoder, instruction, state);
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
	return drop_copy(&state) ? frame_states_number(&analysis->known, &state) : STATE_LOST;
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
	if (!apply(analysis->decoder, analysis->instruction, &state))
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
	rule.cfa_register = state->base == BASE_COPY ? (uint8_t)dwarf_number(state->copy)
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
