// SPDX-License-Identifier: Apache-2.0
// Reads source lines in a process of its own, forked for each request: the files are hostile, and
// the library that reads them maps them and trusts them. Whatever they make of that process (a
// crash, a loop, a gigabyte of memory), the agent sees answers that end early.
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/source_lines.h"

enum {
	LINE_WORKER_OFFSETS_MAX = 4096,
	LINE_WORKER_SECONDS = 10, // of the processor, and by the clock
};
#define LINE_WORKER_MEMORY_BYTES (512ULL << 20) // its own, beside mapped files

/** Places asked for in one file. */
struct line_request {
	int fd;
	int debug_fd;            // where its DWARF is, -1: in the file itself
	int alt_fd;              // where that has parts that it shares with others, -1: not at hand
	const uint64_t *offsets; // in the file, ascending
	uint32_t count;
};

/** Offset number @index of the request. @place and its strings are valid during the call. */
typedef void (*source_lines_fn)(void *context, uint32_t index, const struct source_lines *place);

/**
 * Ask and wait. Offsets without lines are not answered.
 * Returns 0; -EIO (the helper ended early: what was answered is good; @err says how); -E2BIG;
 * -ENOMEM; -errno where no process can be made.
 */
int source_line_worker_ask(const struct line_request *request, source_lines_fn fn, void *context,
			   struct error *err);
