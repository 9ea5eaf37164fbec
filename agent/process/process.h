// SPDX-License-Identifier: Apache-2.0
// A process of the process table, and where an address of it lies.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/symbols/executable.h"
#include "base/labels.h"
#include "bpf/sample.h"

/** Valid until it is forgotten (process_table_expire()). */
struct process {
	struct process_key key;
	char name[THREAD_NAME_BYTES]; // comm of its main thread
	bool exited;
	struct labels
		labels; // service, process, node, container ... : complete for a series but for "thread"
			// the rest is private to process_entry.h
};

/** Where an address lies: executable and offset in its file; executable NULL: not in a file. */
struct code_address {
	struct executable *executable;
	uint64_t offset;
	bool is_data; // the process's mappings are known, and no code is there: no return address
	bool is_unknown;      // the process has gone before its mappings could be read
	bool is_jit;          // made at run time, see mapping_is_jit()
	const char *jit_name; // of such code, NULL: unknown; valid until the next call on the table
};
