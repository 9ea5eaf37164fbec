// SPDX-License-Identifier: Apache-2.0
#include "agent/process/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

enum {
	STAT_BYTES = 1024,
	STATUS_BYTES = 1024,   // of /proc/PID/status: its first lines
	STAT_FIELD_PARENT = 4, // numbered as in proc(5), from 1
	STAT_FIELD_FLAGS = 9,
	STAT_FIELD_START_TIME = 22,
	KERNEL_THREAD_FLAG = 0x00200000, // PF_KTHREAD of the kernel's sched.h
	THREADS_TRIED_MAX = 64,          // of a process whose main thread has exited
};

static bool parse_stat_fields(char *at, struct proc_stat *ret_stat)
{
	ret_stat->state = *at;
	for (int field = 3; field < STAT_FIELD_START_TIME; field++) {
		if (field == STAT_FIELD_PARENT)
			ret_stat->parent = (pid_t)strtol(at, NULL, 10);
		if (field == STAT_FIELD_FLAGS)
			ret_stat->kernel_thread = strtoull(at, NULL, 10) & KERNEL_THREAD_FLAG;
		at = strchr(at, ' ');
		if (!at)
			return false;
		at++;
	}
	ret_stat->start_ticks = strtoull(at, NULL, 10);
	return *at >= '0' && *at <= '9';
}

int proc_stat_parse(const char *text, size_t size, struct proc_stat *ret_stat)
{
	struct proc_stat parsed = { 0 };
	char line[STAT_BYTES];

	if (size >= sizeof(line))
		return -EBADMSG;
	memcpy(line, text, size);
	line[size] = '\0';

	// A name may hold anything, parentheses and newlines too: it ends at the last ')'.
	char *open = strchr(line, '('), *close = strrchr(line, ')');
	if (!open || !close || close < open || close[1] != ' ')
		return -EBADMSG;
	size_t name_size = (size_t)(close - open - 1);
	if (name_size >= sizeof(parsed.name))
		name_size = sizeof(parsed.name) - 1;
	memcpy(parsed.name, open + 1, name_size);
	if (!parse_stat_fields(close + 2, &parsed))
		return -EBADMSG;
	*ret_stat = parsed;
	return 0;
}

/* Reading a process that exits gives ESRCH or a missing file. */
static int exited_errno(void)
{
	return errno == ENOENT ? -ESRCH : -errno;
}

static int read_stat(int folder, struct proc_stat *ret_stat)
{
	char text[STAT_BYTES];
	_cleanup_close_ int fd = openat(folder, "stat", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return exited_errno();
	ssize_t size = read(fd, text, sizeof(text));
	if (size < 0)
		return exited_errno();
	return proc_stat_parse(text, (size_t)size, ret_stat);
}

static bool has_memory(int folder)
{
	char byte;
	_cleanup_close_ int fd = openat(folder, "maps", O_RDONLY | O_CLOEXEC);

	return fd >= 0 && read(fd, &byte, 1) == 1;
}

/* /proc/TID has map_files, /proc/PID/task/TID does not. It is a thread of @proc if task/ has it, too. */
static int open_thread(const struct proc *proc, const char *tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%.20s", tid);
	_cleanup_close_ int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return -errno;
	snprintf(path, sizeof(path), "task/%.20s", tid);
	if (faccessat(proc->fd, path, F_OK, 0))
		return -errno;
	return has_memory(folder) ? take_fd(folder) : -ESRCH;
}

/* After the main thread's exit its maps are empty, those of other threads are not. */
static int find_living_thread(const struct proc *proc)
{
	int fd = openat(proc->fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return exited_errno();
	DIR *threads = fdopendir(fd);
	if (!threads) {
		close(fd);
		return -ENOMEM;
	}

	struct dirent *thread;
	int folder = -ESRCH;
	for (int tried = 0; folder < 0 && tried < THREADS_TRIED_MAX && (thread = readdir(threads));)
		if (thread->d_name[0] != '.') {
			tried++;
			folder = open_thread(proc, thread->d_name);
		}
	closedir(threads);
	return folder;
}

int proc_open(pid_t pid, struct proc *ret_proc)
{
	struct proc proc = { .fd = -1, .files = -1 };
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	proc.fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (proc.fd < 0)
		return exited_errno();
	int rc = read_stat(proc.fd, &proc.stat);
	if (rc) {
		proc_close(&proc);
		return rc;
	}
	if (proc.stat.state == 'Z' || proc.stat.state == 'X')
		proc.files = find_living_thread(&proc);
	*ret_proc = proc;
	if (ret_proc->files < 0)
		ret_proc->files = proc.fd;
	return 0;
}

void proc_close(struct proc *proc)
{
	if (proc->files >= 0 && proc->files != proc->fd)
		close(proc->files);
	if (proc->fd >= 0)
		close(proc->fd);
	proc->fd = proc->files = -1;
}

int proc_read(int folder, const char *name, size_t size_max, struct buffer *buffer)
{
	enum { STEP_BYTES = 4096 };
	_cleanup_close_ int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return exited_errno();
	for (size_t total = 0; total < size_max;) {
		uint8_t step[STEP_BYTES];
		size_t wanted = size_max - total < STEP_BYTES ? size_max - total : STEP_BYTES;
		ssize_t size = read(fd, step, wanted);

		if (size < 0 && errno == EINTR)
			continue;
		if (size < 0)
			return exited_errno();
		if (size == 0)
			break;
		buffer_append(buffer, step, (size_t)size);
		total += (size_t)size;
	}
	return buffer->rc;
}

int proc_read_link(int folder, const char *name, char *ret_target, size_t size)
{
	ssize_t length = readlinkat(folder, name, ret_target, size - 1);

	if (length < 0)
		return exited_errno();
	ret_target[length] = '\0';
	return 0;
}

int proc_read_uid(int folder, uid_t *ret_uid)
{
	static const char field[] =
		"\nUid:\t"; // the name before it has no newline: the kernel escapes it
	_cleanup_(buffer_deinit) struct buffer status = { 0 };
	int rc = proc_read(folder, "status", STATUS_BYTES, &status);

	buffer_append_byte(&status, '\0');
	if (rc || status.rc)
		return rc ? rc : status.rc;
	const char *at = strstr((const char *)status.bytes, field);
	if (!at)
		return -EBADMSG;
	*ret_uid = (uid_t)strtoul(at + strlen(field), NULL, 10);
	return 0;
}
