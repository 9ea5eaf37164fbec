// SPDX-License-Identifier: Apache-2.0
// The functions that a process compiles at run time, as it lists them in /tmp/perf-PID.map: a line
// each, "START SIZE NAME" with hexadecimal numbers (Linux: tools/perf/Documentation/jit-interface.txt).
// Node, the JVM, Python, LuaJIT, .NET and others write it when they are asked to. The file grows and
// is read on from where it was; who writes it may be hostile. One thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/process/proc.h"

enum {
	PERF_MAP_STEP_BYTES =
		4 << 20, // read at a time, some 15 ms; the rest comes with the next call
};
#define PERF_MAP_BYTES_MAX (1ULL << 30) // no more is read of one file

struct perf_map;

struct perf_map *perf_map_new(void);
void perf_map_free(struct perf_map *map);

/**
 * Open the perf map of a process for reading: in its own root, under the pid that it knows itself
 * by, only a regular file (no link to one) that belongs to the process's user or to root.
 * Returns the descriptor; -ENOENT; -EPERM for a file that is none of these; -errno.
 */
int perf_map_open(const struct proc *proc);

/**
 * Read on in the open file. Another file than last time, or one that was cut, is read from its
 * beginning and what was known is forgotten.
 * Returns 1 if there was something new; 0; -errno.
 */
int perf_map_read(struct perf_map *map, int fd);

/** The function at @address, or NULL. Valid until the next call. */
const char *perf_map_find(struct perf_map *map, uint64_t address);

/** Is there more in the file than is kept? */
bool perf_map_is_full(const struct perf_map *map);

/** Memory in use. */
size_t perf_map_bytes(const struct perf_map *map);
