// SPDX-License-Identifier: Apache-2.0
// What source an address in a file came from, as it is handed from whoever reads it to whoever
// shows it.
#pragma once

#include <stdint.h>

enum {
	SOURCE_LINES_MAX = 64,    // inlined calls within each other and their function
	SOURCE_NAME_BYTES = 1024, // names and paths are cut
};

/** A function and the place in it. */
struct source_line {
	const char *name; // demangled; "": unknown
	const char *file; // "": unknown
	uint32_t number;  // 0: unknown
};

/** All that one address stands for. */
struct source_lines {
	uint64_t start_offset; // in the file: the lowest that stands for the same
	uint32_t count;        // at least 1
	struct source_line lines[SOURCE_LINES_MAX]; // innermost (inlined) first
};
