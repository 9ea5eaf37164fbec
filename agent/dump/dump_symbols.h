// SPDX-License-Identifier: Apache-2.0
// Symbolizes what process_capture.h captured: functions and lines of each thread's stack, and what it waits for.
// Private to process_dump.c.
#pragma once

#include <stdint.h>

#include "agent/stacks/frame_resolver.h"
#include "agent/symbols/source_line_reader.h"
#include "agent/stacks/location_table.h"
#include "agent/process/process_table.h"
#include "agent/dump/process_capture.h"

struct dump_symbols {
	struct process_capture *capture;
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

/** @capture has its threads now, its unwinder by dump_symbols_resolve(). Returns 0; -ENOMEM. */
int dump_symbols_open(struct dump_symbols *names, struct process_capture *capture);
/** A zeroed one is allowed. */
void dump_symbols_deinit(struct dump_symbols *names);

/** Symbolize once; fills `threads`. Returns 0; -ENOMEM; -errno. */
int dump_symbols_resolve(struct dump_symbols *names);
