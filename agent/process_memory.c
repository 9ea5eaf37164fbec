// SPDX-License-Identifier: Apache-2.0
#include "agent/process_memory.h"

#include <assert.h>
#include <errno.h>
#include <sys/uio.h>

int process_memory_read(pid_t pid, uint64_t address, void *bytes, size_t size)
{
	struct iovec to = { .iov_base = bytes, .iov_len = size };
	struct iovec from = { .iov_base = (void *)(uintptr_t)address, .iov_len = size };
	ssize_t count = process_vm_readv(pid, &to, 1, &from, 1, 0);

	if (count < 0)
		return -errno;
	return (size_t)count == size ? 0 : -EFAULT;
}

// One system call: reads from the first on until one cannot be done. Returns how many were, or -errno.
static int read_some(pid_t pid, struct process_memory_read *reads, uint32_t count)
{
	struct iovec to[PROCESS_MEMORY_READS_MAX], from[PROCESS_MEMORY_READS_MAX];

	for (uint32_t i = 0; i < count; i++) {
		to[i] = (struct iovec){ reads[i].bytes, reads[i].size };
		from[i] = (struct iovec){ (void *)(uintptr_t)reads[i].address, reads[i].size };
	}
	ssize_t left = process_vm_readv(pid, to, count, from, count, 0);
	uint32_t done = 0;

	if (left < 0)
		return errno == EFAULT ? 0 : -errno;
	for (; done < count && (size_t)left >= reads[done].size; done++)
		left -= reads[done].size;
	return (int)done;
}

int process_memory_read_each(pid_t pid, struct process_memory_read *reads, uint32_t count)
{
	assert(count <= PROCESS_MEMORY_READS_MAX);
	for (uint32_t at = 0; at < count; at++) {
		int done = read_some(pid, reads + at, count - at);

		if (done < 0) {
			for (uint32_t i = 0; i < count; i++)
				reads[i].done = false;
			return done;
		}
		for (; done > 0; done--, at++)
			reads[at].done = true;
		if (at < count)
			reads[at].done = false;
	}
	return 0;
}
