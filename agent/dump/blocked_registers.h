// SPDX-License-Identifier: Apache-2.0
// Registers of blocked threads, as saved when they entered the kernel: to unwind them without stopping the
// process. Uses libbpf, as loader.c does.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "agent/dump/thread_registers.h"
#include "base/error.h"

/** Of one process, in no order. A zeroed struct is valid and empty. */
struct blocked_registers {
	struct thread_registers *threads;
	uint32_t count;
};

/**
 * Returns 0; -EPERM or another errno of loading a BPF program (it needs CAP_BPF, CAP_PERFMON, Linux 6.1 and
 * BTF); -ENOMEM.
 */
int blocked_registers_read(pid_t pid, struct blocked_registers *ret_registers);
void blocked_registers_deinit(struct blocked_registers *registers);

/**
 * Those of the thread with the stack pointer of @partial, which is unique. NULL: it has run since.
 */
const struct thread_registers *blocked_registers_find(const struct blocked_registers *registers,
						      const struct thread_registers *partial);
