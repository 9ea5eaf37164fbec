// SPDX-License-Identifier: Apache-2.0
// The limits of a process's cgroup and of those above it, versions 1 and 2.
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** Reads a cgroup's limit from its @folder, in which files are named as the @version (1 or 2) has them. 0: none. */
typedef uint64_t cgroup_limit_fn(const char *folder, int version);

/**
 * The smallest limit of @controller ("memory") that @read finds. @cgroup_file names the cgroup (/proc/self/cgroup), @mount is
 * where cgroups are mounted (/sys/fs/cgroup). 0: there is none.
 */
uint64_t cgroup_limit_of(const char *cgroup_file, const char *mount, const char *controller,
			 cgroup_limit_fn *read);
