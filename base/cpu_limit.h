// SPDX-License-Identifier: Apache-2.0
// How many CPUs may this process use?
#pragma once

#include <stdint.h>

/** CPUs that it may run on, and no more than its cgroup's quota pays for, rounded up. At least 1. */
uint32_t cpu_limit(void);
/** The quota alone, with files as of memory_limit_of(). 0: there is none. */
uint32_t cpu_limit_of(const char *cgroup_file, const char *mount);
