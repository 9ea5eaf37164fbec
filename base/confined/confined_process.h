// SPDX-License-Identifier: Apache-2.0
// Work on hostile bytes in processes that can do nothing else (confinement.h). A launcher, this program executed anew
// when it starts, forks a process for each piece of work: so they have none of the memory of their agent or collector, and
// these need no fork() and no execve() later. Any thread may start processes.
//
//	static int read_symbols(const int *files);   // in the confined process: its files are 0, 1, ...
//	static const struct confined_task task = { "read symbols", { .memory_bytes = ... }, read_symbols };
//
// main() names all tasks to confined_launcher_serve() (confined_launcher.h).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/confined/confined_task.h"
#include "base/error.h"

enum {
	CONFINED_FILES_MAX = 8,
	CONFINED_PROCESSES_MAX = 128, // at a time; more are refused with EAGAIN
};

struct confined_launcher;

/** Returns 0; -errno: no process can be confined here, and @err says why. */
int confined_launcher_start(struct confined_launcher **ret_launcher, struct error *err);
/** Ends its processes, too. NULL is allowed. */
void confined_launcher_free(struct confined_launcher *launcher);
/** False: the kernel has no Landlock, and seccomp alone keeps the processes from files. */
bool confined_launcher_has_landlock(const struct confined_launcher *launcher);

/** So often the launcher died and was replaced. */
uint32_t confined_launcher_restarts(struct confined_launcher *launcher);

/**
 * Run @task with duplicates of the descriptors (-1: none). *ret_process is a descriptor: the process is killed when it is
 * closed. Returns 0; -ENOTCONN: no launcher (NULL), or it died too often; -EAGAIN: it has too much to do; -errno.
 */
int confined_process_start(struct confined_launcher *launcher, const struct confined_task *task,
			   const int *files, uint32_t count, int *ret_process, struct error *err);

/**
 * Wait for a process to end and close it; kill it after @wait_ms. Returns 0: its task returned 0; -EIO: it failed, died or
 * was killed, and @err says how; -EPERM: it could not be started or confined; -ECONNRESET: the launcher died, and is
 * started again.
 */
int confined_process_finish(int process, uint32_t wait_ms, struct error *err);
