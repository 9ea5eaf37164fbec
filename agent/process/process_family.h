// SPDX-License-Identifier: Apache-2.0
// A process and those descended from it, as /proc has them now. A child whose parent has exited is another's.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** A zeroed struct is empty. */
struct process_family {
	pid_t *pids; // sorted
	uint32_t count;
};

/** List @pid and its descendants. Returns 0; -ENOMEM; -errno if /proc cannot be read. The caller ends with process_family_deinit(). */
int process_family_read(pid_t pid, struct process_family *ret_family);
void process_family_deinit(struct process_family *family);
bool process_family_has(const struct process_family *family, pid_t pid);
