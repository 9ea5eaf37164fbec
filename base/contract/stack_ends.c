// SPDX-License-Identifier: Apache-2.0
#include "base/contract/stack_ends.h"

static const struct stack_end_spec unknown = { "unknown", "unknown reason",
					       "A newer agent sent this stack." };

static const struct stack_end_spec ends[STACK_END_COUNT] = {
	[STACK_END_COMPLETE] = { "complete", "complete",
				 "The unwinder reached the thread's first function." },
	[STACK_END_DEPTH] = { "depth", "too deep",
			      "The stack has more frames than the unwinder keeps." },
	[STACK_END_FAULT] = { "fault", "unreadable memory",
			      "The stack's memory was swapped out or is no stack." },
	[STACK_END_NO_FRAME_POINTER] = { "no_frame_pointer", "no frame pointer",
					 "The chain of frame pointers broke." },
	[STACK_END_NO_TABLE] = { "no_table", "no unwind table",
				 "The code has no unwind information." },
	[STACK_END_NO_REGISTERS] = { "no_registers", "no registers",
				     "The kernel gave no user registers of the thread." },
	[STACK_END_COMPAT] = { "compat", "32-bit task", "The thread runs 32-bit code." },
	[STACK_END_LOST] = { "lost", "stack lost",
			     "The frames did not reach the agent: a buffer was full." },
	[STACK_END_NO_MAPPING] = { "no_mapping", "unknown code",
				   "The unwinder does not know the code's file yet." },
	[STACK_END_BAD_FRAME] = { "bad_frame", "broken frame",
				  "The unwind information led to no valid frame." },
	[STACK_END_UNSUPPORTED] = { "unsupported", "unsupported unwind rule",
				    "The unwind information uses a rule that cairn does not "
				    "read." },
	[STACK_END_PYTHON] = { "python", "unreadable Python frames",
			       "The native stack is complete; Python frames are missing." },
	[STACK_END_NOT_SAMPLED] = { "not_sampled", "not sampled",
				    "The time is exact; no stack of it was captured, or only its "
				    "kernel part." },
};

const struct stack_end_spec *stack_end_spec(enum stack_end end)
{
	return (unsigned int)end < STACK_END_COUNT ? &ends[end] : &unknown;
}

const char *stack_end_name(enum stack_end end)
{
	return stack_end_spec(end)->title;
}
