// SPDX-License-Identifier: Apache-2.0
#include "agent/guard/hung_processes.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id128.h"

#define FILE_NAME "hung-processes"

static uint64_t boot_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static uint32_t boot_hash(void)
{
	char id[64];
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t size = fd < 0 ? 0 : read(fd, id, sizeof(id));

	if (fd >= 0)
		close(fd);
	// Not a hash of a table: those differ from one run to the next.
	return (uint32_t)id128_of(id, size > 0 ? (size_t)size : 0).low;
}

static bool is_running(const struct hung_processes *hung, const struct hung_process *process)
{
	return process->boot == hung->boot && process->pid && process->pid <= INT_MAX &&
	       (kill((pid_t)process->pid, 0) == 0 || errno != ESRCH);
}

// The last ones of the file, which is written anew without those that have ended.
static int read_file(struct hung_processes *hung)
{
	struct hung_process process;
	off_t size = lseek(hung->fd, 0, SEEK_END);
	off_t max = (off_t)sizeof(hung->processes);

	if (size < 0)
		return -errno;
	size -= size % (off_t)sizeof(process);
	for (off_t at = size > max ? size - max : 0; at < size; at += (off_t)sizeof(process)) {
		if (pread(hung->fd, &process, sizeof(process), at) != sizeof(process))
			return -EIO;
		if (is_running(hung, &process))
			hung->processes[hung->count++] = process;
	}
	ssize_t kept = (ssize_t)(hung->count * sizeof(process));
	if (ftruncate(hung->fd, 0) || write(hung->fd, hung->processes, (size_t)kept) != kept)
		return -errno;
	return 0;
}

int hung_processes_open(const char *folder, struct hung_processes *ret_hung, struct error *err)
{
	char path[PATH_MAX];

	*ret_hung = (struct hung_processes){ .fd = -1, .boot = boot_hash() };
	if (snprintf(path, sizeof(path), "%s/" FILE_NAME, folder) >= (int)sizeof(path))
		return error_set(err, -ENAMETOOLONG, "%s: path too long", folder);
	mkdir(folder, 0700); // if that fails, so does this
	ret_hung->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (ret_hung->fd < 0)
		return error_errno(err, -errno, "%s", path);
	int rc = read_file(ret_hung);
	if (rc) {
		hung_processes_close(ret_hung);
		return error_errno(err, rc, "%s", path);
	}
	return 0;
}

void hung_processes_close(struct hung_processes *hung)
{
	if (hung->fd >= 0)
		close(hung->fd);
	*hung = (struct hung_processes){ .fd = -1 };
}

bool hung_processes_has(const struct hung_processes *hung, uint32_t pid, uint64_t start_ns)
{
	for (uint32_t i = 0; hung && i < hung->count; i++)
		if (hung->processes[i].pid == pid && start_ns <= hung->processes[i].noted_ns)
			return true;
	return false;
}

void hung_processes_note(const struct hung_processes *hung, pid_t pid)
{
	struct hung_process process = { .pid = (uint32_t)pid, .noted_ns = boot_ns() };

	if (hung)
		process.boot = hung->boot;
	if (hung && hung->fd >= 0 && pid > 0)
		(void)!write(hung->fd, &process, sizeof(process));
}
