// SPDX-License-Identifier: Apache-2.0
// A file whose unwind table was requested, and figures of all.
#pragma once

#include <stdint.h>

#include "agent/unwind/unwind_table.h"
#include "base/error.h"

enum unwind_file_state {
	UNWIND_FILE_PENDING,  // queued, or being built
	UNWIND_FILE_READY,    // in the kernel
	UNWIND_FILE_NONE,     // no unwind information, or unusable
	UNWIND_FILE_NO_SPACE, // dropped: kernel memory or numbers full, or too large; retried later
	UNWIND_FILE_UNOPENED, // could not be opened; retried later
	UNWIND_FILE_IDLE,     // not needed by any sample, and no space for a prefetch
};

enum { UNWIND_FILE_STATES = UNWIND_FILE_IDLE + 1 };

/** A file whose table was requested. Valid until the next call. */
struct unwind_file {
	enum unwind_file_state state;
	uint32_t number; // READY: the table's
	struct unwind_extent extent;
	uint64_t bytes;    // kernel memory of the table; NO_SPACE: needed
	uint64_t changed;  // unwind_tables_read() call of the last change of state
	uint64_t replaced; // and of the last replacement of the table
};

struct unwind_tables_stats {
	uint64_t ready;
	uint64_t pending;
	uint64_t failed; // since the opening; the last one's error:
	struct error last_failure;
	uint64_t from_disk; // loaded from the cache
	uint64_t evicted;
	uint64_t refused; // dropped: kernel memory full
	uint64_t bytes;   // kernel memory of tables now
	uint64_t rules;
	uint64_t rows; // built since the opening
	uint64_t build_ns;
};
