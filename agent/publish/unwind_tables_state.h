// SPDX-License-Identifier: Apache-2.0
// What the files with unwind tables are made of. unwind_tables.c builds their tables, spare_tables.c says which can be spared.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/guard/shares.h"
#include "agent/publish/analyzed_file.h"
#include "agent/publish/unwind_builder.h"
#include "agent/publish/unwind_file.h"
#include "agent/symbols/executable.h"
#include "base/hash_table.h"

struct file {
	struct unwind_file public;      // first
	char key[EXECUTABLE_KEY_BYTES]; // "": free slot
	uint32_t holders;
	uint32_t misses;
	bool preferred;          // PENDING: built before others that no stack needed
	uint64_t size;           // most bytes that a process maps
	uint64_t expected_bytes; // PENDING: estimate of the table
	uint64_t payer;          // of the file, when it was last wanted
	uint64_t queued_payer;   // PENDING: who paid for it when it was queued
	uint64_t used_ns;
	uint64_t unmapped_ns;           // since when no process holds it
	uint64_t again_ns;              // NO_SPACE: when to retry
	uint64_t wait_ns;               // NO_SPACE: the last interval
	struct unwind_job *job;         // queued or running; IDLE: between withdraw() and remove()
	struct analyzed_file *analyzed; // NULL: none
};

struct unwind_tables {
	struct unwind_builder *builder;
	struct file *files;
	uint32_t slot_count, capacity;
	uint32_t *holes;
	uint32_t hole_count;
	struct hash_table by_key;
	uint16_t free_numbers[UNWIND_TABLES_MAX];
	uint32_t free_number_count;
	uint16_t retired[UNWIND_TABLES_MAX]; // numbers of replaced tables
	uint32_t retired_count;
	struct analyzed_fds analyzed;
	uint32_t removing;     // jobs that free numbers
	uint32_t numberless;   // the file that last found no free number, or HASH_TABLE_NONE
	bool number_is_wanted; // and that was not reported yet
	uint64_t renew_ns;     // next check for tables to renew
	uint64_t reads;
	uint64_t bytes_max;
	uint32_t
		prefetch_share; // of them: tables that no sample needed yet fill one part in so many
	uint64_t pending_bytes; // estimate of all pending tables
	struct shares pending;  // tables, by payer
	struct unwind_tables_stats stats;
};

_Static_assert(UNWIND_TABLES_MAX <= UINT16_MAX, "table numbers are kept in 16 bits");

/** Count it as a file in @state. */
void unwind_tables_set_state(struct unwind_tables *tables, struct file *file,
			     enum unwind_file_state state);
/** Pass @job, which removes a table, to the builder. */
void unwind_tables_begin_removal(struct unwind_tables *tables, struct unwind_job *job);
