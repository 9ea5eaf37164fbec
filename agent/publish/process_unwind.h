// SPDX-License-Identifier: Apache-2.0
// What the kernel's unwinder knows of processes: their mappings with the tables of the files there,
// and where their interpreter is. Only processes that were sampled are published, and again when
// their mappings change or a table that they wait for is ready. One thread.
#pragma once

#include <stdint.h>

#include "agent/process/process_table.h"
#include "agent/python/python_runtime.h"
#include "agent/bpf/unwind_maps.h"
#include "base/error.h"
#include "base/event_log.h"

enum {
	// Of kernel memory, for tables and mapping pages: PyTorch with CUDA takes 20 MB. It leaves 8 MB
	// of what all maps may take to the others.
	UNWIND_BYTES_MIN = 32 << 20,
	// But a larger node runs several versions of it, each with tables of its own, or browsers and
	// compilers beside: 33 MB on a machine where PyTorch's tables then found no room.
	UNWIND_MEMORY_SHARE = 512,
	UNWIND_BYTES_MAX = 128 << 20, // a third of what its pod may take (deploy/)
};

struct process_unwinds;

struct process_unwind_options {
	uint64_t kept_ns; // tables of use in this time are not given up for others; 0: a minute
	uint64_t
		bytes_max; // of tables and mapping pages in the kernel; 0: as much as suits the machine
	const char *cache_folder;       // where built tables are kept; NULL: nowhere
	struct python_runtimes *python; // outlives this; NULL: no interpreters are looked for
	struct event_log *events;       // of the cache, and of interpreters; may be NULL
};

/** What there is now, and what was done since the opening. */
struct process_unwind_stats {
	uint64_t processes;        // published now
	uint64_t mapping_pages;    // of them
	uint64_t tables;           // in the kernel now
	uint64_t tables_pending;   // wanted, not ready
	uint64_t tables_failed;    // files whose unwind information cannot be used, now known
	uint64_t tables_from_disk; // were not built
	uint64_t tables_evicted;
	uint64_t tables_refused; // no room: bytes, numbers or rules
	uint64_t rules;          // distinct, in the kernel now
	uint64_t bytes;          // kernel memory of tables and pages
	uint64_t rows;           // of all tables built
	uint64_t build_ns;       // CPU time of building
	uint64_t published;      // times that a process was, or was again
	uint64_t dropped;        // taken back for want of room
	uint64_t publish_failed; // a map was full, or the kernel without memory: tried again later
	uint64_t mappings_dropped; // left out of processes that have too many
	struct error last_failure; // of a file; code 0: none
};

/**
 * Begin to publish into @maps, which outlives this; nothing is published if they are unused.
 * @processes tells mappings. Starts the thread that builds tables.
 */
int process_unwind_open(const struct unwind_maps *maps, struct process_table *processes,
			const struct process_unwind_options *options,
			struct process_unwinds **ret_unwinds, struct error *err);
void process_unwind_close(struct process_unwinds *unwinds);

/**
 * A stack of @process has come. Publishes the process if that was not done yet, or if its mappings
 * have changed; costs a look-up otherwise. It may have exited since: then it is taken back in a moment.
 * @missing is the address in it where the unwinder found no mapping or no table (0: it did not stop for
 * that): the table of the file there is built first. Call it after process_find_code() of that address,
 * which reads the mappings again.
 */
void process_unwind_touch(struct process_unwinds *unwinds, struct process *process,
			  uint64_t missing);

/**
 * Publish those again whose mappings have changed by events (process_table_read_mmaps()), whether
 * or not a stack of theirs comes: what is published may unwind by the table of what was there before.
 */
void process_unwind_refresh(struct process_unwinds *unwinds);

/**
 * A stack ended in a function of @executable, @size bytes at @offset in the file, that its unwind
 * information says nothing of. Its code will be analyzed, soon.
 */
void process_unwind_analyze(struct process_unwinds *unwinds, const struct executable *executable,
			    uint64_t offset, uint64_t size);

/**
 * A stack of the process went through @pc, in code made at run time. Where such code keeps no frame
 * pointer (@is_truncated: that is how the stack ended), what it does to the stack is found out, and published.
 * The process was touched.
 */
void process_unwind_analyze_jit(struct process_unwinds *unwinds, struct process *process,
				uint64_t pc, bool is_truncated);

/** The process was counted in a window: what it needs is evicted last. Costs a look-up. */
void process_unwind_use(struct process_unwinds *unwinds, const struct process_key *key);

/** Is the process published, but not all of its files' tables ready? */
bool process_unwind_waits(const struct process_unwinds *unwinds, const struct process_key *key);

/**
 * Where the interpreter of a published process is, for naming its frames; NULL: none is known. Valid
 * until the next call that changes @unwinds.
 */
const struct python_process *process_unwind_python(const struct process_unwinds *unwinds,
						   const struct process_key *key);

/**
 * An event of the kernel: exec and exit take back what was published, exit a moment later, for samples
 * that still wait to be unwound.
 */
void process_unwind_apply(struct process_unwinds *unwinds, const struct process_record *record);

/** Readable when tables have become ready: call process_unwind_read(). Owned by @unwinds. */
int process_unwind_fd(const struct process_unwinds *unwinds);
/** Publish the processes that waited for tables which are ready now; does not block. */
void process_unwind_read(struct process_unwinds *unwinds);

/** Once a window: take back what is published of processes whose end nobody told. */
void process_unwind_expire(struct process_unwinds *unwinds);

void process_unwind_read_stats(const struct process_unwinds *unwinds,
			       struct process_unwind_stats *ret_stats);
