// SPDX-License-Identifier: Apache-2.0
#include "agent/process/process_memory.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "agent/guard/work.h"

enum { THREADS_TRIED_MAX = 64 }; // of a process whose main thread has exited

static int read_once(pid_t tid, uint64_t address, void *bytes, size_t size)
{
	struct iovec to = { .iov_base = bytes, .iov_len = size };
	struct iovec from = { .iov_base = (void *)(uintptr_t)address, .iov_len = size };
	ssize_t count = process_vm_readv(tid, &to, 1, &from, 1, 0);

	if (count < 0)
		return -errno;
	return (size_t)count == size ? 0 : -EFAULT;
}

// After the main thread's exit the memory is readable by the id of another thread, unless that exits, too. Returns
// -ESRCH if there is none.
static int find_living_thread(pid_t pid, pid_t *ret_tid)
{
	char path[32], byte;
	struct dirent *thread;
	int rc = -ESRCH;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *threads = opendir(path);
	if (!threads)
		return -ESRCH;
	for (int tried = 0; rc && tried < THREADS_TRIED_MAX && (thread = readdir(threads));) {
		pid_t tid = atoi(thread->d_name); // 0: "." and ".."

		if (!tid || tid == pid)
			continue;
		tried++;
		// Nothing is mapped at 0: -EFAULT shows that the thread has memory.
		if (read_once(tid, 0, &byte, 1) != -ESRCH) {
			*ret_tid = tid;
			rc = 0;
		}
	}
	closedir(threads);
	return rc;
}

int process_memory_read(pid_t pid, uint64_t address, void *bytes, size_t size)
{
	pid_t tid;

	if (!work_may_read())
		return -EDQUOT;
	int rc = read_once(pid, address, bytes, size);
	if (rc == -ESRCH && find_living_thread(pid, &tid) == 0)
		return read_once(tid, address, bytes, size);
	return rc;
}

// One system call. It stops at the first read that fails. Returns how many were done, or -errno.
static int read_some(pid_t tid, struct process_memory_read *reads, uint32_t count)
{
	struct iovec to[PROCESS_MEMORY_READS_MAX], from[PROCESS_MEMORY_READS_MAX];

	for (uint32_t i = 0; i < count; i++) {
		to[i] = (struct iovec){ reads[i].bytes, reads[i].size };
		from[i] = (struct iovec){ (void *)(uintptr_t)reads[i].address, reads[i].size };
	}
	ssize_t left = process_vm_readv(tid, to, count, from, count, 0);
	uint32_t done = 0;

	if (left < 0)
		return errno == EFAULT ? 0 : -errno;
	for (; done < count && (size_t)left >= reads[done].size; done++)
		left -= reads[done].size;
	return (int)done;
}

static int read_all(pid_t tid, struct process_memory_read *reads, uint32_t count)
{
	for (uint32_t at = 0; at < count; at++) {
		int done = read_some(tid, reads + at, count - at);

		if (done < 0)
			return done;
		for (; done > 0; done--, at++)
			reads[at].done = true;
	}
	return 0;
}

int process_memory_read_each(pid_t pid, struct process_memory_read *reads, uint32_t count)
{
	pid_t tid;

	assert(count <= PROCESS_MEMORY_READS_MAX);
	for (uint32_t i = 0; i < count; i++)
		reads[i].done = false;
	if (!work_may_read())
		return -EDQUOT;
	int rc = read_all(pid, reads, count);
	if (rc == -ESRCH && find_living_thread(pid, &tid) == 0)
		rc = read_all(tid, reads, count);
	for (uint32_t i = 0; i < count && rc; i++)
		reads[i].done = false;
	return rc;
}
