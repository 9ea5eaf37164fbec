// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/analysis/frame_effect.h"

#include "base/cleanup.h"

enum { STACK_BYTES_MAX = 1 << 24 }; // of a frame

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

int frame_effect_dwarf_number(uint32_t reg)
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
	    frame_effect_dwarf_number(to->reg) >= 0) {
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

bool frame_effect_drop_copy(struct frame_state *state)
{
	state->copy = 0;
	state->copy_depth = 0;
	return state->base != BASE_COPY;
}

bool frame_effect_apply(csh decoder, const cs_insn *instruction, struct frame_state *state)
{
	const cs_x86 *x86 = &instruction->detail->x86;
	const cs_x86_op *first = &x86->operands[0], *second = &x86->operands[1];
	bool on_sp = x86->op_count == 2 && is_register(first, X86_REG_RSP);

	if (state->base == BASE_POPPED)
		return apply_popped(decoder, instruction, state);
	if (state->copy && writes(decoder, instruction, (x86_reg)state->copy) &&
	    !frame_effect_drop_copy(state))
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
