// SPDX-License-Identifier: Apache-2.0
// What a look at a process has found, in words: the functions and lines of each thread's stack, and what it
// waits for. Private to process_dump.c.
#pragma once

#include <stdint.h>

#include "agent/stacks/frame_resolver.h"
#include "agent/symbols/source_line_reader.h"
#include "agent/stacks/location_table.h"
#include "agent/process/process_table.h"
#include "agent/dump/process_look.h"

struct dump_names {
	struct process_look *look;
	struct executable_table *executables;
	struct process_table *processes;
	struct location_table *locations;
	struct source_line_reader *lines; // NULL: of functions only
	struct python_code_cache *python_codes;
	struct frame_resolver locator;
	struct process *process;
	struct profile *profile; // holds the strings
	struct dump_thread *threads;
	uint32_t thread_count;
};

/** Open what names come from. @look has its threads, and its unwinder by dump_names_give(). Returns 0; -ENOMEM. */
int dump_names_open(struct dump_names *names, struct process_look *look);
/** A zeroed one is allowed. */
void dump_names_deinit(struct dump_names *names);

/** Name all that was seen, once: `threads` are filled in. Returns 0; -ENOMEM; -errno. */
int dump_names_give(struct dump_names *names);
