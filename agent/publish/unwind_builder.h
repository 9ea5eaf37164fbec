// SPDX-License-Identifier: Apache-2.0
// The thread that builds unwind tables and installs or removes them. Building takes up to a second and the kernel
// some 10 ms per change: too long for the main loop.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/file_version.h"
#include "agent/symbols/executable.h"
#include "agent/symbols/file_identity.h"
#include "agent/unwind/analyzed_functions.h"
#include "agent/unwind/unwind_table.h"
#include "agent/bpf/unwind_maps.h"
#include "agent/unwind/unwind_table_cache.h"
#include "base/error.h"

struct unwind_builder;

enum unwind_job_kind {
	UNWIND_JOB_BUILD,  // build the table of `fd` and install it as `number`
	UNWIND_JOB_REMOVE, // remove table `number`
};

/** A job: the first part is the request, the second the result. */
struct unwind_job {
	enum unwind_job_kind kind;
	uint32_t number;
	uint32_t file;                  // for the caller
	int fd;                         // of the file; closed with the job
	struct file_version version;    // that was hashed for the key
	char key[EXECUTABLE_KEY_BYTES]; // of the executable
	char name[64];                  // of the file, for errors
	uint64_t weight;                // the heaviest comes first, of payers within their share
	uint64_t payer;                 // of the executable; who has taken much time comes later
	bool renews;                    // replaces a table, which stays until then
	uint64_t renewed_bytes;         // kernel memory of that table, freed then
	// Renewing: functions to analyze (MARK_ANALYZE). Else a result: functions already known to need it.
	struct analyzed_functions analyzed;
	uint32_t analyzed_before; // of them: already in the last table

	int rc; // 0; -ENOSPC: no space for bytes or rules; -ESTALE: the file was written; other errors
	uint64_t bytes; // kernel memory of the table, or needed
	bool from_disk; // loaded from the cache
	struct unwind_extent extent;
	struct error error;
	struct unwind_job *next; // in the builder's lists, then the caller's
};

struct unwind_job *unwind_job_new(enum unwind_job_kind kind, uint32_t number);
void unwind_job_free(struct unwind_job *job);

struct unwind_builder_stats {
	uint64_t rows;     // of all tables built
	uint64_t build_ns; // CPU time of the thread
	uint32_t rules;    // distinct, now
};

/**
 * Start the thread. @maps outlives it. Takes over @cache (NULL: none), also on failure. Tables take at most
 * @bytes_max of kernel memory.
 */
int unwind_builder_open(const struct unwind_maps *maps, struct unwind_table_cache *cache,
			uint64_t bytes_max, struct unwind_builder **ret_builder, struct error *err);
/** Waits for the present job, up to a second. Frees all jobs. */
void unwind_builder_close(struct unwind_builder *builder);

/** Queue a job. It comes back from unwind_builder_take(). */
void unwind_builder_add(struct unwind_builder *builder, struct unwind_job *job);
/** Change the weight of a job that has not come back. */
void unwind_builder_weigh(struct unwind_builder *builder, struct unwind_job *job, uint64_t weight);
void unwind_builder_limit(struct unwind_builder *builder, uint64_t bytes_max);

/** Readable when jobs are done. Owned by the builder. */
int unwind_builder_fd(const struct unwind_builder *builder);
/** All jobs done since the last call, in no order, linked by `next`; the caller owns them. NULL: none. */
struct unwind_job *unwind_builder_take(struct unwind_builder *builder);

void unwind_builder_read_stats(struct unwind_builder *builder,
			       struct unwind_builder_stats *ret_stats);
