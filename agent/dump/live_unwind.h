// SPDX-License-Identifier: Apache-2.0
// The BPF unwinder (bpf/unwind/unwind.h), compiled for user space: unwinds threads of a running process from
// their registers and the process's memory, by the same tables as in the kernel, built when a stack needs them.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/process/process_table.h"
#include "agent/python/python_code_cache.h"
#include "agent/dump/thread_registers.h"
#include "base/error.h"
#include "base/profile/profile.h"
#include "bpf/unwind/stack.h"

enum {
	LIVE_STACK_DEPTH_MAX = 16384,    // Python programs raise their recursion limit
	LIVE_STACK_SCAN_BYTES = 1 << 20, // of each stack, in a scan for return addresses
};

struct live_unwind;

struct live_unwind_options {
	/**
	 * Build a table when a stack needs it. Otherwise the stack ends there, and
	 * live_unwind_build_missing() builds the table after the pause.
	 */
	bool build_at_once;
	bool no_python;
	const char *cache_folder; // for large tables; NULL: none
};

/** One thread's stack. */
struct live_stack {
	struct raw_frame *frames; // leaf first; addresses as in struct stack_trace
	uint32_t frame_count;
	uint32_t frame_capacity;
	enum stack_end end;
};

/**
 * Read the mappings of @process, which is in @processes, and find its interpreter. @memory_tid is a living
 * thread: memory cannot be read by the main thread's id after that has exited. @processes outlives this. Returns
 * 0; -ESRCH; -ENOMEM; -errno. After 0, @err may say why there are no Python frames.
 */
int live_unwind_open(struct process_table *processes, struct process *process, pid_t memory_tid,
		     const struct live_unwind_options *options, struct live_unwind **ret_unwind,
		     struct error *err);
/** NULL is allowed. */
void live_unwind_close(struct live_unwind *unwind);

/** The process ran: read its memory again. */
void live_unwind_clear_memory(struct live_unwind *unwind);

/**
 * Unwind a thread with these registers into @stack, zeroed or used before. Returns 0, whatever the stack's end;
 * -ENOMEM.
 */
int live_unwind_thread(struct live_unwind *unwind, const struct thread_registers *registers,
		       struct live_stack *stack);
void live_stack_deinit(struct live_stack *stack);

/**
 * Request the tables of files to which words above @sp may be return addresses. The thread may run.
 */
void live_unwind_scan(struct live_unwind *unwind, uint64_t pc, uint64_t sp);

/** Build requested tables. Returns how many are new. */
uint32_t live_unwind_build_missing(struct live_unwind *unwind);

/** Does the thread hold the GIL? False if unknown. */
bool live_unwind_holds_gil(struct live_unwind *unwind, const struct thread_registers *registers);

/** For names of Python frames; NULL: no interpreter. */
const struct python_interpreter *live_unwind_interpreter(const struct live_unwind *unwind);

struct live_unwind_stats {
	uint32_t mappings;
	uint32_t tables; // built
	uint32_t tables_failed;
	uint64_t build_ns;
	uint64_t memory_reads; // system calls
};

void live_unwind_read_stats(const struct live_unwind *unwind, struct live_unwind_stats *ret_stats);
