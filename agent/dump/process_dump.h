// SPDX-License-Identifier: Apache-2.0
// A dump of a process: each thread's stack, with Python, native and kernel frames, and what the thread waits
// for. The process is paused while its stacks are unwound; files are read before, names afterwards.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "agent/dump/dump.h"
#include "base/error.h"

struct process_dump;

/**
 * Returns 0; -ESRCH; -EINVAL (a thread's id, a kernel thread, or no such thread); -EPERM; -ENOMEM; -errno: @err
 * says why and what to do.
 */
int process_dump_take(pid_t pid, const struct dump_options *options, struct process_dump **ret_dump,
		      struct error *err);
/** NULL is allowed. */
void process_dump_free(struct process_dump *dump);

const struct dump_summary *process_dump_summary(const struct process_dump *dump);
/** Sorted by tid. */
const struct dump_thread *process_dump_threads(const struct process_dump *dump,
					       uint32_t *ret_count);
