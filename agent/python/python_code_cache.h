// SPDX-License-Identifier: Apache-2.0
// The Python functions that were seen running: each code object is read out of its process once, when
// a frame of it first arrives, and remembered by process and address. Processes that run the same
// program share what was read. What is known of a process stays known after its end. One thread.
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

#include "bpf/unwind/python.h"
#include "bpf/unwind/stack.h"

enum {
	PYTHON_CODES_MAX = 1 << 16, // a large service runs 5,000 functions; workers add up
	PYTHON_CODE_CACHE_BYTES_MAX = 16 << 20, // of names and lines; some 500 bytes a function
	PYTHON_CODE_IDLE_WINDOWS = 120, // what is not asked for so long is forgotten: 10 minutes
	/*
	 * Read in one window; what comes beyond stays unnamed. 64,000 functions, so only a process that
	 * makes up frames gets there, and then takes less than a tenth of a core.
	 */
	PYTHON_CODE_READ_BYTES_MAX = 64 << 20,
};

struct python_code_cache;

/** What it takes to read a process's code objects. */
struct python_interpreter {
	const struct python_offsets *offsets;
	uint64_t code_type; // address of PyCode_Type; 0: unknown
	pid_t parent; // who forked the process, and has the same at the same place; 0: unknown
};

/** The interpreter of a process. Returns 0; -ENOENT: there is none, or it is not known (any more). */
typedef int (*python_interpreter_fn)(void *context, const struct process_key *process,
				     struct python_interpreter *ret_interpreter);

/** A line of Python. Strings are valid until the next call. */
struct python_line {
	const char *name; // qualified since 3.11
	const char *file; // "": unknown
	uint32_t line;    // 0: the instruction has none, or unknown
};

struct python_code_cache_stats {
	uint64_t codes;    // remembered now
	uint64_t contents; // distinct ones
	uint64_t bytes;    // memory of those
	uint64_t reads;    // code objects read, so far
	uint64_t failures; // of them: nothing there that is a code object, or the process has gone
	uint64_t reused;   // addresses at which another code object was found than the frame's
	uint64_t refused;  // not read, because PYTHON_CODE_READ_BYTES_MAX were
	uint64_t evicted;  // to make room
};

/** @find_interpreter is asked when a code object is to be read. NULL when out of memory. */
struct python_code_cache *python_code_cache_new(python_interpreter_fn find_interpreter,
						void *context);
void python_code_cache_free(struct python_code_cache *table);

/**
 * Where the frame @frame (FRAME_TAG_PYTHON) of @process stands. Call it while the process lives for
 * it to be read; it costs a look-up when its code object is known. Returns false, and no place, if
 * it could not be read; it may be in the next window.
 */
bool python_code_cache_find(struct python_code_cache *table, const struct process_key *process,
			    const struct raw_frame *frame, struct python_line *ret_place);

/** Once a window: forget what was not asked for in PYTHON_CODE_IDLE_WINDOWS. */
void python_code_cache_expire(struct python_code_cache *table);

void python_code_cache_read_stats(const struct python_code_cache *table,
				  struct python_code_cache_stats *ret_stats);
