// SPDX-License-Identifier: Apache-2.0
// Where a thread of another process stands: its registers, numbered as DWARF does, and the system
// call that it is in.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf/process/saved_registers.h"
#include "bpf/unwind/table_layout.h"

enum { SYSCALL_ARGUMENTS = 6 };

#define SYSCALL_NONE (-1) // as the kernel says it: the thread is in no system call

struct thread_registers {
	uint64_t dwarf[UNWIND_REGISTERS]; // sp among them; what is not known is 0
	uint64_t pc;
	uint64_t thread_pointer; // fs base, tpidr_el0; 0: not known
	int64_t syscall;         // number, or SYSCALL_NONE
	uint64_t arguments[SYSCALL_ARGUMENTS];
	bool partial; // only pc, sp and the system call are known
	bool compat;  // 32-bit code, whose stack nobody here unwinds
};

/** Of a thread that the calling thread has stopped by ptrace. Returns 0; -ESRCH; -errno. */
int thread_registers_read(pid_t tid, struct thread_registers *ret_registers);

/**
 * What /proc/PID/task/TID/syscall says (proc(5)) of a thread that is blocked: pc, sp and the call.
 * Returns 0; -EBUSY for one that is running; -EBADMSG.
 */
int thread_registers_parse(const char *text, size_t size, struct thread_registers *ret_registers);

/** From what the kernel has saved of a thread. */
void thread_registers_restore(const struct saved_registers *saved,
			      struct thread_registers *ret_registers);

/**
 * Where the C library keeps what it knows of a thread, which its fs base points to, found without
 * stopping it: by the list of robust mutexes, which lies in the same structure. 0: not found, or not
 * to be found on this processor.
 */
uint64_t thread_pointer_find(pid_t tid);

uint64_t thread_registers_sp(const struct thread_registers *registers);
