// SPDX-License-Identifier: Apache-2.0
// The threads of one process as /proc shows them: ids, names, states. Layouts are proc(5)'s.
#pragma once

#include <stdint.h>

#include "agent/process/proc.h"
#include "agent/dump/thread_registers.h"
#include "base/error.h"

enum {
	THREADS_MAX = 32768,       // of one process; others are left out, and counted
	WAIT_CHANNEL_BYTES = 64,   // KSYM_NAME_LEN is 512, but what threads sleep in is short
	KERNEL_STACK_BYTES = 4096, // some 60 frames
};

struct thread {
	pid_t tid;
	pid_t namespace_tid; // in the process's pid namespace
	char name[PROC_NAME_BYTES];
	char state;                            // 'R', 'S', 'D', 'T', 't', 'Z', 'X', 'I'; 0: gone
	bool has_registers;                    // it was blocked
	struct thread_registers registers;     // partial
	uint64_t switches;                     // context switches so far
	char wait_channel[WAIT_CHANNEL_BYTES]; // the kernel function in which it sleeps, or ""
	char *kernel_stack; // a function a line, the innermost first; NULL: not readable
};

struct thread_list {
	struct thread *threads; // sorted by tid
	uint32_t count;
	uint32_t left_out;
	bool in_namespace; // the process has a pid namespace that is not ours
};

/** Read the threads of @proc. Returns 0; -ESRCH if there are none any more; -ENOMEM; -errno. */
int thread_list_read(const struct proc *proc, bool want_kernel_stacks,
		     struct thread_list *ret_list);
/** Read the same threads again. An exited one has state 'X' then. */
void thread_list_refresh(const struct proc *proc, bool want_kernel_stacks,
			 struct thread_list *list);
/** Has @thread not run since it was read? Then its stack is unchanged. */
bool thread_has_slept(const struct proc *proc, const struct thread *thread);
/** A zeroed list is valid and empty. */
void thread_list_deinit(struct thread_list *list);

/** NULL if there is none. */
struct thread *thread_list_find(const struct thread_list *list, pid_t tid);
/** By its id in the process's pid namespace; NULL if there is none. */
struct thread *thread_list_find_in_namespace(const struct thread_list *list, pid_t namespace_tid);

/** The sum of both kinds of context switches in a status file. */
uint64_t thread_status_switches(const char *text);

/** The innermost id of the line "NSpid:" of a status file; 0 if there is none. */
pid_t thread_status_namespace_tid(const char *text, uint32_t *ret_levels);

/**
 * "[<0>] futex_wait_queue+0x60/0x90" a line, to "futex_wait_queue+0x60" a line. In place.
 */
void kernel_stack_clean(char *text);
