// SPDX-License-Identifier: Apache-2.0
// Processes on which the agent hung, kept in a file over its restart: else it would hang on them again and again. They
// are left alone until they end. A process is known by its pid and by having started before it was noted.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum {
	HUNG_PROCESSES_MAX = 16, // of one node; more hang for one cause, which must be found
};

struct hung_process {
	uint32_t pid;
	uint32_t boot;     // hash of the kernel's boot id
	uint64_t noted_ns; // since the machine's start
};

/** One thread, but for hung_processes_note(). */
struct hung_processes {
	int fd;        // of the file; -1: none
	uint32_t boot; // the present one
	uint32_t count;
	struct hung_process processes[HUNG_PROCESSES_MAX];
};

/** Read @folder's file, made if need be. Those that have ended are dropped. Returns 0 or -errno, with .fd -1. */
int hung_processes_open(const char *folder, struct hung_processes *ret_hung, struct error *err);
void hung_processes_close(struct hung_processes *hung);

/** Is the process that started at @start_ns (CLOCK_BOOTTIME) one of them? A NULL @hung has none. */
bool hung_processes_has(const struct hung_processes *hung, uint32_t pid, uint64_t start_ns);

/** Write @pid to the file: one system call, from any thread. The present agent goes on as before. */
void hung_processes_note(const struct hung_processes *hung, pid_t pid);
