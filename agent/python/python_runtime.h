// SPDX-License-Identifier: Apache-2.0
// The Python interpreter of a process: which build of CPython it is, and where this process has its
// thread states. What the unwinder steps through Python frames by. Offsets that no header promises are
// believed only after the process's own memory has confirmed them.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "bpf/unwind/python.h"
#include "agent/process/mapping.h"
#include "agent/python/python_eval_loop.h"

/** The builds of CPython seen on this node. One thread. */
struct python_runtimes;

/** NULL when out of memory. */
struct python_runtimes *python_runtimes_new(void);
void python_runtimes_free(struct python_runtimes *runtimes);

/**
 * Find the interpreter among the mappings of @pid, whose files must have been opened. The first
 * process of a build costs reading some symbols, each later one a few reads of its memory.
 *
 * Returns 0; -ENOENT: there is none; -EAGAIN: it has no thread yet (it is starting, or only mapped):
 * ask again later; -ENOTSUP: its internals do not look as expected: *notice says which version and
 * what, and the native stack is all there is; -ENOSPC at PYTHON_RUNTIMES_MAX builds; -ENOMEM;
 * -errno (-ESRCH, -EPERM) when the process cannot be read. @notice is set only on -ENOTSUP and
 * -ENOSPC, and only the first time for each build: its code is 0 otherwise.
 */
int python_runtimes_find(struct python_runtimes *runtimes, pid_t pid,
			 const struct mapping_list *mappings, struct python_process *ret_process,
			 struct error *notice);

/** What a build looks like, by python_process.runtime; NULL if there is none with that number. */
const struct python_offsets *python_runtimes_offsets(const struct python_runtimes *runtimes,
						     uint32_t runtime);
