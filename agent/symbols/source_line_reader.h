// SPDX-License-Identifier: Apache-2.0
// Source lines and inlined calls of addresses in files, read by a thread of its own through
// source_line_worker.h. Nobody waits for them: until a place is known its function's name is used. All
// calls by one thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/source_lines.h"
#include "agent/symbols/executable.h"

struct source_line_reader;

enum {
	LINE_JOBS_MAX = 64,            // files that places are asked for in at once
	LINE_FILE_BYTES_MAX = 1 << 30, // with larger debug files only functions are named
};

/** NULL when out of memory or without a thread. */
struct source_line_reader *source_line_reader_new(struct executable_table *executables);
void source_line_reader_free(struct source_line_reader *reader);

/**
 * What is at @offset in the file of @executable. *ret_place and its strings are valid until the
 * next call. Returns 0; -EAGAIN: asked for, or to be asked for again; -ENOENT: nothing is known.
 */
int source_line_reader_find(struct source_line_reader *reader, struct executable *executable,
			    uint64_t offset, struct source_lines *ret_place);

/** Take what was read since, and let the thread begin with what was asked: a few times a window. */
void source_line_reader_poll(struct source_line_reader *reader);
/** The same, after waiting at most so long for all that was asked. True: all of it is known. */
bool source_line_reader_wait(struct source_line_reader *reader, uint32_t wait_ms);

/** Memory held, bytes. */
uint64_t source_line_reader_bytes(const struct source_line_reader *reader);
