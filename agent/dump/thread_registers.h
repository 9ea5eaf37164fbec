// SPDX-License-Identifier: Apache-2.0
// Registers of a thread of another process, by DWARF number, and its system call.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf/process/saved_registers.h"
#include "bpf/unwind/table_layout.h"

enum { SYSCALL_ARGUMENTS = 6 };

#define SYSCALL_NONE (-1) // the kernel's value of a thread in no system call

struct thread_registers {
	uint64_t dwarf[UNWIND_REGISTERS]; // with sp; unknown ones are 0
	uint64_t pc;
	uint64_t thread_pointer; // fs base, tpidr_el0; 0: unknown
	int64_t syscall;         // number, or SYSCALL_NONE
	uint64_t arguments[SYSCALL_ARGUMENTS];
	bool partial; // only pc, sp and the system call are known
	bool compat;  // 32-bit code, which is not unwound
};

/** Of a thread that the calling thread has stopped by ptrace. Returns 0; -ESRCH; -errno. */
int thread_registers_read(pid_t tid, struct thread_registers *ret_registers);

/**
 * Parse /proc/PID/task/TID/syscall (proc(5)) of a blocked thread: pc, sp and the call. Returns 0; -EBUSY if it
 * runs; -EBADMSG.
 */
int thread_registers_parse(const char *text, size_t size, struct thread_registers *ret_registers);

/** From the kernel's saved registers. */
void thread_registers_restore(const struct saved_registers *saved,
			      struct thread_registers *ret_registers);

/**
 * The C library's thread structure, to which fs base points, found without stopping the thread: the list of robust
 * mutexes lies in it. 0: not found, or not possible on this processor.
 */
uint64_t thread_pointer_find(pid_t tid);

uint64_t thread_registers_sp(const struct thread_registers *registers);
