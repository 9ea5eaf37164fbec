/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Compares a thread's Python frames with cached ones. It hashes what the unwinder reads of each frame:
// its address, its code object and its instruction. That takes a tenth of unwinding, as the native
// frames between them are skipped, and the frames of a thread, which lie one after the other, are read in pieces.
#pragma once

#include "bpf/stacks/unwind_memory.bpf.h"

/* Deeper Python stacks are never cached. */
#define PYTHON_CACHED_FRAMES_MAX 128

/* A thread's Python frames, hashed. */
struct python_frames {
	__u64 state; // the interpreter's thread state; 0: no Python
	__u64 hash;  // 0: unreadable or too deep
	__u32 runtime;
	__u32 count;
};

/* State of a running hash. */
struct python_hash {
	struct python_frames of;
	struct python_cursor cursor; // only what reads frames
};

struct python_hash_walk {
	struct python_hash *hash;
	const struct python_offsets *offsets;
};

static __always_inline void python_hash_add(struct python_hash *hash, __u64 word)
{
	hash->of.hash = (hash->of.hash ^ word) * HASH_C1;
	hash->of.hash ^= hash->of.hash >> 29;
}

static __always_inline __u64 python_hash_position(const struct python_cursor *cursor,
						  const struct python_offsets *offsets)
{
	__u64 word = python_frame_word(cursor, offsets->frame_position);

	if (offsets->position == PYTHON_POSITION_POINTER)
		return word;
	return (__u32)(word >> (offsets->frame_position & 4 ? 32 : 0));
}

static __always_inline __u64 python_hash_owner(const struct python_cursor *cursor,
					       const struct python_offsets *offsets)
{
	if (offsets->frame_owner == PYTHON_NO_FIELD)
		return 0;
	return (__u8)(python_frame_word(cursor, offsets->frame_owner) >>
		      (offsets->frame_owner & 7) * 8);
}

/* The code object's address, and a field that differs if another one reuses the address. */
static __always_inline void python_hash_code(struct python_hash *hash,
					     const struct python_offsets *offsets)
{
	__u64 code = python_frame_word(&hash->cursor, offsets->frame_code) &
		     ~((1ULL << (offsets->reference_tag_bits & 7)) - 1);
	__u64 mark = 0;

	python_hash_add(hash, code);
	if (!read_user(&mark, sizeof(mark), code + offsets->code_start + offsets->code_marks[0]))
		python_hash_add(hash, mark);
}

static long hash_python_frame(__u32 index, struct python_hash_walk *walk)
{
	const struct python_offsets *offsets = walk->offsets;
	struct python_hash *hash = walk->hash;
	struct python_cursor *cursor = &hash->cursor;
	__u64 frame = cursor->frame;

	if (!frame || python_read_frame(cursor, offsets, cursor->read_frame))
		return 1;
	cursor->read_frame = frame;
	python_hash_add(hash, frame | python_hash_owner(cursor, offsets) << 56);
	python_hash_add(hash, python_hash_position(cursor, offsets));
	python_hash_code(hash, offsets);
	cursor->frame = python_frame_word(cursor, offsets->frame_previous);
	hash->of.count = index + 1;
	return 0;
}

/* The thread state's top frame, and the link to it. */
static __always_inline void python_hash_top(struct python_hash *hash,
					    const struct python_offsets *offsets)
{
	__u64 state = hash->of.state, owner = 0, link = 0;

	hash->cursor.frame = 0;
	hash->cursor.read_frame = 0;
	hash->cursor.piece.start = PYTHON_PIECE_NONE;
	// The thread state may belong to another thread by now.
	if (read_user(&owner, sizeof(owner), state + offsets->state_thread))
		return;
	python_hash_add(hash, owner);
	if (offsets->state_cframe != PYTHON_NO_FIELD &&
	    !read_user(&link, sizeof(link), state + offsets->state_cframe))
		python_hash_add(hash, link);
	if (offsets->state_frame != PYTHON_NO_FIELD)
		read_user(&hash->cursor.frame, sizeof(hash->cursor.frame),
			  state + offsets->state_frame);
	else if (link && offsets->cframe_frame != PYTHON_NO_FIELD)
		read_user(&hash->cursor.frame, sizeof(hash->cursor.frame),
			  link + offsets->cframe_frame);
}

/* Hashes the frames of hash->of.state. */
__attribute__((noinline)) int hash_python_frames(struct python_hash *hash)
{
	struct python_hash_walk walk = {};

	if (!hash)
		return 0;
	walk.hash = hash;
	walk.offsets = python_offsets_at(hash->of.runtime);
	hash->of.hash = 0;
	hash->of.count = 0;
	if (!walk.offsets)
		return 0;
	python_hash_top(hash, walk.offsets);
	bpf_loop(PYTHON_CACHED_FRAMES_MAX, hash_python_frame, &walk, 0);
	if (hash->cursor.frame || !hash->of.count)
		hash->of.hash = 0;
	return 0;
}

/*
 * Hashes the frames that @unwind has just found. False if there are none, or if the unwinder had to
 * search the list of thread states: the next unwind may find others.
 */
static __always_inline bool find_python_frames(struct python_hash *hash,
					       const struct unwind *unwind)
{
	if (!unwind->python.thread_state || unwind->python.walked)
		return false;
	hash->of.state = unwind->python.thread_state;
	hash->of.runtime = unwind->process.python.runtime;
	hash_python_frames(hash);
	return hash->of.hash != 0;
}

/* Each state is hashed once for all cached stacks of a thread. */
static __always_inline bool python_frames_match(const struct python_frames *cached,
						struct python_hash *hash)
{
	if (!cached->state)
		return true;
	if (hash->of.state != cached->state) {
		hash->of.state = cached->state;
		hash->of.runtime = cached->runtime;
		hash_python_frames(hash);
	}
	return hash->of.hash == cached->hash;
}
