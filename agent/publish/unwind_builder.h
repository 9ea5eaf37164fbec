// SPDX-License-Identifier: Apache-2.0
// The thread that builds unwind tables and puts them into the kernel, or takes them out: both take
// too long for the main loop, building up to a second, the kernel some 10 ms for each change.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/build_id.h"
#include "agent/unwind/analyzed_functions.h"
#include "agent/unwind/unwind_table.h"
#include "agent/bpf/unwind_maps.h"
#include "agent/unwind/unwind_table_cache.h"
#include "base/error.h"

struct unwind_builder;

enum unwind_job_kind {
	UNWIND_JOB_BUILD,  // build the table of `fd`, and install it under `number`
	UNWIND_JOB_REMOVE, // take the table `number` out of the kernel
};

/** One thing to do, and then what came of it. The adder fills the first part. */
struct unwind_job {
	enum unwind_job_kind kind;
	uint32_t number;
	uint32_t file; // the adder's own
	int fd;        // of the file; closed with the job
	char id[BUILD_ID_TEXT_BYTES];
	char name[64];          // of the file, for errors
	uint64_t weight;        // the heaviest is built first
	bool renews;            // the file has a table already, which stays until this one is there
	uint64_t renewed_bytes; // kernel memory of that, which is given back then
	// To be followed (MARK_ANALYZE) by the job that renews a table. The first job gives back those that
	// are known already, for another one.
	struct analyzed_functions analyzed;
	uint32_t analyzed_before; // of them: what the table has already that the last job made

	int rc;         // 0; -ENOSPC: no room for `bytes` or for its rules; or the error's
	uint64_t bytes; // kernel memory that the table takes, or wanted
	bool from_disk; // it was not built
	struct unwind_extent extent;
	struct error error;
	struct unwind_job *next; // in the builder's lists, then the taker's
};

struct unwind_job *unwind_job_new(enum unwind_job_kind kind, uint32_t number);
void unwind_job_free(struct unwind_job *job);

/** What was built so far. */
struct unwind_builder_stats {
	uint64_t rows;     // of all tables built
	uint64_t build_ns; // CPU time of the thread
	uint32_t rules;    // distinct, now
};

/**
 * Start the thread. @maps outlives it. @cache is where built tables are kept (NULL: nowhere); it is the
 * builder's from now on, on failure too. At most @bytes_max of kernel memory are used for tables.
 */
int unwind_builder_open(const struct unwind_maps *maps, struct unwind_table_cache *cache,
			uint64_t bytes_max, struct unwind_builder **ret_builder, struct error *err);
/** Waits for the job in work, up to a second. Jobs not taken are freed. */
void unwind_builder_close(struct unwind_builder *builder);

/** Hand over a job. It comes back by unwind_builder_take(). */
void unwind_builder_add(struct unwind_builder *builder, struct unwind_job *job);
/** Change the weight of a job that was not taken yet. */
void unwind_builder_weigh(struct unwind_builder *builder, struct unwind_job *job, uint64_t weight);
void unwind_builder_limit(struct unwind_builder *builder, uint64_t bytes_max);

/** Readable when jobs are done. Owned by the builder. */
int unwind_builder_fd(const struct unwind_builder *builder);
/** All jobs done since the last time, a list by `next` in no order, the caller's; NULL: none. */
struct unwind_job *unwind_builder_take(struct unwind_builder *builder);

void unwind_builder_read_stats(struct unwind_builder *builder,
			       struct unwind_builder_stats *ret_stats);
