// SPDX-License-Identifier: Apache-2.0
// The Python interpreter of a process: its build of CPython, and how a thread's registers lead to its thread state.
// The unwinder needs both for Python frames. Internal offsets are used only after the process's memory has
// confirmed them.
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
 * Find the interpreter among the mappings of @pid, whose files must be open. The first process of a build costs
 * reading symbols, each later one some reads of its memory.
 *
 * Returns 0; -ENOENT: none; -EAGAIN: it has no thread yet (it is starting, or only mapped): try again later;
 * -EDQUOT: put off, its budget is spent; -ENOTSUP: its internals are not as expected: stacks stay native; -ENOSPC: its payer has its part of the PYTHON_RUNTIMES_MAX numbers (runtime_numbers.h): try again later; -ENOMEM;
 * -errno (-ESRCH, -EPERM) when the process cannot be read. @notice has the cause of -ENOTSUP and -ENOSPC the first
 * time for each build; its code is 0 otherwise.
 */
int python_runtimes_find(struct python_runtimes *runtimes, pid_t pid,
			 const struct mapping_list *mappings, struct python_process *ret_process,
			 struct error *notice);

/** A build's number is about to be another's: its users must be unwound by it no longer, and release it. */
typedef void (*python_evicted_fn)(void *context, uint32_t runtime);
void python_runtimes_on_eviction(struct python_runtimes *runtimes, python_evicted_fn evicted,
				 void *context);

/** Each process that the kernel unwinds by a build holds its number. Number 0: nothing. */
void python_runtimes_hold(struct python_runtimes *runtimes, uint32_t runtime);
void python_runtimes_release(struct python_runtimes *runtimes, uint32_t runtime);

/** The offsets of a build, by python_process.runtime; NULL: no build has that number. */
const struct python_offsets *python_runtimes_offsets(const struct python_runtimes *runtimes,
						     uint32_t runtime);
