/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Why the unwinder stopped at the last frame of a stack. The BPF programs include this file, too.
#pragma once

/* Numbers are on the wire and in the store: append only. */
enum stack_end {
	STACK_END_COMPLETE = 0,
	STACK_END_DEPTH = 1,
	STACK_END_FAULT = 2,
	STACK_END_NO_FRAME_POINTER = 3,
	STACK_END_NO_TABLE = 4,
	STACK_END_NO_REGISTERS = 5,
	STACK_END_COMPAT = 6,
	STACK_END_LOST = 7, // the BPF programs never set it: the agent does
	STACK_END_NO_MAPPING = 8,
	STACK_END_BAD_FRAME = 9,
	STACK_END_UNSUPPORTED = 10,
	STACK_END_PYTHON = 11,
	STACK_END_NOT_SAMPLED = 12, // the agent sets it: stack_hash_not_sampled() marks it
	STACK_END_COUNT,
};

struct stack_end_spec {
	const char *token;   // "no_frame_pointer"
	const char *title;   // as in "[truncated: no frame pointer]"
	const char *meaning; // a sentence
};

/** Of a number that this version does not know: "unknown". Never NULL. */
const struct stack_end_spec *stack_end_spec(enum stack_end end);
/** The title of stack_end_spec(). */
const char *stack_end_name(enum stack_end end);
