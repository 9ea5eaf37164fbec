// SPDX-License-Identifier: Apache-2.0
#include "agent/process_memory.h"

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
