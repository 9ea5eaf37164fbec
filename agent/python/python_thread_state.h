// SPDX-License-Identifier: Apache-2.0
// How a thread's registers lead to its Python thread state (PyThreadState): by a pthread key or a thread-local
// variable. C libraries keep these where they like, so nothing is assumed: a thread state names its thread, and the
// word in that thread's control block that points back to it is searched for.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf/unwind/python.h"
#include "agent/python/python_layout.h"

/**
 * The thread pointer of a thread of @pid with pthread_self() @self. On x86-64 both are the same; on aarch64
 * (@is_above) it points to the end of the control block, whose size varies. Returns 0; -ENOTSUP: not found.
 */
int python_thread_state_find_pointer(pid_t pid, uint64_t self, bool is_above,
				     uint64_t *ret_pointer);

/**
 * Find the way to the thread states of @pid. @interpreters is the address of the pointer to its first interpreter.
 * Sets ways, self_at, key_at, key_inside, tls_at, tls_also_at, dtv_at and dtv_inside of *process.
 * Returns 0; -EAGAIN: no interpreter or thread yet; -EDQUOT: the work's budget is spent; -ENOTSUP: no thread points back to its state (maybe for the
 * moment only); -errno when the process cannot be read.
 */
int python_thread_state_locate(pid_t pid, const struct python_layout *layout, uint64_t interpreters,
			       struct python_process *process);
