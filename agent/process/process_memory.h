// SPDX-License-Identifier: Apache-2.0
// Reads the memory of a running process. It may change meanwhile, be half-written, or lie: a pointer in it is only
// followed by another such read. Reads are part of a work (agent/guard/work.h), and end when its budget is spent.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	PROCESS_MEMORY_READS_MAX = 16, // of one process_memory_read_each()
};

/** One read of process_memory_read_each(). */
struct process_memory_read {
	uint64_t address;
	void *bytes; // room for @size bytes
	size_t size;
	bool done; // all of it was read
};

/**
 * Copy @size bytes at @address of process (or thread) @pid, all or nothing. If its main thread has exited, another
 * thread's id is used.
 * Returns 0; -EFAULT if not all is mapped; -EDQUOT: the work's budget is spent; -ESRCH if there is no such process;
 * -EPERM; -errno.
 */
int process_memory_read(pid_t pid, uint64_t address, void *bytes, size_t size);

/**
 * Do @count reads (at most PROCESS_MEMORY_READS_MAX) in one system call, and one more for each that fails. Sets
 * their `done`. Returns 0; -EDQUOT; -ESRCH; -EPERM; -errno: then none is done.
 */
int process_memory_read_each(pid_t pid, struct process_memory_read *reads, uint32_t count);
