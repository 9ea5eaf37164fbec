// SPDX-License-Identifier: Apache-2.0
// How much memory may this process use, and how much does it?
#pragma once

#include <stdint.h>

/** The limit of the process's cgroup or of one above it, versions 1 and 2. 0: there is none. */
uint64_t memory_limit_cgroup(void);
/** As above, with the files that name the cgroup (/proc/self/cgroup) and where they are mounted (/sys/fs/cgroup). */
uint64_t memory_limit_of(const char *cgroup_file, const char *mount);
/** The machine's memory. */
uint64_t memory_limit_machine(void);
/** Bytes of this process that are resident; 0: the kernel does not say. */
uint64_t memory_resident(void);
