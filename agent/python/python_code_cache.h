// SPDX-License-Identifier: Apache-2.0
// Cache of Python code objects: each is read from its process's memory once, when a frame of it first arrives, and
// cached by process and address. Processes that run the same program share names and line tables. Entries outlive
// their process. One thread.
//
// agent/stacks/frame_resolver.c asks for each frame with FRAME_TAG_PYTHON, callers as they arrive and leaves
// when they are counted:
//
//	struct python_line place;
//	if (python_code_cache_find(codes, &process->key, frame, &place))
//		location = location_table_add_python(locations, place.name, place.file, place.line);
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/guard/work.h"
#include "bpf/unwind/python.h"
#include "bpf/unwind/stack.h"

enum {
	PYTHON_CODES_MAX = 1 << 16, // code objects; a large service runs 5,000, its workers add up
	PYTHON_CODE_CACHE_BYTES_MAX = 16 << 20, // of names and lines; some 500 bytes per function
	PYTHON_CODE_IDLE_INTERVALS = 120, // an unused entry is evicted after so long: 10 minutes
	// Reads of 64,000 functions: only a process with fake frames gets there, and it costs less than 0.1 core.
	PYTHON_CODE_READ_BYTES_MAX = 64
				     << 20, // per export interval; past it functions stay unnamed
};

struct python_code_cache;

/** What it takes to read a process's code objects. */
struct python_interpreter {
	const struct python_offsets *offsets;
	uint64_t code_type;         // address of PyCode_Type; 0: unknown
	pid_t parent;               // forked the process: has the same code objects; 0: unknown
	struct work_budget *budget; // of the process; NULL: no limit of time
};

/** The interpreter of a process. Returns 0; -ENOENT: none, or unknown (by now). */
typedef int (*python_interpreter_fn)(void *context, const struct process_key *process,
				     struct python_interpreter *ret_interpreter);

/** A line of Python. Strings are valid until the next call. */
struct python_line {
	const char *name; // qualified since 3.11
	const char *file; // "": unknown
	uint32_t line;    // 0: the instruction has none, or unknown
};

struct python_code_cache_stats {
	uint64_t codes;    // entries now
	uint64_t contents; // distinct names and line tables
	uint64_t bytes;    // memory of those
	uint64_t used;     // functions of frames, so far: each once in an export interval
	uint64_t reads;    // code objects read, so far
	uint64_t failures; // of them: no code object there, or the process had exited
	uint64_t reused;   // of them: another code object than the frame's, at its address
	uint64_t
		refused; // not read: past PYTHON_CODE_READ_BYTES_MAX, or the process's budget is spent
	uint64_t evicted; // to make room
};

/** @find_interpreter is called for each read. NULL when out of memory. */
struct python_code_cache *python_code_cache_new(python_interpreter_fn find_interpreter,
						void *context);
void python_code_cache_free(struct python_code_cache *table);

/**
 * The line of a frame (FRAME_TAG_PYTHON) of @process. Call it while the process lives: an uncached code object is
 * read now. Returns false if it cannot be read; it may be in the next export interval.
 */
bool python_code_cache_find(struct python_code_cache *table, const struct process_key *process,
			    const struct raw_frame *frame, struct python_line *ret_place);

/** Once per export interval: evict entries unused for PYTHON_CODE_IDLE_INTERVALS. */
void python_code_cache_expire(struct python_code_cache *table);

void python_code_cache_read_stats(const struct python_code_cache *table,
				  struct python_code_cache_stats *ret_stats);
