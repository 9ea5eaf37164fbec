// SPDX-License-Identifier: Apache-2.0
// Reading the memory of another process while it runs. What is read may change meanwhile, be
// half-written, or lie: every pointer found in it is checked by reading through it the same way.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/**
 * Copy @size bytes at @address of process (or thread) @pid. All or nothing.
 * Returns 0; -EFAULT if not all of it is mapped; -ESRCH if there is no such process; -EPERM;
 * -errno.
 */
int process_memory_read(pid_t pid, uint64_t address, void *bytes, size_t size);
