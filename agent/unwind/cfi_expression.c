// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/cfi_expression.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>

#include "bpf/unwind/table_layout.h"
#include "agent/elf/byte_cursor.h"

/* DWARF 5, table 7.9. */
enum {
	OP_DEREF = 0x06,
	OP_CONST1U = 0x08,
	OP_CONST1S = 0x09,
	OP_CONST2U = 0x0a,
	OP_CONST2S = 0x0b,
	OP_CONST4U = 0x0c,
	OP_CONST4S = 0x0d,
	OP_CONST8U = 0x0e,
	OP_CONST8S = 0x0f,
	OP_CONSTU = 0x10,
	OP_CONSTS = 0x11,
	OP_DROP = 0x13,
	OP_AND = 0x1a,
	OP_MINUS = 0x1c,
	OP_PLUS = 0x22,
	OP_PLUS_UCONST = 0x23,
	OP_SHL = 0x24,
	OP_GE = 0x2a,
	OP_LIT0 = 0x30,
	OP_LIT31 = 0x4f,
	OP_BREG0 = 0x70,
	OP_BREG31 = 0x8f,
	OP_BREGX = 0x92,
	OP_NOP = 0x96,
};

enum { STACK_MAX = 8 }; // values; compilers need three

struct stack {
	struct cfi_value values[STACK_MAX];
	uint32_t count;
	bool is_broken; // stack overflow or underflow
};

static void push(struct stack *stack, struct cfi_value value)
{
	if (stack->count == STACK_MAX) {
		stack->is_broken = true;
		return;
	}
	stack->values[stack->count++] = value;
}

static struct cfi_value pop(struct stack *stack)
{
	if (!stack->count) {
		stack->is_broken = true;
		return (struct cfi_value){ 0 };
	}
	return stack->values[--stack->count];
}

static void push_constant(struct stack *stack, int64_t number)
{
	push(stack, (struct cfi_value){ .kind = CFI_VALUE_CONSTANT, .offset = number });
}

static void push_register(struct stack *stack, uint64_t number, int64_t offset)
{
	struct cfi_value value = { .kind = CFI_VALUE_REGISTER, .base = (uint8_t)number };

	value.offset = offset;
	if (number >= UNWIND_REGISTERS)
		value.kind = CFI_VALUE_UNSUPPORTED;
	push(stack, value);
}

/* Adds @number to @value. Wraps as addresses do. */
static struct cfi_value add_constant(struct cfi_value value, int64_t number)
{
	int64_t *sum = value.kind == CFI_VALUE_DEREF ? &value.deref_offset : &value.offset;

	if (value.kind == CFI_VALUE_PLT)
		value.kind = CFI_VALUE_UNSUPPORTED;
	*sum = (int64_t)((uint64_t)*sum + (uint64_t)number);
	return value;
}

static void apply_plus(struct stack *stack)
{
	struct cfi_value right = pop(stack), left = pop(stack);

	if (right.kind == CFI_VALUE_CONSTANT)
		push(stack, add_constant(left, right.offset));
	else if (left.kind == CFI_VALUE_CONSTANT)
		push(stack, add_constant(right, left.offset));
	else
		push(stack, (struct cfi_value){ .kind = CFI_VALUE_UNSUPPORTED });
}

static void apply_minus(struct stack *stack)
{
	struct cfi_value right = pop(stack), left = pop(stack);

	if (right.kind != CFI_VALUE_CONSTANT)
		left.kind = CFI_VALUE_UNSUPPORTED;
	push(stack, add_constant(left, (int64_t)(0 - (uint64_t)right.offset)));
}

static void apply_deref(struct stack *stack)
{
	struct cfi_value value = pop(stack);

	value.kind = value.kind == CFI_VALUE_REGISTER ? CFI_VALUE_DEREF : CFI_VALUE_UNSUPPORTED;
	push(stack, value);
}

static void apply_constant(struct stack *stack, struct byte_cursor *cursor, uint8_t op)
{
	if (op == OP_CONSTU)
		push_constant(stack, (int64_t)byte_cursor_uleb(cursor));
	else if (op == OP_CONSTS)
		push_constant(stack, byte_cursor_sleb(cursor));
	else if ((op - OP_CONST1U) % 2)
		push_constant(stack, byte_cursor_signed(cursor, 1U << (op - OP_CONST1U) / 2));
	else
		push_constant(stack,
			      (int64_t)byte_cursor_number(cursor, 1U << (op - OP_CONST1U) / 2));
}

/* Returns false for an unknown operation. */
static bool apply(struct stack *stack, struct byte_cursor *cursor)
{
	uint8_t op = byte_cursor_byte(cursor);
	uint64_t number;

	if (op >= OP_LIT0 && op <= OP_LIT31) {
		push_constant(stack, op - OP_LIT0);
		return true;
	}
	if (op >= OP_BREG0 && op <= OP_BREG31) {
		push_register(stack, op - OP_BREG0, byte_cursor_sleb(cursor));
		return true;
	}
	if (op >= OP_CONST1U && op <= OP_CONSTS) {
		apply_constant(stack, cursor, op);
		return true;
	}
	switch (op) {
	case OP_BREGX:
		number = byte_cursor_uleb(cursor);
		push_register(stack, number, byte_cursor_sleb(cursor));
		return true;
	case OP_PLUS_UCONST:
		push(stack, add_constant(pop(stack), (int64_t)byte_cursor_uleb(cursor)));
		return true;
	case OP_PLUS:
		apply_plus(stack);
		return true;
	case OP_MINUS:
		apply_minus(stack);
		return true;
	case OP_DEREF:
		apply_deref(stack);
		return true;
	case OP_DROP:
		pop(stack);
		return true;
	case OP_NOP:
		return true;
	}
	return false;
}

/*
 * PLT entries, which push a word midway: sp + 8 + ((pc & 15) >= threshold) << 3. The threshold is the end of the push.
 */
static bool is_plt(const uint8_t *bytes, size_t size, int64_t *ret_threshold)
{
	const uint8_t expected[] = {
		OP_BREG0 + X86_REGISTER_SP,
		8,
		OP_BREG0 + 16,
		0,
		OP_LIT0 + 15,
		OP_AND,
		OP_LIT0,
		OP_GE,
		OP_LIT0 + 3,
		OP_SHL,
		OP_PLUS,
	};
	enum { THRESHOLD_AT = 6 };

	if (size != sizeof(expected) || memcmp(bytes, expected, THRESHOLD_AT) != 0 ||
	    memcmp(bytes + THRESHOLD_AT + 1, expected + THRESHOLD_AT + 1,
		   sizeof(expected) - THRESHOLD_AT - 1) != 0)
		return false;
	if (bytes[THRESHOLD_AT] < OP_LIT0 || bytes[THRESHOLD_AT] > OP_LIT0 + 15)
		return false;
	*ret_threshold = bytes[THRESHOLD_AT] - OP_LIT0;
	return true;
}

struct cfi_value cfi_expression_evaluate(uint16_t machine, const uint8_t *bytes, size_t size,
					 int starts_with_cfa)
{
	struct byte_cursor cursor = byte_cursor_over(bytes, size);
	struct cfi_value unsupported = { .kind = CFI_VALUE_UNSUPPORTED };
	struct stack stack = { 0 };
	int64_t threshold;

	if (machine == EM_X86_64 && is_plt(bytes, size, &threshold))
		return (struct cfi_value){ .kind = CFI_VALUE_PLT, .offset = threshold };
	if (starts_with_cfa)
		push(&stack, (struct cfi_value){ .kind = CFI_VALUE_CFA });
	while (byte_cursor_left(&cursor)) {
		if (!apply(&stack, &cursor) || stack.is_broken || cursor.is_broken)
			return unsupported;
	}
	struct cfi_value value = pop(&stack);
	return stack.is_broken ? unsupported : value;
}
