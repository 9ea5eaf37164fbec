// SPDX-License-Identifier: Apache-2.0
// The process table: which processes run, with their labels and mappings. Filled by a scan of /proc at start, then
// by fork, exec and exit events, and by the first sample of an unknown process. Keys are safe against reuse of pids
// and against exec.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/bpf/mmap_events.h"
#include "agent/process/process.h"
#include "base/error.h"

enum {
	PROCESSES_MAX =
		65536, // exited processes are evicted first, then the least recently sampled
};

struct pod_table;
struct process_table;

/** @extra_labels are set on every process, over detected ones. NULL when out of memory. */
struct process_table *process_table_new(struct executable_table *executables,
					const struct labels *extra_labels);
void process_table_free(struct process_table *table);

/** Let these attributes of processes be labels, too (resource_attributes.h). @patterns outlive the table. */
void process_table_allow_attributes(struct process_table *table, const char *patterns);
/** Resource attributes that became no label, so far. */
uint64_t process_table_attributes_refused(const struct process_table *table);

/** Name processes by their pods. @pods outlives the table. Call it before any process is known. */
void process_table_use_pods(struct process_table *table, struct pod_table *pods);
/** Processes whose labels changed after samples were shipped, because their pod became known or changed. */
uint64_t process_table_pods_late(const struct process_table *table);

struct container_records;

/** Name processes by the containers of Docker and Podman. @containers outlive the table. Call it before any process is known. */
void process_table_use_containers(struct process_table *table,
				  struct container_records *containers);

struct relabel_rules;
struct relabel_stats;

/** Apply these rules to the labels of all processes. @rules outlive the table. Call it before any process is known. */
void process_table_use_rules(struct process_table *table, const struct relabel_rules *rules);
void process_table_read_relabeled(const struct process_table *table,
				  struct relabel_stats *ret_stats);

/** Add all processes of /proc. One that exits meanwhile is no error. */
int process_table_scan(struct process_table *table, struct error *err);

/** Keep mappings current by @events, which outlive the table. Call it before process_table_scan(). */
void process_table_follow(struct process_table *table, struct mmap_events *events);

/**
 * Apply the mmap events so far. Call it when mmap_events_woken() says so, and before records of the BPF programs
 * are read, so that a stack's mappings are known when it comes. Unknown addresses do it, too. Without events it
 * does nothing.
 */
void process_table_read_mmaps(struct process_table *table);

/** Changes when an event changed the mappings of any process. */
uint64_t process_table_remapped(const struct process_table *table);

/** Apply one mmap event; process_table_read_mmaps() calls it. */
void process_table_apply_mmap(struct process_table *table, const struct mmap_event *event);

/** Apply a fork, exec or exit event. */
void process_table_apply(struct process_table *table, const struct process_record *record);

/**
 * The process with @key, read from /proc if it is unknown. An exited one gets @name and the labels that can still
 * be found. NULL only when out of memory.
 */
struct process *process_table_get(struct process_table *table, const struct process_key *key,
				  const char *name);

/** The process with @key, or NULL. Reads nothing. */
struct process *process_table_find(struct process_table *table, const struct process_key *key);

/** Whether the process with @key has exited or called exec. An unknown one is looked up in /proc. */
bool process_table_has_ended(struct process_table *table, const struct process_key *key);

/** How many parents to search for what a forked child shares with them. */
#define PROCESS_FORKS_MAX 4

/** The process that forked @process, if it still runs the same program; else NULL. */
const struct process *process_table_parent(const struct process_table *table,
					   const struct process *process);

/**
 * The code at @address. Mappings are read when first needed, and again (rate-limited) for an unknown address.
 * Returns 0, or -ENOENT with executable NULL.
 */
int process_find_code(struct process_table *table, struct process *process, uint64_t address,
		      struct code_address *ret_code);

struct mapping_list;

/** The process's executable mappings (agent/process/mapping.h); NULL: unknown. Valid until the next call. */
const struct mapping_list *process_mappings(struct process_table *table, struct process *process);

/**
 * Changes with the mappings: ranges, files, executables. 0: unknown. Processes with the same number share one list,
 * as a forked child and its parent do until one of them changes it.
 */
uint64_t process_mappings_generation(const struct process *process);

/**
 * Grows when more JIT names of the process with @key become known. If some were looked up before, its files are
 * read now (rate-limited). PROCESS_JIT_UNKNOWN: no such process.
 */
uint64_t process_table_jit_version(struct process_table *table, const struct process_key *key);
#define PROCESS_JIT_UNKNOWN UINT64_MAX

/**
 * Call @fn for each running process with labels, that is, each that was sampled, apart from kernel threads and processes
 * that are not to be profiled. @fn must not change the table.
 */
void process_table_each_sampled(const struct process_table *table,
				void (*fn)(void *context, const struct process *process),
				void *context);

/** Changes when process_table_each_sampled() may have more processes. */
uint64_t process_table_sampled_version(const struct process_table *table);

/** Evict processes that exited more than @age_ns ago, renew budgets. Call it once per export interval. */
void process_table_expire(struct process_table *table, uint64_t age_ns);

/** Do not identify files of which more than @bytes are mapped as code, until this is called with 0. */
void process_table_put_off_large_files(struct process_table *table, uint64_t bytes);

/** Read nothing for the program that process @pid runs now, which must be in the table; its next one is read as others are. */
void process_table_leave_alone(struct process_table *table, pid_t pid);

/** What the budgets of its processes share: to set limits and where to report, and to read what was put off. */
struct work_pool *process_table_work(struct process_table *table);

uint64_t process_table_count(const struct process_table *table);

/** JIT names that are missing, so far. */
struct process_jit_losses {
	uint64_t cut;     // processes that hit a limit of perf_map.h, jitdump.h or jit_symbols.h
	uint64_t refused; // reads skipped because of JIT_BYTES_MAX
};

void process_table_read_jit_losses(const struct process_table *table,
				   struct process_jit_losses *ret_losses);
