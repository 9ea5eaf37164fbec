// SPDX-License-Identifier: Apache-2.0
// A process that a user names by its pid: is it one that can be profiled?
#pragma once

#include <sys/types.h>

#include "agent/process/proc.h"
#include "base/error.h"

/** The process of which @proc's pid is a thread, maybe itself; 0 if /proc does not say. */
pid_t process_target_leader(const struct proc *proc);

/**
 * Refuse the pid of a kernel thread, and of a process that has exited but was not waited for. Returns 0; -EINVAL or -ESRCH
 * with @err.
 */
int process_target_check(pid_t pid, const struct proc *proc, struct error *err);
