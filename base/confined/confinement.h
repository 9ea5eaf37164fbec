// SPDX-License-Identifier: Apache-2.0
// What a confined process gives up: capabilities, files, sockets, other processes, executable memory, core dumps.
// It may read and write its descriptors, map them, use memory and CPU time within limits, and end.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct confinement {
	uint64_t memory_bytes; // private and writable: the heap, not mapped files
	uint32_t cpu_seconds;  // 0: its parent sees to that
	int nice;              // above its parent's
};

/**
 * Of the calling process, for good: no capabilities, no_new_privs, not dumpable, no core. The user id stays: whoever has
 * only some capabilities cannot change it, and no system call that is left to a confined process depends on it.
 */
int confinement_drop_privileges(struct error *err);

/** Whether this kernel has seccomp filters: without them nothing is confined. Landlock is a second wall. */
bool confinement_has_seccomp(void);
bool confinement_has_landlock(void);

/**
 * Confine the calling process, a child of @parent with one thread that dropped its privileges. Its @count descriptors
 * (-1: none) become 0, 1, 2, ...; all others are closed. It ends with its parent. Returns 0; -errno: it must end.
 */
int confine_process(const struct confinement *limits, pid_t parent, int *files, uint32_t count);
