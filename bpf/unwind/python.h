/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// What the unwinder must know of CPython: where a build of the interpreter keeps its fields, where a
// process has its thread states, and how a Python frame is written into a stack.
#pragma once

#include <linux/types.h>

#include "bpf/unwind/stack_hash.h"

/* Distinct builds of interpreters on a node; number 0 stands for "no Python". */
#define PYTHON_RUNTIMES_MAX 64

/* How the frames that one call of the interpreter's loop runs end. */
enum python_entry {
	PYTHON_ENTRY_EVERY = 0, // up to 3.10: each call of the loop runs one frame
	PYTHON_ENTRY_FLAG = 1,  // 3.11: the first frame of a call has is_entry set
	PYTHON_ENTRY_SHIM = 2,  // 3.12 and newer: a frame without code, on the C stack, comes last
};

/* What a frame says of the instruction it stands at. */
enum python_position {
	PYTHON_POSITION_BYTES = 0,   // up to 3.9: f_lasti, an int, in bytes
	PYTHON_POSITION_UNITS = 1,   // 3.10: f_lasti, an int, in code units of two bytes
	PYTHON_POSITION_POINTER = 2, // 3.11 and newer: a pointer into the code
};

#define PYTHON_FRAME_BYTES_MAX 112 // 3.6: from f_back to f_lasti are 100
#define PYTHON_CODE_BYTES      88  // the head of a code object, all counts and marks included

/* No such field in this version. */
#define PYTHON_NO_FIELD 0xffff

/*
 * Where one build of CPython keeps what the unwinder reads; the same for all processes that run it.
 * Offsets are in bytes. Those of a frame count from frame_start, those of a code object's counts
 * from code_start, so that one read of each gets everything.
 */
struct python_offsets {
	__u16 minor;             // of 3.minor
	__u8 entry;              // enum python_entry
	__u8 position;           // enum python_position
	__u8 free_threaded;      // 1: built without the GIL
	__u8 shim_owner;         // a frame's owner from this value on: no Python function's frame
	__u8 reference_tag_bits; // low bits of a frame's references that are not a part of the address
	__u8 pad;

	__u16 state_frame;  // thread state: its top frame, or where state_cframe is used, unused
	__u16 state_cframe; // thread state: link to the C frame of the loop, 3.10 to 3.12
	__u16 cframe_frame; // there: its top frame, 3.11 and 3.12
	__u16 cframe_previous;
	__u16 state_thread;        // thread state: pthread_self() of its thread
	__u16 state_next;          // thread state: the next one of its interpreter
	__u16 interpreter_threads; // interpreter: its first thread state

	__u16 frame_start; // what is read of a frame begins here
	__u16 frame_bytes; // and has this many bytes
	__u16 frame_previous;
	__u16 frame_code;
	__u16 frame_position;
	__u16 frame_owner; // a byte: is_entry (3.11) or owner
	__u16 frame_tlbc;  // index of the thread's copy of the code (3.14 without the GIL)

	__u16 code_start; // what is read of a code object: PYTHON_CODE_BYTES from here
	__u16 code_type;  // ob_type
	__u16 code_argcount;
	__u16 code_kwonlyargcount;
	__u16 code_flags;
	__u16 code_firstlineno;
	// Ints that tell it from another one in its place: of pointers to its own parts, or its version.
	__u16 code_marks[2];
	__u16 code_instructions; // from the object's start: co_code_adaptive
	__u16 code_tlbc;         // from the object's start: co_tlbc

	// For the agent, which names frames; from the object's start.
	__u16 code_name;  // co_qualname; up to 3.10 co_name
	__u16 code_file;  // co_filename
	__u16 code_lines; // co_linetable; up to 3.9 co_lnotab
};

/* Ways to the state of a thread, in struct python_process.ways. */
#define PYTHON_WAY_KEY         1  // key_at below holds: pthread_getspecific(autoTSSkey)
#define PYTHON_WAY_KEY_INSIDE  2  // what lies at key_at is a pointer to a table: key_inside in it
#define PYTHON_WAY_TLS         4  // tls_at below holds: the variable _Py_tss_tstate
#define PYTHON_WAY_TLS_DYNAMIC 8  // tls_at is the offset in a module's block, found by the DTV
#define PYTHON_WAY_HOLDER      16 // the holder of the GIL is at `holder`
#define PYTHON_WAY_LIST        32 // the main interpreter's threads can be gone through

/* Where one process has its thread states. All zero: no Python. */
struct python_process {
	__u32 runtime; // number of its struct python_offsets; 0: no Python
	__u32 ways;    // PYTHON_WAY_...
	__s32 key_at;  // from the thread pointer
	__u32 key_inside;
	__s64 tls_at;      // from the thread pointer, or in the module's block
	__s64 tls_also_at; // another such variable, tried where the first is 0
	__s32 dtv_at;      // from the thread pointer: pointer to the DTV
	__u32 dtv_inside;  // there: pointer to the module's block
	__u64 code_type;   // &PyCode_Type
	__u64 holder;      // &tstate_current, up to 3.11; only ever believed if it is this thread's
	__u64 interpreter; // &_PyRuntime.interpreters.main
	__s64 self_at; // pthread_self(), by which states name their threads; from the thread pointer
};

/* Where the Python side of an unwind stands. */
struct python_cursor {
	__u64 frame;          // the next Python frame; 0: none
	__u64 cframe;         // the next link of a call of the loop to its frames, 3.10 to 3.12
	__u64 entered_cframe; // the one before it; 0: none
	__u64 opcode_shim;    // its frames were kept for an opcode; 0: none
	__u64 thread_state;   // whose frames they are; 0: none was found
	__u64 walk_next;      // the next state of the list of threads
	__u32 state;          // enum python_cursor_state
	__u32 in_call;        // a call's frames were begun: its link is taken
	__u32 walked;         // states of that list; 0: it was not begun
	__u32 is_truncated;   // frames that could not be read, or found, are missing
	// What to go back to when the frames turn out not to belong to this call of the loop.
	__u64 run_frame;
	struct stack_hasher run_hasher;
	__u32 run_frame_count;
	__u32 run_leaf_tag;
	// One read each.
	__u64 frame_words[PYTHON_FRAME_BYTES_MAX / 8 + 2];
	__u64 code_words[PYTHON_CODE_BYTES / 8 + 6];
};

/* ---- the detail of a Python frame -------------------------------------------------------------- */

/*
 * raw_frame.detail: the instruction's index in code units, and a checksum over the code object's
 * head, by which the agent sees that the address belongs to another code object by now. Checksum
 * 0: the code object was not readable.
 */
#define PYTHON_INDEX_BITS   20
#define PYTHON_INDEX_MAX    ((1U << PYTHON_INDEX_BITS) - 1) // this one or beyond, or unknown
#define PYTHON_CHECKSUM_MAX ((1U << (32 - PYTHON_INDEX_BITS)) - 1)
#define PYTHON_DETAIL(index, checksum)                                      \
	(((index) > PYTHON_INDEX_MAX ? PYTHON_INDEX_MAX : (__u32)(index)) | \
	 (__u32)(checksum) << PYTHON_INDEX_BITS)
#define PYTHON_DETAIL_INDEX(detail)    ((detail)&PYTHON_INDEX_MAX)
#define PYTHON_DETAIL_CHECKSUM(detail) ((detail) >> PYTHON_INDEX_BITS)

/*
 * Of co_argcount, co_kwonlyargcount, co_flags, co_firstlineno and the marks: 1 to
 * PYTHON_CHECKSUM_MAX. A program that compiles functions as it goes gives most of them the address
 * and the counts of one before, but hardly ever its marks too: none of 1,000 in 3.6 to 3.10 and 3.12
 * and newer, 6 in 3.11.
 */
static inline __attribute__((always_inline)) __u32 python_checksum(__u32 argcount,
								   __u32 kwonlyargcount,
								   __u32 flags, __u32 firstlineno,
								   __u32 mark, __u32 other_mark)
{
	__u64 mixed = (argcount ^ (__u64)flags << 32) * HASH_C1;

	mixed = (hash_rotate(mixed, 31) ^ firstlineno ^ (__u64)kwonlyargcount << 32) * HASH_C2;
	mixed = (hash_rotate(mixed, 31) ^ mark ^ (__u64)other_mark << 32) * HASH_C1;
	mixed >>= 64 - (32 - PYTHON_INDEX_BITS);
	return mixed ? (__u32)mixed : 1;
}
