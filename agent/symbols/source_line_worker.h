// SPDX-License-Identifier: Apache-2.0
// Reads source lines in a confined worker process, a new one for each request. The files are hostile, and the
// library that reads them (libdw) trusts them. If they make the worker crash, loop or use up its memory, the
// agent only sees its answers end early.
#pragma once

#include <stdint.h>

#include "base/confined/confined_process.h"
#include "base/error.h"
#include "base/symbols/source_lines.h"

enum {
	LINE_WORKER_OFFSETS_MAX = 4096,
	LINE_WORKER_SECONDS = 10, // of CPU time, and of wall clock time
};
#define LINE_WORKER_MEMORY_BYTES (512ULL << 20) // without mapped files

/** For the launcher: what the worker does. */
extern const struct confined_task source_line_task;

/** Offsets in one file whose source lines are wanted. */
struct line_request {
	int fd;
	int debug_fd;            // has its DWARF; -1: the file itself
	int alt_fd;              // has DWARF shared with other files; -1: none
	const uint64_t *offsets; // in the file, ascending
	uint32_t count;
};

/** The lines of offset @index of the request. They and their strings are valid during the call. */
typedef void (*source_lines_fn)(void *context, uint32_t index, const struct source_lines *lines);

/**
 * Run a worker and wait for it. Offsets without lines are not answered. Returns 0; -EIO (the worker ended early: its
 * answers until then are good; @err says how); -ENOTCONN, -EPERM (no worker can be started); -E2BIG; -ENOMEM; -errno.
 */
int source_line_worker_run(struct confined_launcher *launcher, const struct line_request *request,
			   source_lines_fn fn, void *context, struct error *err);
