// SPDX-License-Identifier: Apache-2.0
// Publishes processes to the unwinder: their mappings with the tables of the files, and their interpreter. A
// process is published when it is sampled, and again when its mappings change or a table becomes ready. One
// thread.
#pragma once

#include <stdint.h>

#include "agent/process/process_table.h"
#include "agent/python/python_runtime.h"
#include "agent/bpf/unwind_maps.h"
#include "base/error.h"
#include "base/event_log.h"

enum {
	// Kernel memory for tables and mapping pages; PyTorch with CUDA needs 20 MB. Leaves 8 MB of the budget of
	// all maps to the others.
	UNWIND_BYTES_MIN = 32 << 20,
	// A larger node runs several versions of a library, or browsers and compilers as well: with 33 MB the tables
	// of PyTorch did not fit such a machine.
	UNWIND_MEMORY_SHARE = 512,
	UNWIND_BYTES_MAX = 128 << 20, // a third of its pod's memory limit (deploy/)
};

struct process_unwinds;

struct process_unwind_options {
	uint64_t kept_ns;               // tables used in this time are evicted last; 0: a minute
	uint64_t bytes_max;             // of tables and mapping pages; 0: by machine size
	const char *cache_folder;       // of the table cache; NULL: none
	struct python_runtimes *python; // outlives this; NULL: no Python frames
	struct event_log *events;       // may be NULL
	bool is_for_one; // process: all of its tables are built before any sample needs them
};

/** Gauges, and counters since the opening. */
struct process_unwind_stats {
	uint64_t processes;        // published now
	uint64_t mapping_pages;    // of these processes
	uint64_t tables;           // in the kernel now
	uint64_t tables_pending;   // requested, not ready
	uint64_t tables_failed;    // files with unusable unwind information
	uint64_t tables_from_disk; // loaded from the cache
	uint64_t tables_evicted;
	uint64_t tables_refused;   // dropped: bytes, numbers or rules used up
	uint64_t rules;            // distinct ones, in the kernel now
	uint64_t bytes;            // kernel memory of tables and pages
	uint64_t rows;             // built, of all tables
	uint64_t build_ns;         // CPU time of building
	uint64_t published;        // publications
	uint64_t dropped;          // processes evicted: memory for their pages full
	uint64_t publish_failed;   // retried later: a map was full, or the kernel lacked memory
	uint64_t mappings_dropped; // dropped from processes with too many
	struct error last_failure; // of a file; code 0: none
};

/**
 * Start publishing into @maps, which outlives this; if they are unused, nothing is published. Starts the thread
 * that builds tables.
 */
int process_unwind_open(const struct unwind_maps *maps, struct process_table *processes,
			const struct process_unwind_options *options,
			struct process_unwinds **ret_unwinds, struct error *err);
void process_unwind_close(struct process_unwinds *unwinds);

/**
 * @process was sampled: publish it if it is new or its mappings have changed; else this costs a lookup. @missing:
 * the address where its stack ended for want of a mapping or a table (0: it did not); that table is built first.
 * Call it after process_find_code() of that address, which reads the mappings again. If the process has exited
 * meanwhile, it is withdrawn soon.
 */
void process_unwind_touch(struct process_unwinds *unwinds, struct process *process,
			  uint64_t missing);

/**
 * Publish processes again whose mappings have changed by mmap events, sampled or not: they may be unwound with the
 * table of the file that was there before.
 */
void process_unwind_refresh(struct process_unwinds *unwinds);

/**
 * A stack ended in a function of @executable, @size bytes at file offset @offset, that no unwind information
 * describes. Its code is analyzed soon.
 */
void process_unwind_analyze(struct process_unwinds *unwinds, struct executable *executable,
			    uint64_t offset, uint64_t size);

/**
 * A stack went through JIT code at @pc. If it was truncated there (@is_truncated), the code keeps no frame pointer:
 * it is analyzed, and its rules are published. Call process_unwind_touch() first.
 */
void process_unwind_analyze_jit(struct process_unwinds *unwinds, struct process *process,
				uint64_t pc, bool is_truncated);

/** The process was counted in this export interval: evict its tables last. Costs a lookup. */
void process_unwind_use(struct process_unwinds *unwinds, const struct process_key *key);

/** Is the process published, but not all of its files' tables ready? */
bool process_unwind_waits(const struct process_unwinds *unwinds, const struct process_key *key);

/** Is code of the published process being analyzed that its tables do not describe? */
bool process_unwind_lacks_analyzed(const struct process_unwinds *unwinds,
				   const struct process_key *key);

/** Is the process published, and are the tables of all its files there, but for what no sample has needed? */
bool process_unwind_is_ready(const struct process_unwinds *unwinds, const struct process_key *key);

/** Is the process published, with all of its files? Their tables may be missing. */
bool process_unwind_is_identified(const struct process_unwinds *unwinds,
				  const struct process_key *key);

/** Build the tables of this published process before those that no stack needed yet. */
void process_unwind_prefer(struct process_unwinds *unwinds, const struct process_key *key);

/** The interpreter of a published process, to name its frames; NULL: none. Valid until @unwinds changes. */
const struct python_process *process_unwind_python(const struct process_unwinds *unwinds,
						   const struct process_key *key);

/** Exec withdraws the process; exit does so a moment later, as snapshots of it may be waiting. */
void process_unwind_apply(struct process_unwinds *unwinds, const struct process_record *record);

/** Readable when tables are ready: call process_unwind_read(). Owned by @unwinds. */
int process_unwind_fd(const struct process_unwinds *unwinds);
/** Publish processes whose tables became ready. Does not block. */
void process_unwind_read(struct process_unwinds *unwinds);

/** Call once per export interval: withdraw processes whose exit event was lost. */
void process_unwind_expire(struct process_unwinds *unwinds);

void process_unwind_read_stats(const struct process_unwinds *unwinds,
			       struct process_unwind_stats *ret_stats);
