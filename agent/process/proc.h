// SPDX-License-Identifier: Apache-2.0
// A process's folder in /proc. It is held open, so that all reads are of the same process even if its pid is
// reused. Formats are in proc(5).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"

enum {
	PROC_NAME_BYTES = 64,        // of comm: TASK_COMM_LEN is 16, but kernel workers show more
	PROC_TICKS_PER_SECOND = 100, // USER_HZ, the unit of start times in /proc
};

struct proc_stat {
	char name[PROC_NAME_BYTES];
	char state; // 'Z': the main thread has exited
	pid_t parent;
	bool kernel_thread;
	uint64_t start_ticks; // since boot
};

struct proc {
	int fd;    // the folder /proc/PID
	int files; // the folder of a living thread, for maps, root and map_files
	struct proc_stat stat;
};

/** Read the one line of /proc/PID/stat. Returns 0 or -EBADMSG. */
int proc_stat_parse(const char *text, size_t size, struct proc_stat *ret_stat);

/**
 * Open the folder of @pid. If the main thread has exited, `files` is of another one, which still shows the memory.
 * Returns 0; -ESRCH if there is no such process; -errno.
 */
int proc_open(pid_t pid, struct proc *ret_proc);
void proc_close(struct proc *proc);

/** Append the file @name of a folder to @buffer, up to @size_max bytes. Returns 0; -ESRCH; -errno. */
int proc_read(int folder, const char *name, size_t size_max, struct buffer *buffer);

/** The target of the link @name of a folder. Returns 0 or -errno. */
int proc_read_link(int folder, const char *name, char *ret_target, size_t size);

/**
 * The real user of the process with this @folder: who started it. Returns 0; -ESRCH; -EBADMSG; -errno. The folder's owner
 * would not do: it is root for a process that nobody may trace, as each can ask to be.
 */
int proc_read_uid(int folder, uid_t *ret_uid);
