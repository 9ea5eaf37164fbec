// SPDX-License-Identifier: Apache-2.0
// A confined process that reads one file and answers questions on it while the file is open. The file is
// hostile, and libelf and libdw map it and trust it: a crash, a loop or gigabytes of memory end the process,
// and the caller waits no longer than its budget.
#pragma once

#include <stdint.h>

#include "base/confined/confined_process.h"
#include "base/symbols/source_lines.h"
#include "collector/symbols/file_tasks.h"

struct file_process;

enum {
	FILE_PROCESS_SECONDS = 5,       // for one answer; then the process is killed
	FILE_PROCESS_FIRST_SECONDS = 20 // for the first: 2 GiB of symbols take 3 s to read
};

/**
 * Start a process of @task on the file. @alt_fd: for dwarf_task, the file of @fd's .gnu_debugaltlink, or -1. Both are
 * borrowed for the call. Returns 0; -ENOMEM; what confined_process_start() returns.
 */
int file_process_open(struct confined_launcher *launcher, const struct confined_task *task, int fd,
		      int alt_fd, struct file_process **ret_process, struct error *err);
/** NULL is allowed. */
void file_process_close(struct file_process *process);

/**
 * Ask a process. Of dwarf_task: the source lines at a virtual address of the file. Of symbol_task: an offset's function, one
 * line; start_offset is its virtual address, and the name may be "". Waits until @until_ns at most. *ret_lines is valid until
 * the next call. Returns 0; -EAGAIN (not done in time, ask again); -ENOENT (nothing is known, or the process has ended);
 * -EIO, once: the process has ended now, and @err says how.
 */
int file_process_find(struct file_process *process, uint64_t key, uint64_t until_ns,
		      const struct source_lines **ret_lines, struct error *err);
