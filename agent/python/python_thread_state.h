// SPDX-License-Identifier: Apache-2.0
// How a thread's own registers lead to its Python thread state. Libraries keep thread-specific data
// and thread-local variables where they like, so nothing is assumed: a thread state says whose it is,
// and the place in that thread's control block that points back to it is the one.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf/unwind/python.h"
#include "agent/python/python_layout.h"

/**
 * The thread pointer of a thread of @pid whose pthread_self() is @self. On x86-64 both are the same; on
 * aarch64 (@is_above) the thread pointer is at the end of the control block, whose size varies.
 * Returns 0; -ENOTSUP if no place there looks like it.
 */
int python_thread_state_find_pointer(pid_t pid, uint64_t self, bool is_above,
				     uint64_t *ret_pointer);

/**
 * Find the way to the thread states of @pid, whose first interpreter is what @interpreters (an address
 * in the process) points to, and fill in how: ways, self_at, key_at, key_inside, tls_at, tls_also_at, dtv_at, dtv_inside.
 * Returns 0; -EAGAIN: there is no interpreter or no thread yet; -ENOTSUP: no thread points back to its
 * state, which may be for the moment only; -errno when the process cannot be read.
 */
int python_thread_state_locate(pid_t pid, const struct python_layout *layout, uint64_t interpreters,
			       struct python_process *process);
