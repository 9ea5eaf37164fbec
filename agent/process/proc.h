// SPDX-License-Identifier: Apache-2.0
// One process's folder in /proc, held open so that all that is read from it is of one and the same
// process, even if its pid is given to another one meanwhile. Layouts are proc(5)'s.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"

enum {
	PROC_NAME_BYTES = 64, // of comm: TASK_COMM_LEN is 16, but kernel workers show more
	// start times are in /proc in ticks of USER_HZ, which is 100 on every architecture we know
	PROC_TICKS_PER_SECOND = 100,
};

struct proc_stat {
	char name[PROC_NAME_BYTES];
	char state; // 'Z': the main thread has exited
	bool kernel_thread;
	uint64_t start_ticks; // since boot
};

struct proc {
	int fd;    // the folder /proc/PID
	int files; // the folder to read maps, root and map_files from: that of a living thread
	struct proc_stat stat;
};

/** Read the one line of /proc/PID/stat. Returns 0 or -EBADMSG. */
int proc_stat_parse(const char *text, size_t size, struct proc_stat *ret_stat);

/**
 * Open the folder of @pid. When the main thread has exited, the others are looked through for one
 * whose memory can still be seen. Returns 0; -ESRCH if there is no such process; -errno.
 */
int proc_open(pid_t pid, struct proc *ret_proc);
void proc_close(struct proc *proc);

/** Append the file @name of a folder; no more than @size_max bytes. Returns 0; -ESRCH; -errno. */
int proc_read(int folder, const char *name, size_t size_max, struct buffer *buffer);

/** Where the link @name of a folder leads. Returns 0 or -errno. */
int proc_read_link(int folder, const char *name, char *ret_target, size_t size);
