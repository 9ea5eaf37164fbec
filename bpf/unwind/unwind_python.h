/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Unwinds Python frames where the native stack is in the interpreter loop. A C frame of the loop stands for one
// Python frame up to 3.10, for a run of them since. Included by unwind.h.
//
// Frames that do not fit cost Python frames, never the stack: the native frame is stored instead. Unreadable and
// unknown frames make a complete end STACK_END_PYTHON.
#pragma once

enum python_cursor_state {
	PYTHON_UNSEARCHED = 0,
	PYTHON_FOUND = 1,
	PYTHON_NONE = 2,     // this thread has no Python frames
	PYTHON_REJECTED = 3, // none for this C frame; try the next C frame
	PYTHON_WALKING = 4,  // searching another state of this thread
};

/* Thread states searched per stack, one a step: a service has some hundred threads. */
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
	unwind->python.piece.start = PYTHON_PIECE_NONE;
	unwind->python.read_frame = 0;
}

/* Masked for the verifier. Offsets are even, and checked by the agent. */
UNWIND_INLINE __u64 python_frame_word(const struct python_cursor *cursor, __u32 offset)
{
	__u64 at = cursor->frame_at + (__u64)(offset & 0x78);

	HIDE_FROM_COMPILER(at); // keep the bound
	return cursor->piece.words[at / 8 & (PYTHON_PIECE_BYTES / 8 - 1)];
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

/* pthread_getspecific(autoTSSkey): valid also while the thread does not hold the GIL. */
UNWIND_INLINE __u64 python_state_by_key(const struct unwind *unwind,
					const struct python_process *process)
{
	__u64 value = python_read_pointer(unwind->thread_pointer + (__s64)process->key_at);

	if (process->ways & PYTHON_WAY_KEY_INSIDE && value)
		value = python_read_pointer(value + process->key_inside);
	return value;
}

/*
 * _Py_tss_tstate is 0 while the thread does not hold the GIL; 3.15's replacement of the key is not. Only the
 * value says which of the two it is.
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

/* Does @state belong to the unwound thread? */
UNWIND_INLINE bool python_is_own_state(const struct unwind *unwind,
				       const struct python_offsets *offsets, __u64 state)
{
	return python_read_pointer(state + offsets->state_thread) ==
	       unwind->thread_pointer + unwind->process.python.self_at;
}

/*
 * Up to 3.11 a thread inside a subinterpreter has a second state, which no key holds. The thread holds the GIL
 * then.
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

/*
 * Does the unwound thread hold the GIL of its interpreter? False if unknown, and without a GIL. Before 3.12 the runtime has the
 * holder, then each thread's state.
 */
UNWIND_INLINE bool python_holds_gil(const struct unwind *unwind,
				    const struct python_offsets *offsets)
{
	const struct python_process *process = &unwind->process.python;
	__u32 status = 0;
	__u64 state;

	if (process->ways & PYTHON_WAY_HOLDER)
		return python_state_by_holder(unwind, process, offsets) != 0;
	if (offsets->state_status == PYTHON_NO_FIELD)
		return false;
	state = python_find_state(unwind, offsets);
	return state && !read_user(&status, sizeof(status), state + offsets->state_status) &&
	       (status & offsets->status_holds_gil) == offsets->status_holds_gil;
}

/* Continues with the frames of this thread state. */
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
 * A thread inside a subinterpreter has two states, and the key holds the inner one. When its frames are used up,
 * or there is no other way to a state, search the main interpreter's list of threads. Returns false if that is
 * done or impossible.
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

/* These frames belong to another C frame: discard the run. */
UNWIND_INLINE void python_undo_run(struct unwind *unwind)
{
	struct python_cursor *cursor = &unwind->python;

	cursor->frame = cursor->run_frame;
	unwind->hasher = cursor->run_hasher;
	unwind->frame_count = cursor->run_frame_count;
	unwind->leaf.tag = cursor->run_leaf_tag;
}

/* Does @address lie beyond the loop's C frame? If its end is unknown, leaving it will fail, too. */
UNWIND_INLINE bool python_is_above(struct unwind *unwind, __u64 address)
{
	__u64 cfa;

	if (unwind_find_cfa(unwind, &unwind->rule, &cfa))
		return false;
	return address >= cfa;
}

/* Stores the native frame after all. */
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

enum python_outcome {
	PYTHON_CONTINUES = 0,
	PYTHON_STOPS = 1,   // the stack ends
	PYTHON_ENDS = 2,    // this C frame has no more frames
	PYTHON_REJECTS = 3, // this C frame has no frames
};

/* If the run gave no frame, try another thread state, or store the native frame. */
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
 * A call of the loop ends, whose frame is at @mark on the C stack. If that is below this C frame, an inner call's
 * C frame was not recognized, and its Python frames come before our own.
 */
UNWIND_INLINE enum python_outcome python_end_call(struct unwind *unwind, __u64 mark)
{
	if (mark && mark < unwind->registers[REGISTER_SP]) {
		unwind->python.in_call = 0;
		return PYTHON_CONTINUES;
	}
	return PYTHON_ENDS;
}

/* The last link lies in the thread state, which is smaller than this up to 3.12. */
#define PYTHON_STATE_BYTES 1024

/*
 * Follows the C frame's link to its Python frames, 3.10 to 3.12. It lies in the C frame that it belongs to; if it
 * lies higher, the loop is just being entered or left. Returns 1 if there are no frames here.
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

/* The start of a frame's bytecode: without the GIL, threads have copies of their own. */
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
	// -1: the function has not begun.
	if (index == -1)
		return 0;
	return index < 0 || index > PYTHON_INDEX_MAX ? PYTHON_INDEX_MAX : index;
}

/*
 * Include/cpython/code.h. Python functions have both flags, other code none. OPTIMIZED alone marks the
 * interpreter's own trampoline (_Py_InitCleanup, since 3.12), which calls __init__().
 */
#define PYTHON_CO_OPTIMIZED 1
#define PYTHON_CO_NEWLOCALS 2

UNWIND_INLINE bool python_is_trampoline(__u32 flags, __u32 firstlineno)
{
	return !firstlineno &&
	       (flags & (PYTHON_CO_OPTIMIZED | PYTHON_CO_NEWLOCALS)) == PYTHON_CO_OPTIMIZED;
}

/* Is the cursor's object a code object? True if its type's address is unknown. */
UNWIND_INLINE bool python_is_code(const struct unwind *unwind, const struct python_offsets *offsets)
{
	const struct python_cursor *cursor = &unwind->python;
	__u64 wanted = unwind->process.python.code_type;
	__u64 type = python_code_int(cursor, offsets->code_type) |
		     (__u64)python_code_int(cursor, offsets->code_type + 4) << 32;

	return !wanted || type == wanted;
}

/* Stores the cursor's frame. Returns as unwind_add(). */
UNWIND_INLINE long python_keep(struct unwind *unwind, const struct python_offsets *offsets,
			       __u64 code)
{
	struct python_cursor *cursor = &unwind->python;
	__u32 checksum = 0, flags, firstlineno;

	if (!read_user(cursor->code_words, PYTHON_CODE_BYTES, code + offsets->code_start)) {
		flags = python_code_int(cursor, offsets->code_flags);
		firstlineno = python_code_int(cursor, offsets->code_firstlineno);
		if (!python_is_code(unwind, offsets) || python_is_trampoline(flags, firstlineno))
			return 0; // not a function's frame
		checksum = python_checksum(python_code_int(cursor, offsets->code_argcount),
					   python_code_int(cursor, offsets->code_kwonlyargcount),
					   flags, firstlineno,
					   python_code_int(cursor, offsets->code_marks[0]),
					   python_code_int(cursor, offsets->code_marks[1]));
	}
	return unwind_add(unwind, code, FRAME_TAG_PYTHON,
			  PYTHON_DETAIL(python_index(cursor, offsets, code), checksum));
}

/* Fills the piece, so that it begins with @address. */
UNWIND_INLINE long python_read_frame_alone(struct python_cursor *cursor, __u64 address, __u32 size)
{
	cursor->piece.start = PYTHON_PIECE_NONE;
	cursor->frame_at = 0;
	return read_user(cursor->piece.words, size, address);
}

/*
 * Fills the piece with the frame at @address and what lies below, or above where a page begins: what lies there may
 * not be mapped.
 */
UNWIND_INLINE long python_fill_piece(struct python_cursor *cursor, __u64 address, __u32 size)
{
	__u64 page = address & ~4095ULL;
	__u64 start = ((address + size + 7) & ~7ULL) - PYTHON_PIECE_BYTES;

	start = start < page ? page : start;
	cursor->piece.start = start;
	cursor->frame_at = address - start;
	return read_user(cursor->piece.words, PYTHON_PIECE_BYTES, start);
}

/* @inner is the frame that this one has called, or 0. */
UNWIND_INLINE long python_read_frame(struct python_cursor *cursor,
				     const struct python_offsets *offsets, __u64 inner)
{
	__u64 address = cursor->frame + offsets->frame_start;
	__u64 at = address - cursor->piece.start;
	__u32 size = offsets->frame_bytes;

	if (size > PYTHON_FRAME_BYTES_MAX || address >= USER_ADDRESS_LIMIT)
		return -1;
	if (at <= PYTHON_PIECE_BYTES - PYTHON_FRAME_BYTES_MAX && !(at & 7)) {
		cursor->frame_at = at;
		return 0;
	}
	// Frames of generators lie anywhere: a piece would be read for one.
	if (inner - cursor->frame < PYTHON_PIECE_BYTES && !(address & 7) &&
	    !python_fill_piece(cursor, address, size))
		return 0;
	return python_read_frame_alone(cursor, address, size);
}

/*
 * A shim ends the run and lies in its own C frame. If it lies higher, the frames belong to an outer call and this
 * one has just begun. An opcode function has the frames of the loop that called it, the next C frame.
 */
UNWIND_INLINE enum python_outcome python_end_at_shim(struct unwind *unwind, __u64 shim)
{
	if (!python_is_above(unwind, shim))
		return python_end_call(unwind, shim);
	if (unwind->rule.flags & RULE_PYTHON_OPCODE && !python_run_is_empty(unwind)) {
		unwind->python.opcode_shim = shim;
		return PYTHON_ENDS;
	}
	// Since 3.14 the very last frame lies in the thread state.
	if (!unwind->python.frame && python_run_is_empty(unwind))
		return PYTHON_ENDS;
	python_undo_run(unwind);
	return PYTHON_REJECTS;
}

/* The loop's frames were given to its opcode function: it has no others. */
UNWIND_INLINE enum python_outcome python_pass_loop(struct unwind *unwind)
{
	__u64 shim = unwind->python.opcode_shim;

	unwind->python.opcode_shim = 0;
	if (shim >= unwind->registers[REGISTER_SP] && !python_is_above(unwind, shim))
		unwind->in_python = 0;
	return PYTHON_CONTINUES;
}

UNWIND_INLINE enum python_outcome python_walk(struct unwind *unwind,
					      const struct python_offsets *offsets)
{
	struct python_cursor *cursor = &unwind->python;
	__u64 state = cursor->walk_next;

	if (!state) {
		cursor->is_truncated |= !cursor->thread_state;
		return PYTHON_REJECTS;
	}
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

/* Stores the next frame of the run. */
UNWIND_INLINE enum python_outcome python_advance(struct unwind *unwind,
						 const struct python_offsets *offsets)
{
	struct python_cursor *cursor = &unwind->python;
	__u64 frame = cursor->frame, code;
	__u8 owner = 0;

	if (!frame)
		return PYTHON_ENDS;
	if (python_read_frame(cursor, offsets, cursor->read_frame)) {
		cursor->frame = 0;
		cursor->is_truncated = 1;
		return PYTHON_ENDS;
	}
	cursor->read_frame = frame;
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

/* The loop runs a Python function, and nothing says which: the stack does not end as if it were whole. */
UNWIND_INLINE int python_is_unknown(struct python_cursor *cursor)
{
	cursor->is_truncated = 1;
	return 0;
}

/* At the interpreter loop's C frame: does it have Python frames? */
UNWIND_INLINE int python_enter(struct unwind *unwind)
{
	__u32 runtime = unwind->process.python.runtime;
	struct python_cursor *cursor = &unwind->python;
	const struct python_offsets *offsets;

	// A snapshot, an interpreter that is not published yet, or one of an unknown version.
	if (!unwind_python || !runtime)
		return python_is_unknown(cursor);
	offsets = python_offsets_at(runtime);
	if (!offsets)
		return python_is_unknown(cursor);
	if (cursor->state == PYTHON_NONE)
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
	return cursor->thread_state ? 0 : python_is_unknown(cursor);
}

/* Stores one Python frame of this C frame, or ends the run. */
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
