/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Steps through the interpreter's own frames where the native stack is in its loop. One C frame of the
// loop stands for one Python frame up to 3.10, for a run of them since. Included by unwind.h.
//
// What does not fit together costs Python frames, never the stack: the native frame is kept then. Where
// frames are there that cannot be read, that is how the stack ends.
#pragma once

enum python_cursor_state {
	PYTHON_UNSEARCHED = 0,
	PYTHON_FOUND = 1,
	PYTHON_NONE = 2,     // this thread has no Python frames
	PYTHON_REJECTED = 3, // none for this C frame; the next one is asked again
	PYTHON_WALKING = 4,  // looking for another state of this thread
};

/* Thread states looked at, one a step, in a stack: a service has some hundred threads. */
#define PYTHON_WALK_MAX 256

UNWIND_INLINE void python_begin(struct unwind *unwind)
{
	unwind->python.state = PYTHON_UNSEARCHED;
	unwind->python.frame = 0;
	unwind->python.cframe = 0;
	unwind->python.opcode_shim = 0;
	unwind->python.thread_state = 0;
	unwind->python.walked = 0;
	unwind->python.is_truncated = 0;
}

/* Masked, so that the verifier sees where it ends; offsets are even and checked by the agent. */
UNWIND_INLINE __u64 python_frame_word(const struct python_cursor *cursor, __u32 offset)
{
	return *(const __u64 *)((const char *)cursor->frame_words + (offset & 0x78));
}

UNWIND_INLINE __u32 python_code_int(const struct python_cursor *cursor, __u32 offset)
{
	return *(const __u32 *)((const char *)cursor->code_words + (offset & 0x7c));
}

/* ---- the thread's state -------------------------------------------------------------------------- */

/* A pointer at @address, or 0. */
UNWIND_INLINE __u64 python_read_pointer(__u64 address)
{
	__u64 pointer;

	if (address < CODE_ADDRESS_MIN || read_user(&pointer, sizeof(pointer), address))
		return 0;
	return pointer;
}

/* pthread_getspecific(autoTSSkey): stays set while the thread has released the GIL. */
UNWIND_INLINE __u64 python_state_by_key(const struct unwind *unwind,
					const struct python_process *process)
{
	__u64 value = python_read_pointer(unwind->thread_pointer + (__s64)process->key_at);

	if (process->ways & PYTHON_WAY_KEY_INSIDE && value)
		value = python_read_pointer(value + process->key_inside);
	return value;
}

/*
 * _Py_tss_tstate is 0 while the GIL is released; what 3.15 has instead of the key is not. Nothing but the
 * thread state in them tells one from the other.
 */
UNWIND_INLINE __u64 python_state_by_tls(const struct unwind *unwind,
					const struct python_process *process)
{
	__u64 base = unwind->thread_pointer, state;

	if (process->ways & PYTHON_WAY_TLS_DYNAMIC) {
		base = python_read_pointer(base + (__s64)process->dtv_at);
		if (base)
			base = python_read_pointer(base + process->dtv_inside);
		if (!base)
			return 0;
	}
	state = python_read_pointer(base + process->tls_at);
	if (!state && process->tls_also_at != process->tls_at)
		state = python_read_pointer(base + process->tls_also_at);
	return state;
}

/* Does a thread state name the thread that is unwound? */
UNWIND_INLINE bool python_is_own_state(const struct unwind *unwind,
				       const struct python_offsets *offsets, __u64 state)
{
	return python_read_pointer(state + offsets->state_thread) ==
	       unwind->thread_pointer + unwind->process.python.self_at;
}

/*
 * Up to 3.11 a thread that runs a subinterpreter has a second state, which no key knows. It holds
 * the GIL then.
 */
UNWIND_INLINE __u64 python_state_by_holder(const struct unwind *unwind,
					   const struct python_process *process,
					   const struct python_offsets *offsets)
{
	__u64 state = python_read_pointer(process->holder);

	return state && python_is_own_state(unwind, offsets, state) ? state : 0;
}

UNWIND_INLINE __u64 python_find_state(const struct unwind *unwind,
				      const struct python_offsets *offsets)
{
	const struct python_process *process = &unwind->process.python;
	__u64 state = 0;

	if (process->ways & PYTHON_WAY_HOLDER)
		state = python_state_by_holder(unwind, process, offsets);
	if (!state && process->ways & PYTHON_WAY_KEY)
		state = python_state_by_key(unwind, process);
	if (!state && process->ways & PYTHON_WAY_TLS)
		state = python_state_by_tls(unwind, process);
	return state;
}

/* Go on with the frames of this thread state: its top frame, or what leads to it. */
UNWIND_INLINE void python_use_state(struct python_cursor *cursor,
				    const struct python_offsets *offsets, __u64 state)
{
	cursor->thread_state = state;
	if (offsets->state_cframe != PYTHON_NO_FIELD)
		cursor->cframe = python_read_pointer(state + offsets->state_cframe);
	if (offsets->state_frame != PYTHON_NO_FIELD)
		cursor->frame = python_read_pointer(state + offsets->state_frame);
}

UNWIND_INLINE bool python_is_exhausted(const struct python_cursor *cursor)
{
	return !cursor->frame && !cursor->cframe && !cursor->opcode_shim;
}

/*
 * A thread that runs a subinterpreter has a state in each of the two, and what is found by the key is the
 * inner one's. When its frames are used up, and where there is no other way to a state at all, the list of
 * the main interpreter's threads tells. Returns false if that was done already, or cannot be.
 */
UNWIND_INLINE bool python_begin_walk(struct unwind *unwind, const struct python_offsets *offsets)
{
	struct python_cursor *cursor = &unwind->python;
	__u64 interpreter;

	if (cursor->walked || !(unwind->process.python.ways & PYTHON_WAY_LIST))
		return false;
	cursor->walked = 1;
	interpreter = python_read_pointer(unwind->process.python.interpreter);
	if (!interpreter)
		return false;
	cursor->walk_next = python_read_pointer(interpreter + offsets->interpreter_threads);
	cursor->state = PYTHON_WALKING;
	return true;
}

/* ---- runs of frames ------------------------------------------------------------------------------ */

/* Remember where this run begins. */
UNWIND_INLINE void python_mark_run(struct unwind *unwind)
{
	struct python_cursor *cursor = &unwind->python;

	cursor->in_call = 0;
	cursor->entered_cframe = 0;
	cursor->run_frame = cursor->frame;
	cursor->run_hasher = unwind->hasher;
	cursor->run_frame_count = unwind->frame_count;
	cursor->run_leaf_tag = unwind->leaf.tag;
}

/* These frames belong to another C frame: as if they had not been looked at. */
UNWIND_INLINE void python_undo_run(struct unwind *unwind)
{
	struct python_cursor *cursor = &unwind->python;

	cursor->frame = cursor->run_frame;
	unwind->hasher = cursor->run_hasher;
	unwind->frame_count = cursor->run_frame_count;
	unwind->leaf.tag = cursor->run_leaf_tag;
}

/* Does @address lie beyond the loop's C frame? If nobody knows its end, leaving it will fail too. */
UNWIND_INLINE bool python_is_above(struct unwind *unwind, __u64 address)
{
	__u64 cfa;

	if (unwind_find_cfa(unwind, &unwind->rule, &cfa))
		return false;
	return address >= cfa;
}

/* The native frame is kept after all. */
UNWIND_INLINE long python_reject(struct unwind *unwind)
{
	unwind->python.state = PYTHON_REJECTED;
	unwind->in_python = 0;
	unwind->frame_is_kept = 0;
	return 0;
}

UNWIND_INLINE bool python_run_is_empty(const struct unwind *unwind)
{
	return unwind->frame_count == unwind->python.run_frame_count &&
	       unwind->leaf.tag == unwind->python.run_leaf_tag;
}

/* What a step has come to. */
enum python_outcome {
	PYTHON_CONTINUES = 0,
	PYTHON_STOPS = 1,   // the whole stack ends
	PYTHON_ENDS = 2,    // the frames of this C frame do
	PYTHON_REJECTS = 3, // there are none for it
};

/* The run is over: if it gave no frame, another state may have some, or the native one is kept. */
UNWIND_INLINE long python_end_run(struct unwind *unwind, const struct python_offsets *offsets)
{
	struct python_cursor *cursor = &unwind->python;

	if (!python_run_is_empty(unwind)) {
		unwind->in_python = 0;
		return 0;
	}
	if (python_is_exhausted(cursor) && python_begin_walk(unwind, offsets))
		return 0;
	return python_reject(unwind);
}

/*
 * A call of the loop whose mark on the C stack is at @mark ends here. A mark below this C frame is that of
 * a call further in, whose C frame was not recognized: its frames are kept here, before our own.
 */
UNWIND_INLINE enum python_outcome python_end_call(struct unwind *unwind, __u64 mark)
{
	if (mark && mark < unwind->registers[REGISTER_SP]) {
		unwind->python.in_call = 0;
		return PYTHON_CONTINUES;
	}
	return PYTHON_ENDS;
}

/* The last link lies in the thread's state, which is smaller than this up to 3.12. */
#define PYTHON_STATE_BYTES 1024

/*
 * The C frame's own link to its Python frames, 3.10 to 3.12: it lies on the C stack, in the C frame it
 * belongs to. If it lies further up, the loop has just been entered or is about to be left.
 * Returns 1 if there is nothing to be had here.
 */
UNWIND_INLINE long python_enter_cframe(struct unwind *unwind, const struct python_offsets *offsets)
{
	struct python_cursor *cursor = &unwind->python;
	__u64 cframe = cursor->cframe;

	if (cframe - cursor->thread_state < PYTHON_STATE_BYTES) {
		cursor->cframe = 0;
		cursor->frame = 0;
		return 1;
	}
	if (!cframe || python_is_above(unwind, cframe))
		return 1;
	cursor->entered_cframe = cframe;
	cursor->cframe = python_read_pointer(cframe + offsets->cframe_previous);
	if (offsets->cframe_frame != PYTHON_NO_FIELD)
		cursor->frame = python_read_pointer(cframe + offsets->cframe_frame);
	return !cursor->frame;
}

/* ---- one frame ----------------------------------------------------------------------------------- */

/* Where the code that a frame runs begins: threads without a GIL have copies of their own. */
UNWIND_INLINE __u64 python_code_begin(const struct python_cursor *cursor,
				      const struct python_offsets *offsets, __u64 code)
{
	__u32 copy;
	__u64 copies;

	if (offsets->frame_tlbc == PYTHON_NO_FIELD)
		return code + offsets->code_instructions;
	copy = (__u32)(python_frame_word(cursor, offsets->frame_tlbc) >>
		       (offsets->frame_tlbc & 4 ? 32 : 0));
	if (!copy || copy > 0xffff)
		return code + offsets->code_instructions;
	// struct _PyCodeArray: size, then the copies.
	copies = python_read_pointer(code + offsets->code_tlbc);
	return copies ? python_read_pointer(copies + 8 + copy * 8ULL) : 0;
}

UNWIND_INLINE __u32 python_index(const struct python_cursor *cursor,
				 const struct python_offsets *offsets, __u64 code)
{
	__u64 word = python_frame_word(cursor, offsets->frame_position);
	__s64 index;

	if (offsets->position == PYTHON_POSITION_POINTER) {
		index = (__s64)(word - python_code_begin(cursor, offsets, code)) >> 1;
	} else {
		index = (__s32)(word >> (offsets->frame_position & 4 ? 32 : 0));
		if (offsets->position == PYTHON_POSITION_BYTES)
			index >>= 1;
	}
	// One before the first: the function has not begun.
	if (index == -1)
		return 0;
	return index < 0 || index > PYTHON_INDEX_MAX ? PYTHON_INDEX_MAX : index;
}

/*
 * Include/cpython/code.h. Functions' code has both flags, other code none. With the first one alone it is
 * code of the interpreter's own (_Py_InitCleanup, 3.12 and newer), which calls __init__() for a class.
 */
#define PYTHON_CO_OPTIMIZED 1
#define PYTHON_CO_NEWLOCALS 2

UNWIND_INLINE bool python_is_trampoline(__u32 flags, __u32 firstlineno)
{
	return !firstlineno &&
	       (flags & (PYTHON_CO_OPTIMIZED | PYTHON_CO_NEWLOCALS)) == PYTHON_CO_OPTIMIZED;
}

/* Is what lies in the cursor a code object? With no address to compare, all are. */
UNWIND_INLINE bool python_is_code(const struct unwind *unwind, const struct python_offsets *offsets)
{
	const struct python_cursor *cursor = &unwind->python;
	__u64 wanted = unwind->process.python.code_type;
	__u64 type = python_code_int(cursor, offsets->code_type) |
		     (__u64)python_code_int(cursor, offsets->code_type + 4) << 32;

	return !wanted || type == wanted;
}

/* Keep the frame that lies in the cursor. Returns as unwind_add(). */
UNWIND_INLINE long python_keep(struct unwind *unwind, const struct python_offsets *offsets,
			       __u64 code)
{
	struct python_cursor *cursor = &unwind->python;
	__u32 checksum = 0, flags, firstlineno;

	if (!read_user(cursor->code_words, PYTHON_CODE_BYTES, code + offsets->code_start)) {
		flags = python_code_int(cursor, offsets->code_flags);
		firstlineno = python_code_int(cursor, offsets->code_firstlineno);
		if (!python_is_code(unwind, offsets) || python_is_trampoline(flags, firstlineno))
			return 0; // no function's frame
		checksum = python_checksum(python_code_int(cursor, offsets->code_argcount),
					   python_code_int(cursor, offsets->code_kwonlyargcount),
					   flags, firstlineno,
					   python_code_int(cursor, offsets->code_marks[0]),
					   python_code_int(cursor, offsets->code_marks[1]));
	}
	return unwind_add(unwind, code, FRAME_TAG_PYTHON,
			  PYTHON_DETAIL(python_index(cursor, offsets, code), checksum));
}

/* Read the frame that is next into the cursor. */
UNWIND_INLINE long python_read_frame(struct unwind *unwind, const struct python_offsets *offsets)
{
	struct python_cursor *cursor = &unwind->python;
	__u32 size = offsets->frame_bytes;

	if (size > PYTHON_FRAME_BYTES_MAX)
		return -1;
	return read_user(cursor->frame_words, size, cursor->frame + offsets->frame_start);
}

/*
 * A shim ends the run, and lies in the C frame that it belongs to. If it is further up, the frames are
 * an outer call's and this one has just been entered. But an opcode that is a function of its own has the
 * frames of the loop that called it, which is the next C frame.
 */
UNWIND_INLINE enum python_outcome python_end_at_shim(struct unwind *unwind, __u64 shim)
{
	if (!python_is_above(unwind, shim))
		return python_end_call(unwind, shim);
	if (unwind->rule.flags & RULE_PYTHON_OPCODE && !python_run_is_empty(unwind)) {
		unwind->python.opcode_shim = shim;
		return PYTHON_ENDS;
	}
	// Since 3.14 the last of all frames lies in the thread's state.
	if (!unwind->python.frame && python_run_is_empty(unwind))
		return PYTHON_ENDS;
	python_undo_run(unwind);
	return PYTHON_REJECTS;
}

/* The loop whose frames its opcode has taken: it has no others. Any other C frame is asked again. */
UNWIND_INLINE enum python_outcome python_pass_loop(struct unwind *unwind)
{
	__u64 shim = unwind->python.opcode_shim;

	unwind->python.opcode_shim = 0;
	if (shim >= unwind->registers[REGISTER_SP] && !python_is_above(unwind, shim))
		unwind->in_python = 0;
	return PYTHON_CONTINUES;
}

/* Look at one thread state of the list. */
UNWIND_INLINE enum python_outcome python_walk(struct unwind *unwind,
					      const struct python_offsets *offsets)
{
	struct python_cursor *cursor = &unwind->python;
	__u64 state = cursor->walk_next;

	if (!state)
		return PYTHON_REJECTS;
	if (cursor->walked++ >= PYTHON_WALK_MAX) {
		cursor->is_truncated = 1;
		return PYTHON_REJECTS;
	}
	cursor->walk_next = python_read_pointer(state + offsets->state_next);
	if (state == cursor->thread_state || !python_is_own_state(unwind, offsets, state))
		return PYTHON_CONTINUES;
	python_use_state(cursor, offsets, state);
	if (!python_is_exhausted(cursor)) {
		cursor->state = PYTHON_FOUND;
		python_mark_run(unwind);
	}
	return PYTHON_CONTINUES;
}

/* Keep the next frame of the run. */
UNWIND_INLINE enum python_outcome python_advance(struct unwind *unwind,
						 const struct python_offsets *offsets)
{
	struct python_cursor *cursor = &unwind->python;
	__u64 frame = cursor->frame, code;
	__u8 owner = 0;

	if (!frame)
		return PYTHON_ENDS;
	if (python_read_frame(unwind, offsets)) {
		cursor->frame = 0;
		cursor->is_truncated = 1;
		return PYTHON_ENDS;
	}
	if (offsets->frame_owner != PYTHON_NO_FIELD)
		owner = python_frame_word(cursor, offsets->frame_owner) >>
			(offsets->frame_owner & 7) * 8;
	cursor->frame = python_frame_word(cursor, offsets->frame_previous);
	if (offsets->entry == PYTHON_ENTRY_SHIM && owner >= offsets->shim_owner)
		return python_end_at_shim(unwind, frame);

	code = python_frame_word(cursor, offsets->frame_code) &
	       ~((1ULL << offsets->reference_tag_bits) - 1);
	if (python_keep(unwind, offsets, code))
		return PYTHON_STOPS;
	if (offsets->entry == PYTHON_ENTRY_EVERY || (offsets->entry == PYTHON_ENTRY_FLAG && owner))
		return python_end_call(unwind, cursor->entered_cframe);
	return PYTHON_CONTINUES;
}

UNWIND_INLINE enum python_outcome python_look(struct unwind *unwind,
					      const struct python_offsets *offsets)
{
	struct python_cursor *cursor = &unwind->python;

	if (cursor->state == PYTHON_WALKING)
		return python_walk(unwind, offsets);
	if (cursor->opcode_shim)
		return python_pass_loop(unwind);
	if (!cursor->in_call && offsets->state_cframe != PYTHON_NO_FIELD &&
	    python_enter_cframe(unwind, offsets))
		return PYTHON_ENDS;
	cursor->in_call = 1;
	return python_advance(unwind, offsets);
}

/* ---- what the loop calls ------------------------------------------------------------------------- */

/* Are there Python frames for the C frame at the pc, which is the interpreter's loop? */
UNWIND_INLINE int python_enter(struct unwind *unwind)
{
	__u32 runtime = unwind->process.python.runtime;
	const struct python_offsets *offsets = python_offsets_at(runtime);
	struct python_cursor *cursor = &unwind->python;

	if (!runtime || !offsets || cursor->state == PYTHON_NONE)
		return 0;
	if (cursor->state == PYTHON_REJECTED) {
		cursor->state = PYTHON_FOUND;
		return 0;
	}
	if (cursor->state == PYTHON_UNSEARCHED) {
		cursor->state = PYTHON_FOUND;
		python_use_state(cursor, offsets, python_find_state(unwind, offsets));
	}
	python_mark_run(unwind);
	if (!python_is_exhausted(cursor) || python_begin_walk(unwind, offsets))
		return 1;
	cursor->state = PYTHON_NONE;
	return 0;
}

/* Keep one Python frame of this C frame, or find that there are no more. */
UNWIND_INLINE long python_step(struct unwind *unwind)
{
	const struct python_offsets *offsets = python_offsets_at(unwind->process.python.runtime);

	if (!offsets)
		return python_reject(unwind);
	switch (python_look(unwind, offsets)) {
	case PYTHON_CONTINUES:
		return 0;
	case PYTHON_STOPS:
		return 1;
	case PYTHON_REJECTS:
		return python_reject(unwind);
	case PYTHON_ENDS:
		break;
	}
	return python_end_run(unwind, offsets);
}
