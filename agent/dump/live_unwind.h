// SPDX-License-Identifier: Apache-2.0
// The kernel's unwinder (bpf/unwind/unwind.h), compiled for user space: stacks of the threads of a process
// that lives, from their registers and the process's memory. Tables are those that the kernel would
// search, made of the files that the stacks go through.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/process/process_table.h"
#include "agent/python/python_code_cache.h"
#include "agent/dump/thread_registers.h"
#include "base/error.h"
#include "base/profile.h"
#include "bpf/unwind/stack.h"

enum {
	LIVE_STACK_DEPTH_MAX = 16384, // Python programs raise their limit of recursion
	LIVE_STACK_SCAN_BYTES =
		1 << 20, // of each stack, when looking for the files it goes through
};

struct live_unwind;

struct live_unwind_options {
	/**
	 * Build a table when a stack goes through its file. Otherwise such a stack ends there, and
	 * live_unwind_build_missing() builds it: a process that is paused is not to wait for that.
	 */
	bool build_at_once;
	bool no_python;
	const char *cache_folder; // where large tables are kept; NULL: nowhere
};

/** One thread's stack. */
struct live_stack {
	struct raw_frame *frames; // leaf first; addresses as in struct stack_trace
	uint32_t frame_count;
	uint32_t frame_capacity;
	enum stack_end end;
};

/**
 * Read the mappings of @process, which @processes knows, and see what interpreter it has.
 * @memory_tid is a living thread of it: its memory cannot be had by the main thread's id when that
 * has exited. @processes outlives this. Returns 0; -ESRCH; -ENOMEM; -errno. After 0 @err, if it has a
 * text, says why there are no Python frames.
 */
int live_unwind_open(struct process_table *processes, struct process *process, pid_t memory_tid,
		     const struct live_unwind_options *options, struct live_unwind **ret_unwind,
		     struct error *err);
/** NULL is allowed. */
void live_unwind_close(struct live_unwind *unwind);

/** Memory is about to be looked at anew: the process ran meanwhile. */
void live_unwind_forget_memory(struct live_unwind *unwind);

/**
 * The stack of a thread with these registers. A zeroed @stack is filled; one from before is used
 * again. Returns 0, whatever the stack's end; -ENOMEM.
 */
int live_unwind_thread(struct live_unwind *unwind, const struct thread_registers *registers,
		       struct live_stack *stack);
void live_stack_deinit(struct live_stack *stack);

/**
 * Note which files the stack above @sp may go through, by what looks like return addresses on it;
 * the thread may run meanwhile.
 */
void live_unwind_scan(struct live_unwind *unwind, uint64_t pc, uint64_t sp);

/** Build the tables of the files that were missing. Returns how many are ready now that were not. */
uint32_t live_unwind_build_missing(struct live_unwind *unwind);

/** Does the thread hold the interpreter's lock? False if that cannot be known. */
bool live_unwind_holds_gil(struct live_unwind *unwind, const struct thread_registers *registers);

/** What it takes to read the names of Python frames, or NULL: no interpreter is known. */
const struct python_interpreter *live_unwind_interpreter(const struct live_unwind *unwind);

struct live_unwind_stats {
	uint32_t mappings;
	uint32_t tables; // built
	uint32_t tables_failed;
	uint64_t build_ns;
	uint64_t memory_reads; // system calls
};

void live_unwind_read_stats(const struct live_unwind *unwind, struct live_unwind_stats *ret_stats);
