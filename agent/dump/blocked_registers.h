// SPDX-License-Identifier: Apache-2.0
// The registers of blocked threads, as the kernel saved them when they entered it: for looking at a
// process without stopping it. Uses libbpf, as loader.c does.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "agent/dump/thread_registers.h"
#include "base/error.h"

/** Of all threads of one process, in no order. A zeroed struct is valid and empty. */
struct blocked_registers {
	struct thread_registers *threads;
	uint32_t count;
};

/**
 * Read those of process @pid. Returns 0; -EPERM or what loading a kernel program fails with (it
 * takes CAP_BPF and CAP_PERFMON, and a kernel 6.1 with BTF); -ENOMEM.
 */
int blocked_registers_read(pid_t pid, struct blocked_registers *ret_registers);
void blocked_registers_deinit(struct blocked_registers *registers);

/**
 * Those of the thread that is blocked where @partial says, which is no other's: a stack pointer is
 * one thread's. NULL: it has moved since.
 */
const struct thread_registers *blocked_registers_find(const struct blocked_registers *registers,
						      const struct thread_registers *partial);
