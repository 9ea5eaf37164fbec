// SPDX-License-Identifier: Apache-2.0
// A process's JIT-compiled functions from its perf map, /tmp/perf-PID.map: a line each, "START SIZE NAME" in hex
// (Linux: tools/perf/Documentation/jit-interface.txt). Node, the JVM, Python, LuaJIT, .NET and others write it
// on request. The file grows: each read goes on where the last one ended. Its writer may be hostile. One thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/process/proc.h"

enum {
	PERF_MAP_STEP_BYTES = 4 << 20, // per perf_map_read(), some 15 ms
};
#define PERF_MAP_BYTES_MAX (1ULL << 30) // of one file

struct perf_map;

struct perf_map *perf_map_new(void);
void perf_map_free(struct perf_map *map);

/**
 * Open a process's perf map: in its own root, under the pid of its innermost pid namespace, only a regular file
 * (no link) that belongs to the process's user or to root.
 * Returns the descriptor; -ENOENT; -EPERM for any other file; -errno.
 */
int perf_map_open(const struct proc *proc);

/**
 * Read what was added to the open file. A file other than last time's, or one that was written anew, is read from
 * its beginning, and its functions replace the known ones. Returns 1 if there was something new; 0; -errno.
 */
int perf_map_read(struct perf_map *map, int fd);

/** The function at @address, or NULL. Valid until the next call. */
const char *perf_map_find(struct perf_map *map, uint64_t address);

/** Was a limit hit? Then later functions have no names. */
bool perf_map_is_full(const struct perf_map *map);

/** Memory in use. */
size_t perf_map_bytes(const struct perf_map *map);
