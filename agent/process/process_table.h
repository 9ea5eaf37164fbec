// SPDX-License-Identifier: Apache-2.0
// The process table: who was running, what was mapped, whose it is. Filled by a scan at start, then
// by the kernel's exec, fork and exit events, and by the first sample of a process not seen yet.
// Keys are safe against reuse of pids and against exec.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/bpf/mmap_events.h"
#include "agent/process/process.h"
#include "base/error.h"

enum {
	PROCESSES_MAX = 65536, // an exited process goes first, then the least recently sampled
};

struct process_table;

/**
 * @extra_labels go on every process and win over detected ones.
 */
struct process_table *process_table_new(struct executable_table *executables,
					const struct labels *extra_labels);
void process_table_free(struct process_table *table);

/** Read all of /proc. A process that vanishes while it is read is not an error. */
int process_table_scan(struct process_table *table, struct error *err);

/**
 * Keep mappings current by @events, which are the caller's and outlive the table. Call it before
 * process_table_scan().
 */
void process_table_follow(struct process_table *table, struct mmap_events *events);

/**
 * Take in what processes have mapped until now. To be called when mmap_events_woken() says so and
 * before records of the kernel's programs are read, so that what a stack goes through is known when
 * it comes. The table also does it when it misses something. Does nothing without events.
 */
void process_table_read_mmaps(struct process_table *table);

/** Another number when the known mappings of any process have changed by an event. */
uint64_t process_table_remapped(const struct process_table *table);

/** One such event; process_table_read_mmaps() calls it. */
void process_table_apply_mmap(struct process_table *table, const struct mmap_event *event);

/** An event of the kernel. */
void process_table_apply(struct process_table *table, const struct process_record *record);

/**
 * The process with @key; read from /proc if not known yet. Never NULL but when out of memory: a
 * process that has already gone gets an entry that knows its key, @name and what labels it can.
 */
struct process *process_table_get(struct process_table *table, const struct process_key *key,
				  const char *name);

/** The process with @key if it is known, else NULL; nothing is read. */
struct process *process_table_find(struct process_table *table, const struct process_key *key);

/**
 * Whether the process with @key runs no more, or not that program. One that the table has forgotten, or
 * never knew, is looked for in /proc.
 */
bool process_table_has_ended(struct process_table *table, const struct process_key *key);

/** Who looks for what forked children have from a process further up need go no further. */
#define PROCESS_FORKS_MAX 4

/**
 * Who forked @process and still runs the same program, or NULL: not known, or it has called exec since.
 */
const struct process *process_table_parent(const struct process_table *table,
					   const struct process *process);

/**
 * What code is at @address. Mappings are read when first needed and again (rate-limited) when the
 * address is in none. Returns 0, or -ENOENT and executable NULL.
 */
int process_find_code(struct process_table *table, struct process *process, uint64_t address,
		      struct code_address *ret_code);

struct mapping_list;

/**
 * The process's executable mappings (agent/process/mapping.h), read if that was not done yet; NULL if they
 * are not known. Valid until the next call on the table.
 */
const struct mapping_list *process_mappings(struct process_table *table, struct process *process);

/**
 * Another number whenever process_mappings() would say something else: ranges, files, or which
 * executable is behind one. 0: none are known. Processes with equal numbers share one list, as a
 * child does with its parent until one of them changes it.
 */
uint64_t process_mappings_generation(const struct process *process);

/**
 * How often more names of generated code became known of the process with @key, which are looked
 * for now (rate-limited) if some were asked for before. PROCESS_JIT_UNKNOWN: there is no such process.
 */
uint64_t process_table_jit_version(struct process_table *table, const struct process_key *key);
#define PROCESS_JIT_UNKNOWN UINT64_MAX

/**
 * Call @fn for each process that runs, has memory of its own and whose labels are known, because it
 * was sampled. @fn must not change the table.
 */
void process_table_each_sampled(const struct process_table *table,
				void (*fn)(void *context, const struct process *process),
				void *context);

/** Is another number when process_table_each_sampled() may have more to tell than before. */
uint64_t process_table_sampled_version(const struct process_table *table);

/** Forget processes that exited more than @age_ns ago. Call once per window. */
void process_table_expire(struct process_table *table, uint64_t age_ns);

uint64_t process_table_count(const struct process_table *table);

/** Names of generated code that are missing, since the table was made. */
struct process_jit_losses {
	uint64_t cut;     // processes that listed more than is kept
	uint64_t refused; // looks into lists that were left out because all take too much memory
};

void process_table_read_jit_losses(const struct process_table *table,
				   struct process_jit_losses *ret_losses);
