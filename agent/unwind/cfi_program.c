// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/cfi_program.h"

#include <elf.h>
#include <string.h>

#include "agent/unwind/cfi_pointer.h"

/* DWARF 5, table 7.29; GNU's and Arm's extensions ("DWARF for the Arm 64-bit Architecture"). */
enum {
	OP_ADVANCE_LOC = 0x40, // these three have an operand in the low six bits
	OP_OFFSET = 0x80,
	OP_RESTORE = 0xc0,
	OP_OPERAND = 0x3f,
	OP_NOP = 0x00,
	OP_SET_LOC = 0x01,
	OP_ADVANCE_LOC1 = 0x02,
	OP_ADVANCE_LOC2 = 0x03,
	OP_ADVANCE_LOC4 = 0x04,
	OP_OFFSET_EXTENDED = 0x05,
	OP_RESTORE_EXTENDED = 0x06,
	OP_UNDEFINED = 0x07,
	OP_SAME_VALUE = 0x08,
	OP_REGISTER = 0x09,
	OP_REMEMBER_STATE = 0x0a,
	OP_RESTORE_STATE = 0x0b,
	OP_DEF_CFA = 0x0c,
	OP_DEF_CFA_REGISTER = 0x0d,
	OP_DEF_CFA_OFFSET = 0x0e,
	OP_DEF_CFA_EXPRESSION = 0x0f,
	OP_EXPRESSION = 0x10,
	OP_OFFSET_EXTENDED_SF = 0x11,
	OP_DEF_CFA_SF = 0x12,
	OP_DEF_CFA_OFFSET_SF = 0x13,
	OP_VAL_OFFSET = 0x14,
	OP_VAL_OFFSET_SF = 0x15,
	OP_VAL_EXPRESSION = 0x16,
	OP_AARCH64_NEGATE_RA_STATE_WITH_PC = 0x2c,
	OP_AARCH64_NEGATE_RA_STATE = 0x2d,
	OP_GNU_ARGS_SIZE = 0x2e,
	OP_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

enum {
	STATES_MAX = 16, // nested; gcc and clang use one
	/* Where the kernel's signal frame holds the interrupted pc, seen from the handler's return:
	 * struct ucontext (arch/x86/include/uapi/asm/ucontext.h). */
	X86_SIGNAL_PC_OFFSET = 168,
};

struct run {
	const struct cfi_common *common;
	const struct cfi_program *program; // NULL: initial instructions
	struct byte_cursor cursor;
	struct cfi_state state;
	bool is_changed; // since the last row
	uint64_t offset; // of the code that the state describes
	uint32_t remembered_count;
	struct unwind_rule last_rule;
	bool has_row;
	struct cfi_state remembered[STATES_MAX];
};

/* ---- rules ----------------------------------------------------------------------------------- */

static bool fits_16(int64_t number)
{
	return number == (int16_t)number;
}

static bool fits_32(int64_t number)
{
	return number == (int32_t)number;
}

static uint8_t frame_pointer_of(uint16_t machine)
{
	return machine == EM_X86_64 ? X86_REGISTER_FP : ARM64_REGISTER_FP;
}

static uint8_t stack_pointer_of(uint16_t machine)
{
	return machine == EM_X86_64 ? X86_REGISTER_SP : ARM64_REGISTER_SP;
}

/* Does the unwinder know register @number? */
static bool is_register(uint16_t machine, uint8_t number)
{
	return number < (machine == EM_X86_64 ? X86_REGISTER_COUNT : UNWIND_REGISTERS);
}

/* On x86-64 some also mark code this way that is just never called. */
static bool is_signal_return(const struct cfi_common *common, const struct cfi_state *state)
{
	if (!common->is_signal_frame)
		return false;
	return common->machine != EM_X86_64 ||
	       (state->return_address.kind == CFI_SAVED_AT_REGISTER &&
		state->return_address.base == X86_REGISTER_SP &&
		state->return_address.offset == X86_SIGNAL_PC_OFFSET);
}

static bool set_cfa(uint16_t machine, const struct cfi_value *cfa, struct unwind_rule *rule)
{
	if (!fits_32(cfa->offset) || !fits_16(cfa->deref_offset) ||
	    !is_register(machine, cfa->base))
		return false;
	switch (cfa->kind) {
	case CFI_VALUE_REGISTER:
		rule->cfa = CFA_REGISTER;
		break;
	case CFI_VALUE_DEREF:
		rule->cfa = CFA_DEREF;
		rule->deref_offset = (int16_t)cfa->deref_offset;
		break;
	case CFI_VALUE_PLT:
		rule->cfa = CFA_PLT;
		break;
	default:
		return false;
	}
	rule->cfa_register = cfa->kind == CFI_VALUE_PLT ? X86_REGISTER_SP : cfa->base;
	rule->cfa_offset = (int32_t)cfa->offset;
	return true;
}

/*
 * A saved register for a rule: by the CFA, else by the frame pointer. Returns SAVED_UNDEFINED and false if neither works.
 */
static bool find_saved(uint16_t machine, const struct cfi_saved *saved, const struct cfi_value *cfa,
		       enum saved_rule *ret_rule, int64_t *ret_offset)
{
	*ret_rule = SAVED_UNDEFINED;
	*ret_offset = 0;
	switch (saved->kind) {
	case CFI_SAVED_UNSPECIFIED:
	case CFI_SAVED_SAME:
		*ret_rule = SAVED_SAME;
		return true;
	case CFI_SAVED_UNDEFINED:
		return true;
	case CFI_SAVED_AT_CFA:
		*ret_rule = SAVED_AT_CFA;
		*ret_offset = saved->offset;
		return true;
	case CFI_SAVED_AT_REGISTER:
		*ret_offset = saved->offset;
		if (saved->base == frame_pointer_of(machine))
			*ret_rule = SAVED_AT_FP;
		else if (cfa->kind != CFI_VALUE_REGISTER || cfa->base != saved->base ||
			 __builtin_sub_overflow(saved->offset, cfa->offset, ret_offset))
			return false;
		else
			*ret_rule = SAVED_AT_CFA;
		return true;
	case CFI_SAVED_IN_REGISTER:
		if (!is_register(machine, saved->base))
			return false;
		*ret_rule = SAVED_IN_REGISTER;
		*ret_offset = saved->base;
		return true;
	}
	return false;
}

/* On aarch64 a large frame has the return address far from the CFA, but close to the frame pointer, or to sp. */
static bool move_to_register(uint16_t machine, const struct cfi_value *cfa, enum saved_rule *rule,
			     int64_t *offset)
{
	bool is_sp = machine == EM_AARCH64 && cfa->base == ARM64_REGISTER_SP;

	if (*rule != SAVED_AT_CFA || cfa->kind != CFI_VALUE_REGISTER ||
	    (!is_sp && cfa->base != frame_pointer_of(machine)) ||
	    __builtin_add_overflow(*offset, cfa->offset, offset))
		return false;
	*rule = is_sp ? SAVED_AT_SP : SAVED_AT_FP;
	return fits_16(*offset);
}

static bool set_return(const struct cfi_common *common, const struct cfi_state *state,
		       const struct cfi_value *cfa, struct unwind_rule *rule)
{
	uint16_t machine = common->machine;
	enum saved_rule saved;
	int64_t offset;

	if (!find_saved(machine, &state->return_address, cfa, &saved, &offset))
		return false;
	if (saved == SAVED_SAME && machine == EM_X86_64) // no register holds the caller's rip
		return false;
	if (saved == SAVED_SAME && common->return_register != ARM64_REGISTER_LR) {
		saved = SAVED_IN_REGISTER;
		offset = common->return_register;
	}
	if (!fits_16(offset) && !move_to_register(machine, cfa, &saved, &offset))
		return false;
	rule->saved |= (uint8_t)(saved << 4);
	rule->return_offset = (int16_t)offset;
	return true;
}

/* Losing the frame pointer is no reason to lose the caller. */
static void set_frame_pointer(uint16_t machine, const struct cfi_state *state,
			      const struct cfi_value *cfa, struct unwind_rule *rule)
{
	enum saved_rule saved;
	int64_t offset;

	if (!find_saved(machine, &state->fp, cfa, &saved, &offset) || !fits_32(offset)) {
		saved = SAVED_UNDEFINED;
		offset = 0;
	}
	rule->saved |= (uint8_t)saved;
	rule->fp_offset = (int32_t)offset;
}

static struct unwind_rule rule_of(const struct cfi_common *common, const struct cfi_state *state)
{
	const struct cfi_value *cfa = state->is_expressed ? &state->expressed_cfa : &state->cfa;
	struct unwind_rule rule = { 0 };

	if (is_signal_return(common, state))
		return (struct unwind_rule){ .cfa = CFA_SIGNAL };
	if (state->return_address.kind == CFI_SAVED_UNDEFINED)
		return (struct unwind_rule){ .cfa = CFA_END };
	// The unwinder takes the CFA as the caller's sp: any other rule for sp is unsupported.
	if ((state->sp.kind != CFI_SAVED_UNSPECIFIED && state->sp.kind != CFI_SAVED_SAME) ||
	    !set_cfa(common->machine, cfa, &rule) || !set_return(common, state, cfa, &rule))
		return (struct unwind_rule){ .cfa = CFA_UNSUPPORTED };
	set_frame_pointer(common->machine, state, cfa, &rule);
	return rule;
}

/* ---- instructions ---------------------------------------------------------------------------- */

/* State of register @number; NULL if unwinding does not need it. */
static struct cfi_saved *saved_of(const struct run *run, struct cfi_state *state, uint64_t number)
{
	uint16_t machine = run->common->machine;
	uint8_t instead = run->common->instead_of_fp;

	if (number == (instead ? instead : frame_pointer_of(machine)))
		return &state->fp;
	if (number == stack_pointer_of(machine))
		return &state->sp;
	if (number == run->common->return_register)
		return &state->return_address;
	return NULL;
}

static void save(struct run *run, uint64_t number, uint8_t kind, uint8_t base, int64_t offset)
{
	struct cfi_saved *saved = saved_of(run, &run->state, number);

	if (!saved)
		return;
	*saved = (struct cfi_saved){ .kind = kind, .base = base, .offset = offset };
	run->is_changed = true;
}

static int64_t scale(const struct run *run, uint64_t number)
{
	return (int64_t)(number * (uint64_t)run->common->data_factor);
}

static void restore(struct run *run, uint64_t number)
{
	struct cfi_state initial = run->common->initial;
	const struct cfi_saved *saved = saved_of(run, &initial, number);

	if (saved)
		save(run, number, saved->kind, saved->base, saved->offset);
}

static void define_cfa(struct run *run, uint64_t number, int64_t offset)
{
	run->state.cfa = (struct cfi_value){
		.kind = number < UNWIND_REGISTERS ? CFI_VALUE_REGISTER : CFI_VALUE_UNSUPPORTED,
		.base = (uint8_t)number,
		.offset = offset,
	};
	run->state.is_expressed = false;
	run->is_changed = true;
}

/* After an expression the CFA keeps its meaning, as in libgcc and readelf: only the offset changes. */
static void define_cfa_offset(struct run *run, int64_t offset)
{
	run->state.cfa.offset = offset;
	run->is_changed = true;
}

static struct cfi_value evaluate(struct run *run, int starts_with_cfa)
{
	uint64_t size = byte_cursor_uleb(&run->cursor);
	const uint8_t *bytes = byte_cursor_take(&run->cursor, size);

	if (!bytes)
		return (struct cfi_value){ .kind = CFI_VALUE_UNSUPPORTED };
	return cfi_expression_evaluate(run->common->machine, bytes, size, starts_with_cfa);
}

/* The register is saved where the expression points. */
static void save_at_expression(struct run *run)
{
	uint64_t number = byte_cursor_uleb(&run->cursor);
	struct cfi_value value = evaluate(run, 1);
	uint8_t kind = CFI_SAVED_UNSUPPORTED;

	if (value.kind == CFI_VALUE_CFA)
		kind = CFI_SAVED_AT_CFA;
	else if (value.kind == CFI_VALUE_REGISTER)
		kind = CFI_SAVED_AT_REGISTER;
	save(run, number, kind, value.base, value.offset);
}

/* The register's value is the expression's: usable only if that is another register. */
static void save_as_expression(struct run *run)
{
	uint64_t number = byte_cursor_uleb(&run->cursor);
	struct cfi_value value = evaluate(run, 1);
	uint8_t kind = CFI_SAVED_UNSUPPORTED;

	if (value.kind == CFI_VALUE_REGISTER && value.offset == 0)
		kind = CFI_SAVED_IN_REGISTER;
	save(run, number, kind, value.base, value.offset);
}

/* The caller's sp is the CFA anyway; other values are not tracked. */
static void save_as_offset(struct run *run, uint64_t number, int64_t offset)
{
	bool is_cfa = offset == 0 && number == stack_pointer_of(run->common->machine);

	save(run, number, is_cfa ? CFI_SAVED_UNSPECIFIED : CFI_SAVED_UNSUPPORTED, 0, 0);
}

static void save_in_register(struct run *run)
{
	uint64_t number = byte_cursor_uleb(&run->cursor);
	uint64_t base = byte_cursor_uleb(&run->cursor);

	if (base < UNWIND_REGISTERS)
		save(run, number, CFI_SAVED_IN_REGISTER, (uint8_t)base, 0);
	else
		save(run, number, CFI_SAVED_UNSUPPORTED, 0, 0);
}

static bool remember_state(struct run *run)
{
	if (run->remembered_count == STATES_MAX)
		return false;
	run->remembered[run->remembered_count++] = run->state;
	return true;
}

static bool restore_state(struct run *run)
{
	if (!run->remembered_count)
		return false;
	run->state = run->remembered[--run->remembered_count];
	run->is_changed = true;
	return true;
}

/* Instructions with one or two numbers. Returns false for others. */
static bool apply_rule(struct run *run, uint8_t op)
{
	struct byte_cursor *cursor = &run->cursor;
	uint64_t number = byte_cursor_uleb(cursor); // all begin with one

	switch (op) {
	case OP_OFFSET_EXTENDED:
		save(run, number, CFI_SAVED_AT_CFA, 0, scale(run, byte_cursor_uleb(cursor)));
		return true;
	case OP_OFFSET_EXTENDED_SF:
		save(run, number, CFI_SAVED_AT_CFA, 0,
		     scale(run, (uint64_t)byte_cursor_sleb(cursor)));
		return true;
	case OP_GNU_NEGATIVE_OFFSET_EXTENDED:
		save(run, number, CFI_SAVED_AT_CFA, 0, scale(run, -byte_cursor_uleb(cursor)));
		return true;
	case OP_VAL_OFFSET:
		save_as_offset(run, number, scale(run, byte_cursor_uleb(cursor)));
		return true;
	case OP_VAL_OFFSET_SF:
		save_as_offset(run, number, scale(run, (uint64_t)byte_cursor_sleb(cursor)));
		return true;
	case OP_RESTORE_EXTENDED:
		restore(run, number);
		return true;
	case OP_UNDEFINED:
		save(run, number, CFI_SAVED_UNDEFINED, 0, 0);
		return true;
	case OP_SAME_VALUE:
		save(run, number, CFI_SAVED_SAME, 0, 0);
		return true;
	case OP_DEF_CFA:
		define_cfa(run, number, (int64_t)byte_cursor_uleb(cursor));
		return true;
	case OP_DEF_CFA_SF:
		define_cfa(run, number, scale(run, (uint64_t)byte_cursor_sleb(cursor)));
		return true;
	case OP_DEF_CFA_REGISTER:
		define_cfa(run, number, run->state.cfa.offset);
		return true;
	case OP_DEF_CFA_OFFSET:
		define_cfa_offset(run, (int64_t)number);
		return true;
	case OP_GNU_ARGS_SIZE:
		return true;
	}
	return false;
}

/* All instructions that do not advance. Returns false if unknown or invalid. */
static bool apply(struct run *run, uint8_t op)
{
	switch (op) {
	case OP_NOP:
		return true;
	case OP_REMEMBER_STATE:
		return remember_state(run);
	case OP_RESTORE_STATE:
		return restore_state(run);
	case OP_REGISTER:
		save_in_register(run);
		return true;
	case OP_DEF_CFA_EXPRESSION:
		run->state.expressed_cfa = evaluate(run, 0);
		run->state.is_expressed = true;
		run->is_changed = true;
		return true;
	case OP_EXPRESSION:
		save_at_expression(run);
		return true;
	case OP_VAL_EXPRESSION:
		save_as_expression(run);
		return true;
	case OP_DEF_CFA_OFFSET_SF:
		define_cfa_offset(run, scale(run, (uint64_t)byte_cursor_sleb(&run->cursor)));
		return true;
	case OP_AARCH64_NEGATE_RA_STATE:
	case OP_AARCH64_NEGATE_RA_STATE_WITH_PC:
		// The unwinder strips signatures of all return addresses.
		return run->common->machine == EM_AARCH64;
	}
	return apply_rule(run, op);
}

/* ---- running --------------------------------------------------------------------------------- */

/* How far @op advances. Returns false if it does not, or is unreadable. */
static bool find_advance(struct run *run, uint8_t op, uint64_t *ret_bytes)
{
	uint64_t factor = run->common->code_factor, address;
	size_t position;

	switch (op) {
	case OP_ADVANCE_LOC1:
		*ret_bytes = byte_cursor_byte(&run->cursor) * factor;
		return true;
	case OP_ADVANCE_LOC2:
		*ret_bytes = byte_cursor_number(&run->cursor, 2) * factor;
		return true;
	case OP_ADVANCE_LOC4:
		*ret_bytes = byte_cursor_number(&run->cursor, 4) * factor;
		return true;
	case OP_SET_LOC:
		position = (size_t)(run->cursor.at - run->program->instructions.at);
		if (!cfi_pointer_read(&run->cursor, run->common->pointer_encoding,
				      run->program->address + position, 0, &address))
			return false;
		// The code's end is known not to wrap.
		if (address < run->program->start + run->offset)
			return false;
		*ret_bytes = address - run->program->start - run->offset;
		return true;
	}
	return false;
}

static void add_row(struct run *run, const struct unwind_rule *rule, cfi_row_fn add, void *context)
{
	if (run->has_row && memcmp(rule, &run->last_rule, sizeof(*rule)) == 0)
		return;
	run->has_row = true;
	run->last_rule = *rule;
	add(context, run->offset, rule);
}

static void add_state(struct run *run, cfi_row_fn add, void *context)
{
	if (!run->is_changed)
		return;
	struct unwind_rule rule = rule_of(run->common, &run->state);
	add_row(run, &rule, add, context);
	run->is_changed = false;
}

static void add_unsupported(struct run *run, cfi_row_fn add, void *context)
{
	struct unwind_rule rule = { .cfa = CFA_UNSUPPORTED };

	add_row(run, &rule, add, context);
}

/* Advances. Returns false at the code's end. */
static bool advance(struct run *run, uint64_t bytes, cfi_row_fn add, void *context)
{
	if (!bytes)
		return true;
	add_state(run, add, context);
	if (bytes >= run->program->size - run->offset)
		return false;
	run->offset += bytes;
	return true;
}

static bool is_advance(uint8_t op)
{
	return op >= OP_SET_LOC && op <= OP_ADVANCE_LOC4;
}

/* The commonest instructions: their operand is in the same byte. */
static void apply_short(struct run *run, uint8_t op)
{
	uint64_t number = op & OP_OPERAND;

	if ((op & ~OP_OPERAND) == OP_OFFSET)
		save(run, number, CFI_SAVED_AT_CFA, 0, scale(run, byte_cursor_uleb(&run->cursor)));
	else
		restore(run, number);
}

void cfi_program_run(const struct cfi_program *program, cfi_row_fn add, void *context)
{
	struct run run; // not zeroed: the saved states take a kilobyte
	uint64_t bytes = 0;

	if (!program->size)
		return;
	memset(&run, 0, offsetof(struct run, remembered));
	run.common = program->common;
	run.program = program;
	run.cursor = program->instructions;
	run.state = program->common->initial;
	run.is_changed = true;
	if (!program->common->is_supported) {
		add_unsupported(&run, add, context);
		return;
	}
	while (byte_cursor_left(&run.cursor)) {
		uint8_t op = byte_cursor_byte(&run.cursor);
		bool is_sound = true, is_moving = false;

		if ((op & ~OP_OPERAND) == OP_ADVANCE_LOC) {
			bytes = (op & OP_OPERAND) * program->common->code_factor;
			is_moving = true;
		} else if (op & ~OP_OPERAND) {
			apply_short(&run, op);
		} else if (is_advance(op)) {
			is_sound = find_advance(&run, op, &bytes);
			is_moving = true;
		} else {
			is_sound = apply(&run, op);
		}
		if (!is_sound || run.cursor.is_broken) {
			add_unsupported(&run, add, context);
			return;
		}
		if (is_moving && !advance(&run, bytes, add, context))
			return;
	}
	add_state(&run, add, context);
}

void cfi_common_run(struct cfi_common *common, struct byte_cursor instructions)
{
	struct run run;

	memset(&run, 0, offsetof(struct run, remembered));
	memset(&common->initial, 0, sizeof(common->initial));
	run.common = common;
	run.cursor = instructions;
	while (byte_cursor_left(&run.cursor) && common->is_supported) {
		uint8_t op = byte_cursor_byte(&run.cursor);

		if ((op & ~OP_OPERAND) == OP_ADVANCE_LOC || is_advance(op))
			common->is_supported = false; // initial instructions cover no code
		else if (op & ~OP_OPERAND)
			apply_short(&run, op);
		else
			common->is_supported = apply(&run, op);
		if (run.cursor.is_broken)
			common->is_supported = false;
	}
	common->initial = run.state;
}
