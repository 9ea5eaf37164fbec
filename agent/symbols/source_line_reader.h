// SPDX-License-Identifier: Apache-2.0
// Source lines and inlined calls of offsets in executables. A thread of its own runs source_line_worker.h for
// them, and they are cached. Nobody waits: until lines are known a location has its function's name only. All
// calls from one thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/confined/confined_process.h"
#include "base/event_log.h"
#include "base/symbols/source_lines.h"
#include "agent/symbols/executable.h"

struct source_line_reader;

enum {
	LINE_JOBS_MAX = 64,            // files with requests at a time
	LINE_FILE_BYTES_MAX = 1 << 30, // larger debug files are not read: functions only
};

/**
 * @launcher starts the processes that read; @events may be NULL. All three outlive the reader. NULL when out of memory, or
 * when no thread can be started.
 */
struct source_line_reader *source_line_reader_new(struct executable_table *executables,
						  struct confined_launcher *launcher,
						  struct event_log *events);
void source_line_reader_free(struct source_line_reader *reader);

/**
 * The lines at @offset in the file of @executable. They and their strings are valid until the next call.
 * Returns 0; -EAGAIN: requested, try again later; -ENOENT: it has none.
 */
int source_line_reader_find(struct source_line_reader *reader, struct executable *executable,
			    uint64_t offset, struct source_lines *ret_lines);

/** Cache the answers, and start the requests made since: call it a few times per export interval. */
void source_line_reader_poll(struct source_line_reader *reader);
/** The same, after waiting for the answers for at most @wait_ms. True: all are there. */
bool source_line_reader_wait(struct source_line_reader *reader, uint32_t wait_ms);

/** Files whose lines could not be read, or only some of them. */
uint64_t source_line_reader_failures(const struct source_line_reader *reader);

/** Memory held, bytes. */
uint64_t source_line_reader_bytes(const struct source_line_reader *reader);
