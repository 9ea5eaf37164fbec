/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// CPython for the unwinder: field offsets of an interpreter build, where a process keeps its thread states,
// and how a Python frame is stored in a stack.
#pragma once

#include <linux/types.h>

#include "bpf/unwind/stack_hash.h"

/* Distinct interpreter builds on a node; number 0: no Python. */
#define PYTHON_RUNTIMES_MAX 64

/* How the Python frames of one call of the interpreter loop end. */
enum python_entry {
	PYTHON_ENTRY_EVERY = 0, // up to 3.10: each call of the loop runs one frame
	PYTHON_ENTRY_FLAG = 1,  // 3.11: a call's first frame has is_entry set
	PYTHON_ENTRY_SHIM = 2,  // 3.12 and newer: the last frame is a shim on the C stack
};

/* How a frame stores its instruction. */
enum python_position {
	PYTHON_POSITION_BYTES = 0,   // up to 3.9: f_lasti, an int, in bytes
	PYTHON_POSITION_UNITS = 1,   // 3.10: f_lasti, an int, in code units of two bytes
	PYTHON_POSITION_POINTER = 2, // 3.11 and newer: a pointer into the code
};

#define PYTHON_FRAME_BYTES_MAX 112 // 3.6 needs 100: from f_back to f_lasti
#define PYTHON_CODE_BYTES      88  // the head of a code object

/* This version has no such field. */
#define PYTHON_NO_FIELD 0xffff

/*
 * Field offsets of one CPython build, in bytes. Frame fields count from frame_start, code counts from
 * code_start: one read of each gets everything.
 */
struct python_offsets {
	__u16 minor;             // of 3.minor
	__u8 entry;              // enum python_entry
	__u8 position;           // enum python_position
	__u8 free_threaded;      // 1: built without the GIL
	__u8 shim_owner;         // frames with this owner or above run no Python function
	__u8 reference_tag_bits; // low bits of a frame's references that are tags
	__u8 pad;

	__u16 state_frame;  // thread state: its top frame; unused with state_cframe
	__u16 state_cframe; // thread state: link to the interpreter loop's C frame, 3.10 to 3.12
	__u16 cframe_frame; // C frame: its top frame, 3.11 and 3.12
	__u16 cframe_previous;
	__u16 state_thread; // thread state: pthread_self() of its thread
	__u16 state_next;   // thread state: the next one of its interpreter
	__u16 state_status; // thread state: four bytes that say whether it holds the GIL, since 3.12
	__u16 status_holds_gil;    // these bits are all set then
	__u16 interpreter_threads; // interpreter: its first thread state

	__u16 frame_start; // first byte that is read of a frame
	__u16 frame_bytes; // bytes that are read
	__u16 frame_previous;
	__u16 frame_code;
	__u16 frame_position;
	__u16 frame_owner; // a byte: is_entry (3.11) or owner
	__u16 frame_tlbc;  // index of the thread's bytecode copy (3.14 without the GIL)

	__u16 code_start; // first of PYTHON_CODE_BYTES that are read of a code object
	__u16 code_type;  // ob_type
	__u16 code_argcount;
	__u16 code_kwonlyargcount;
	__u16 code_flags;
	__u16 code_firstlineno;
	// Ints that differ when another code object reuses the address: pointers to its own parts, or its version.
	__u16 code_marks[2];
	__u16 code_instructions; // from the object's start: co_code_adaptive
	__u16 code_tlbc;         // from the object's start: co_tlbc

	// For the agent, to name frames; from the object's start.
	__u16 code_name;  // co_qualname; up to 3.10 co_name
	__u16 code_file;  // co_filename
	__u16 code_lines; // co_linetable; up to 3.9 co_lnotab
};

/* How to find a thread's state: bits of struct python_process.ways. */
#define PYTHON_WAY_KEY         1  // pthread_getspecific(autoTSSkey), at key_at
#define PYTHON_WAY_KEY_INSIDE  2  // key_at holds a pointer to a table: use key_inside in it
#define PYTHON_WAY_TLS         4  // the variable _Py_tss_tstate, at tls_at
#define PYTHON_WAY_TLS_DYNAMIC 8  // tls_at is an offset in a module's TLS block, found by the DTV
#define PYTHON_WAY_HOLDER      16 // the GIL holder is at `holder`
#define PYTHON_WAY_LIST        32 // the main interpreter's list of threads can be searched

/* Where a process keeps its thread states. All zero: no Python. */
struct python_process {
	__u32 runtime; // number of its struct python_offsets; 0: no Python
	__u32 ways;    // PYTHON_WAY_...
	__s32 key_at;  // from the thread pointer
	__u32 key_inside;
	__s64 tls_at;      // from the thread pointer, or in the module's TLS block
	__s64 tls_also_at; // another such variable, tried if the first is 0
	__s32 dtv_at;      // from the thread pointer: pointer to the DTV
	__u32 dtv_inside;  // in the DTV: pointer to the module's TLS block
	__u64 code_type;   // &PyCode_Type
	__u64 holder;      // &tstate_current, up to 3.11; used only if it is this thread's
	__u64 interpreter; // &_PyRuntime.interpreters.main
	__s64 self_at;     // from the thread pointer: pthread_self(), stored in thread states
};

/*
 * A piece of memory with the frame that was read last. Since 3.11 a thread's frames lie one after the other, callers
 * below: one read gets some five.
 */
#define PYTHON_PIECE_BYTES 1024
#define PYTHON_PIECE_NONE  (~0ULL - PYTHON_PIECE_BYTES) // contains no address

struct python_piece {
	__u64 start;
	__u64 words[PYTHON_PIECE_BYTES / 8];
};

/* Progress of the Python part of an unwind. */
struct python_cursor {
	__u64 frame;          // the next Python frame; 0: none
	__u64 cframe;         // next link from an interpreter loop to its frames, 3.10 to 3.12
	__u64 entered_cframe; // link of the present call; 0: none
	__u64 opcode_shim;    // shim whose frames were given to an opcode function; 0: none
	__u64 thread_state;   // owner of these frames; 0: none found
	__u64 walk_next;      // next thread state of the list
	__u32 state;          // enum python_cursor_state
	__u32 in_call;        // a call's frames have begun: its link is used up
	__u32 walked;         // thread states searched; 0: search not begun
	__u32 is_truncated;   // some frames were unreadable or not found
	// To undo a run of frames that turns out to belong to another call of the loop.
	__u64 run_frame;
	struct stack_hasher run_hasher;
	__u32 run_frame_count;
	__u32 run_leaf_tag;
	__u64 read_frame; // the one read last
	// Read buffers.
	struct python_piece piece;
	__u32 frame_at; // the frame's first byte in the piece
	__u32 pad;
	__u64 code_words[PYTHON_CODE_BYTES / 8 + 6];
};

/* ---- the detail of a Python frame -------------------------------------------------------------- */

/*
 * raw_frame.detail: index of the instruction in code units, and a checksum of the code object. The agent sees
 * by the checksum if another code object has the address now. Checksum 0: unreadable.
 */
#define PYTHON_INDEX_BITS   20
#define PYTHON_INDEX_MAX    ((1U << PYTHON_INDEX_BITS) - 1) // this or beyond, or unknown
#define PYTHON_CHECKSUM_MAX ((1U << (32 - PYTHON_INDEX_BITS)) - 1)
#define PYTHON_DETAIL(index, checksum)                                      \
	(((index) > PYTHON_INDEX_MAX ? PYTHON_INDEX_MAX : (__u32)(index)) | \
	 (__u32)(checksum) << PYTHON_INDEX_BITS)
#define PYTHON_DETAIL_INDEX(detail)    ((detail)&PYTHON_INDEX_MAX)
#define PYTHON_DETAIL_CHECKSUM(detail) ((detail) >> PYTHON_INDEX_BITS)

/*
 * 1 to PYTHON_CHECKSUM_MAX. A program that compiles functions as it goes reuses most addresses and counts, but
 * hardly ever the marks, too: none of 1,000 functions in 3.6 to 3.10 and since 3.12, 6 in 3.11.
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
