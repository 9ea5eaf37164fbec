// SPDX-License-Identifier: Apache-2.0
// The process of -p: is it there, and when does it exit?
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/**
 * Open the process @pid; *ret_pidfd becomes readable when it exits. Returns 0; a negative errno and @err if there is none, it is
 * a thread or of the kernel, or it has exited.
 */
int target_process_open(pid_t pid, int *ret_pidfd, struct error *err);

/** "cairn record: pid 1234 exited after 3.1 s", on standard error. */
void target_process_print_exit(pid_t pid, uint64_t after_ns, const char *command);
