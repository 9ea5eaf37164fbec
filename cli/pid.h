// SPDX-License-Identifier: Apache-2.0
// Process and thread ids on the command line.
#pragma once

#include <stdint.h>

enum { PID_MAX = 1 << 22 }; // the kernel's PID_MAX_LIMIT

/** Reads a whole word as the number of a process, from 1 to PID_MAX. Returns 0 or -EINVAL. */
int pid_parse(const char *text, uint64_t *ret_pid);
