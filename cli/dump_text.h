// SPDX-License-Identifier: Apache-2.0
// A process's stacks as text: one paragraph per thread, equal stacks once.
#pragma once

#include <stdbool.h>

#include "agent/dump/process_dump.h"
#include "base/buffer.h"

struct dump_text_options {
	bool all;         // do not fold threads whose stacks are equal
	bool python_only; // hide native and kernel frames
	bool verbose;     // print what the dump cost
	bool colour;
};

void dump_text_write(const struct process_dump *dump, const struct dump_text_options *options,
		     struct buffer *text);

/** A path as short as it is still clear: "asyncio/events.py" of the standard library's. */
const char *dump_text_short_path(const char *path);
