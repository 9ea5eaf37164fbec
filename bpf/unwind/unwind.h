/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// The unwinder: from a thread's leaf to its first function. At each pc it looks up the code, stores one frame
// and finds the caller: native code by table, the interpreter loop by its Python frames, JIT code by frame
// pointer.
//
// The same source runs in BPF programs and in user space. The including file defines the functions below, and
// calls unwind_begin(), then unwind_step() until it returns 1, at most UNWIND_STEPS_MAX times.
#pragma once

#include "bpf/unwind/stack.h"
#include "bpf/unwind/stack_hash.h"
#include "bpf/unwind/process_layout.h"

#define UNWIND_INLINE static inline __attribute__((always_inline))
/* The verifier checks a global function once, an inlined one again on each path to it. */
#ifdef __bpf__
#define UNWIND_PART  __attribute__((noinline))
#define UNWIND_APART __attribute__((noinline))
#else
#define UNWIND_PART  static inline
#define UNWIND_APART inline
#endif

/* A Python frame and the native frame that it replaces are two steps. */
#define UNWIND_STEPS_MAX (2 * STACK_DEPTH_MAX)

/* Nothing is mapped below (vm.mmap_min_addr). */
#define CODE_ADDRESS_MIN 0x1000ULL
/* User space ends here at the latest: x86-64 with five-level page tables. */
#define USER_ADDRESS_LIMIT (1ULL << 56)

/* Beyond all of enum stack_end. */
#define UNWIND_CONTINUES 0xffffffffU

#ifdef __TARGET_ARCH_arm64
#define REGISTER_SP ARM64_REGISTER_SP
#define REGISTER_FP ARM64_REGISTER_FP
/* A signed return address (PAC) has its signature above the 48 address bits. */
#define RETURN_ADDRESS_MASK ((1ULL << 48) - 1)
#else
#define REGISTER_SP         X86_REGISTER_SP
#define REGISTER_FP         X86_REGISTER_FP
#define RETURN_ADDRESS_MASK (~0ULL)
#endif

/* The mapping found last: most callers are in the same one. */
struct unwind_mapping {
	__u64 start;
	__u64 size;
	__u64 bias;
	__u32 code; // as in struct mapping_code_range
	__u32 pad;
};

/*
 * A piece of the stack, read at once: it has the next frames' words, too. A tick finds the stack in no cache, and
 * a long read waits for memory once where short ones wait in turn: 1024 bytes are read 7 times for a stack of 86
 * frames, at 234 ns each; 256 were read 31 times, at 128 ns.
 */
#define STACK_CHUNK_BYTES 1024
#define STACK_CHUNK_WORDS (STACK_CHUNK_BYTES / 8)
#define STACK_CHUNK_ALIGN 64                          // a cache line
#define STACK_CHUNK_NONE  (~0ULL - STACK_CHUNK_BYTES) // contains no address

struct stack_chunk {
	__u64 start;
	__u64 words[STACK_CHUNK_WORDS + 2]; // a signal's registers are read into these words, too
};

/*
 * A return address that a uretprobe has replaced: where it was and what it was. Nested calls have several; more
 * than these are ignored.
 */
#define PENDING_RETURNS_MAX 4

struct pending_return {
	__u64 address_at;
	__u64 address;
};

/*
 * State of an unwind. It lies in memory, not in registers: the verifier knows none of its values and sees one
 * state for all steps, so each use must check bounds.
 */
struct unwind {
	__u64 pc;
	__u64 registers[UNWIND_REGISTERS]; // by DWARF number; in callers only sp and fp are valid
	__u64 thread_pointer;
	__u32 exact_pc;        // the pc was interrupted: not a return address
	__u32 all_registers;   // all registers are known: the leaf, or interrupted by a signal
	__u32 in_python;       // the next step is a Python frame
	__u32 frame_is_kept;   // the frame at the pc is stored, or replaced: go to its caller
	__u32 frame_count;     // without the leaf
	__u32 end;             // enum stack_end, or UNWIND_CONTINUES
	struct raw_frame leaf; // tag 0: none yet
	__u64 pending_count;   // set with the registers; nearly always 0
	struct pending_return pending[PENDING_RETURNS_MAX];
	struct stack_hasher hasher;
	struct unwind_mapping mapping;
	struct unwind_rule rule; // at the pc
	struct stack_chunk chunk;
	struct process_unwind process;
	struct python_cursor python;
};

/* ---- provided by the including file ----------------------------------------------------------- */

/* And two switches, unwind_by_tables and unwind_python. */

/* Copies @size bytes from @address of the unwound process. Returns 0 or negative. */
static long read_user(void *to, __u32 size, __u64 address);
/* Where to store caller number @at (below STACK_DEPTH_MAX), or NULL. */
static struct raw_frame *unwind_frame(struct unwind *unwind, __u32 at);
/* Page @page of the process's mappings, or NULL. */
static const struct mapping_page *unwind_mapping_page(const struct unwind *unwind, __u32 page);
/* Table @table and a page of its words, or NULL. */
static void *unwind_table(__u32 table);
static const struct table_page *unwind_table_page(void *table, __u32 page);
static const struct unwind_rule *unwind_rule_at(__u32 rule);
/* The rule cache's set for a code address, or NULL. */
static struct cached_rules *unwind_cached_rules(__u64 address);
/* Field offsets of an interpreter build, or NULL. */
static const struct python_offsets *python_offsets_at(__u32 runtime);

/* ---- storing frames -------------------------------------------------------------------------- */

UNWIND_INLINE long unwind_stop(struct unwind *unwind, __u32 end)
{
	if (end == STACK_END_COMPLETE && unwind->python.is_truncated)
		end = STACK_END_PYTHON;
	unwind->end = end;
	return 1;
}

/* Stores a frame: the leaf, then its callers. Returns 0, or 1 and the end when the stack is full. */
UNWIND_INLINE long unwind_add(struct unwind *unwind, __u64 address, __u32 tag, __u32 detail)
{
	__u32 at = unwind->frame_count;
	struct raw_frame *frame;

	if (!unwind->leaf.tag) {
		unwind->leaf.address = address;
		unwind->leaf.tag = tag;
		unwind->leaf.detail = detail;
		return 0;
	}
	// STACK_DEPTH_MAX includes the leaf.
	if (at >= STACK_DEPTH_MAX - 1)
		return unwind_stop(unwind, STACK_END_DEPTH);
	frame = unwind_frame(unwind, at);
	if (!frame)
		return unwind_stop(unwind, STACK_END_DEPTH);
	frame->address = address;
	frame->tag = tag;
	frame->detail = detail;
	unwind->frame_count = at + 1;
	stack_hash_add(&unwind->hasher, address, tag, detail);
	return 0;
}

/* For lookups: a return address belongs to the call before it. */
UNWIND_INLINE __u64 unwind_code_address(const struct unwind *unwind)
{
	return unwind->pc - !unwind->exact_pc;
}

#include "bpf/unwind/unwind_mapping.h"
#include "bpf/unwind/rule_cache.h"
#include "bpf/unwind/unwind_native.h"
#include "bpf/unwind/unwind_plain.h"
#include "bpf/unwind/unwind_frame_pointer.h"
#include "bpf/unwind/unwind_python.h"

/* ---- the loop -------------------------------------------------------------------------------- */

/* Code without a rule. */
UNWIND_INLINE long unwind_without_table(struct unwind *unwind, __u32 code)
{
	switch (code) {
	case MAPPING_CODE_JIT:
		return unwind_frame_pointer(unwind);
	case MAPPING_CODE_UNKNOWN:
		return unwind_stop(unwind, STACK_END_NO_MAPPING);
	}
	return unwind_stop(unwind, STACK_END_NO_TABLE);
}

/* Flag of unwind_look_up(): unwind->rule holds there. */
#define CODE_HAS_RULE 0x40000000

/* Returns enum mapping_code of the code at @address, with CODE_HAS_RULE. */
UNWIND_PART int unwind_look_up(struct unwind *unwind, __u64 address)
{
	const struct unwind_rule *rule;
	__u64 *words, fills_line = 0;
	__u32 code;

	if (!unwind) // for the verifier
		return MAPPING_CODE_UNKNOWN;
	words = (__u64 *)&unwind->rule;
	if (unwind_find_cached_rule(unwind, address, &words[0], &words[1]))
		return MAPPING_CODE_TABLE | CODE_HAS_RULE;
	code = unwind_find_mapping(unwind, address);
	if (code == MAPPING_CODE_RULE && unwind->mapping.bias) {
		unwind_load_range_rule(&unwind->rule, unwind->mapping.bias);
	} else if (code < MAPPING_CODE_TABLE) {
		return code == MAPPING_CODE_RULE ? MAPPING_CODE_JIT : code;
	} else {
		rule = unwind_find_rule(code - MAPPING_CODE_TABLE, address - unwind->mapping.bias,
					&fills_line);
		if (!rule)
			return code;
		unwind->rule = *rule;
		// Else lines of the file and of memory are not the same.
		fills_line &= mask_if_not_above(unwind->mapping.bias & (CODE_LINE_BYTES - 1), 0);
	}
	unwind_cache_rule(unwind, address, fills_line);
	return code | CODE_HAS_RULE;
}

/* If a uretprobe has replaced the return address, takes the original one. */
UNWIND_INLINE void unwind_restore_return(struct unwind *unwind)
{
	__u64 address_at = unwind->registers[REGISTER_SP];

#ifndef __TARGET_ARCH_arm64
	address_at -= sizeof(address_at); // pushed by the call; aarch64 has the caller's sp
#endif
#ifdef __clang__
#pragma unroll
#endif
	for (__u32 i = 0; i < PENDING_RETURNS_MAX; i++) {
		if (i < unwind->pending_count && unwind->pending[i].address_at == address_at)
			unwind->pc = unwind->pending[i].address;
	}
}

/*
 * Stores the frame at the pc, unless Python frames replace it, and looks up its rule. Returns 1 when the unwind
 * ends.
 */
UNWIND_INLINE long unwind_native_frame(struct unwind *unwind)
{
	bool is_generated;
	__u64 address;
	__u32 code, flags, tag;

	if (unwind->pending_count && !unwind->exact_pc)
		unwind_restore_return(unwind);
	address = unwind_code_address(unwind);
	code = unwind_by_tables ? unwind_look_up(unwind, address) : MAPPING_CODE_JIT;
	flags = code & CODE_HAS_RULE ? unwind->rule.flags : 0;
	is_generated = flags & RULE_JIT || code == MAPPING_CODE_JIT;
	tag = unwind_by_tables && is_generated ? FRAME_TAG_JIT : FRAME_TAG_NATIVE;

	if (flags & RULE_PYTHON_EVAL && python_enter(unwind)) {
		unwind->in_python = 1;
		unwind->frame_is_kept = 1;
		return 0;
	}
	if (unwind_add(unwind, address, tag, 0))
		return 1;
	if (!(code & CODE_HAS_RULE))
		return unwind_without_table(unwind, code);
	unwind->frame_is_kept = 1;
	return 0;
}

/* pc, exact_pc, registers, thread_pointer and process are set. */
UNWIND_INLINE void unwind_begin(struct unwind *unwind)
{
	unwind->all_registers = 1;
	unwind->in_python = 0;
	unwind->frame_is_kept = 0;
	unwind->frame_count = 0;
	unwind->end = UNWIND_CONTINUES;
	unwind->leaf.tag = 0;
	unwind->leaf.address = 0;
	unwind->leaf.detail = 0;
	unwind->mapping.size = 0;
	unwind->chunk.start = STACK_CHUNK_NONE;
	python_begin(unwind);
	stack_hash_begin(&unwind->hasher, &unwind->process.key);
}

static long unwind_step(struct unwind *unwind)
{
	long stops;

	if (unwind_python && unwind->in_python)
		return python_step(unwind);
	if (unwind_by_tables && unwind_plain_frame(unwind))
		return 0;
	if (!unwind->frame_is_kept && unwind_native_frame(unwind))
		return 1;
	if (!unwind->frame_is_kept || unwind->in_python)
		return 0;
	unwind->frame_is_kept = 0;
	stops = unwind_by_rule(unwind);
	// The verifier does not know that a global function returns 0 or 1.
	HIDE_FROM_COMPILER(stops);
	return stops != 0;
}
