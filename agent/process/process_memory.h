// SPDX-License-Identifier: Apache-2.0
// Reading the memory of another process while it runs. What is read may change meanwhile, be
// half-written, or lie: every pointer found in it is checked by reading through it the same way.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	PROCESS_MEMORY_READS_MAX = 16, // of one process_memory_read_each()
};

/** One of several reads that are done together. */
struct process_memory_read {
	uint64_t address;
	void *bytes; // of the reader's, @size of them
	size_t size;
	bool done; // all of it was read
};

/**
 * Copy @size bytes at @address of process (or thread) @pid. All or nothing. A process whose main
 * thread has exited is read by another thread's id.
 * Returns 0; -EFAULT if not all of it is mapped; -ESRCH if there is no such process; -EPERM;
 * -errno.
 */
int process_memory_read(pid_t pid, uint64_t address, void *bytes, size_t size);

/**
 * Do @count reads (at most PROCESS_MEMORY_READS_MAX) in one system call, or one more for each that
 * cannot be done. Which could is said in each one's `done`.
 * Returns 0; -ESRCH; -EPERM; -errno: then none is done.
 */
int process_memory_read_each(pid_t pid, struct process_memory_read *reads, uint32_t count);
