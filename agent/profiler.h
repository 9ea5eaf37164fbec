// SPDX-License-Identifier: Apache-2.0
// The profiler: BPF programs, tables of processes and symbols, and sources. The agent's main loop runs it
// for ever; `cairn record` and `cairn top` run it in-process. One thread.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "agent/elf/slow_open.h"
#include "agent/overhead/budget.h"
#include "agent/process/process_table.h"
#include "agent/publish/process_unwind.h"
#include "agent/publish/running_processes.h"
#include "agent/python/python_code_cache.h"
#include "agent/relabel/relabel_rules.h"
#include "agent/stacks/export_interval.h"
#include "agent/stacks/snapshot_queue.h"
#include "agent/symbols/identity_cache.h"
#include "base/error.h"
#include "base/event_log.h"
#include "base/labels.h"
#include "base/profile/profile.h"
#include "bpf/bpf_counters.h"

struct boost_demand;
struct confined_launcher;
struct container_records;
struct pod_table;
struct relabel_rules;
struct gpu_kernel_request;
struct profiler;

/**
 * For profiler_options.ready_ns_max. 150 processes take a fifth of it. Past it measuring begins anyway: of a machine with
 * thousands, the first stacks of the idle ones may be truncated.
 */
#define PROFILER_READY_NS_MAX (400ULL * 1000000)
/** The same for one process, which is all that is asked for: one with PyTorch takes a second if its tables are new. */
#define PROFILER_READY_ONE_NS_MAX (5000ULL * 1000000)

struct profiler_options {
	uint32_t frequency_hz; // samples per second and CPU, 1..1000; 99 by default
	uint64_t slot_ns;      // 10 ms .. 1 s; 20 ms by default
	pid_t pid;             // this process and those descended from it only; 0: all
	bool only_gil;         // CPU samples of threads that hold a Python's GIL only
	bool is_held; // @pid is a copy of the caller, which becomes another program: nothing is read for it before
	// Before measuring, publish the processes that run, for so long at most; 0: those of samples only.
	uint64_t ready_ns_max;
	struct labels labels; // --label; they override what is detected
	const char
		*attribute_patterns; // of resource attributes that become labels, too; NULL: none
	struct pod_table *pods;      // that name processes; NULL: none. Outlives the profiler
	struct container_records
		*containers;               // of Docker and Podman; NULL: none. Outlive the profiler
	const struct relabel_rules *rules; // NULL: none. Outlive the profiler
	bool limit_series;                 // for a collector: series_quota.h
	bool folds_thread_names;           // thread_label.h
	struct event_log *events;          // may be NULL
	const struct hung_processes *hung; // to leave alone; NULL: none. Outlives the profiler
	const char *cache_folder;          // for unwind tables and fetched symbols; NULL: none
	struct confined_launcher
		*line_launcher; // for source lines and inlined calls of native code; NULL: none
	const char *debuginfod_urls; // servers with symbols of stripped files; NULL: none
	uint64_t debug_files_bytes;  // limit of fetched symbols in cache_folder
	uint32_t sources;            // beside the sampler: a set of enum source_bit
	const char *wakers;          // services for SOURCE_WAKERS, separated by commas; NULL: none
	double overhead_budget_percent; // of one core; 0: the default
	uint32_t boost_hz;              // the most that profiler_set_boost() asks for; 0: none
	double boost_budget_percent;    // while a boost is active; 0: the default
	uint64_t overhead_interval_ns;  // 0: the default
	uint64_t cupti_interval_ns;     // between CUPTI sessions of a process; 0: the default
	struct gpu_kernel_request
		*gpu_kernel_request; // one CUPTI session, no other GPU calls; or NULL
	/** Add the caller's own series to each export interval; NULL: none. */
	int (*add_series)(void *context, struct export_interval *interval);
	/** The caller must stop soon: nothing more is read of processes. NULL: never. */
	bool (*is_over)(void *context);
	void *context; // of both
};

/** Since the profiler was opened; counts, unless a unit is named. */
struct profiler_stats {
	uint64_t bpf_counters[COUNTER_COUNT];
	uint64_t bpf_run_ns; // time in the sampling program; 0 unless kernel.bpf_stats_enabled
	uint64_t bpf_run_count;
	uint64_t processes;     // known now
	uint64_t files;         // executables and libraries known now
	uint64_t stacks;        // known now
	uint64_t stacks_lost;   // counts whose stack never arrived
	uint64_t threads_other; // counts of threads past a process's quota of names
	uint64_t series_other;  // counts past a process's quota of series
	uint64_t unspread;      // counts of sampled off-CPU intervals that stay in their slot
	uint64_t pods_late;     // processes whose labels changed after samples were shipped
	uint64_t excluded;      // samples of processes that are not to be profiled
	struct relabel_stats relabeled;
	uint64_t held_full; // counts that did not wait for their process's pod
	uint64_t mapping_events_lost;
	uint64_t events_dropped; // of the event log
	struct snapshot_queue_stats snapshots;
	struct process_jit_losses jit;
	struct slow_open_stats opens;
	struct identity_cache_stats identities;
	uint64_t line_failures;      // files whose source lines could not be read
	uint64_t symbols_bytes;      // memory of symbol tables, bytes
	uint64_t drain_ns;           // time of the last drain
	uint64_t analyses_put_off;   // processes whose budget was spent, once in each interval
	uint32_t sources;            // that run: a set of enum source_bit
	bool budget_known;           // false: no overhead budget
	uint64_t attributes_refused; // resource attributes that became no label
	struct budget_stats budget;
	struct running_ready ready; // when measuring began
	struct process_unwind_stats unwind;
	struct python_code_cache_stats python;
};

/**
 * Check the machine (root or capabilities, BTF, kernel version), load everything, publish the processes that run, then
 * attach. Sampling runs on return. On failure @err says what is missing and how to get it.
 */
int profiler_open(const struct profiler_options *options, struct profiler **ret_profiler,
		  struct error *err);
void profiler_close(struct profiler *profiler);

/** Readable when profiler_read() has something to do; for an epoll loop. Owned by the profiler. */
int profiler_fd(const struct profiler *profiler);
/** Read the ring buffer; does not block. Call it soon after the descriptor is readable. */
int profiler_read(struct profiler *profiler, struct error *err);

/**
 * End the export interval: swap the count maps, drain the old one, symbolize, and return the interval's
 * profile (owned by the caller). No sample is lost or in two intervals.
 */
int profiler_drain(struct profiler *profiler, struct profile **ret_profile, struct error *err);

/**
 * Stop sampling: the drain after this is the last one. Snapshots wait for their unwind tables, half a second
 * at most.
 */
void profiler_stop(struct profiler *profiler);

/**
 * Vary the sampling period of each CPU, follow the wall clock, and drain early when the count maps fill up.
 * Call it at least once a second; cheap when nothing is due.
 */
void profiler_tick(struct profiler *profiler);

/** What a boost has changed. */
struct profiler_boost {
	uint32_t hz;       // of CPU sampling now
	uint32_t profiles; // enum boost_profile: of those asked for, that are collected
	bool stopped;
};

/**
 * Do what boosts demand together, in place of what they demanded before; a zeroed @demand ends them. Loading the programs
 * of a source takes a second. What fails is an event.
 */
void profiler_set_boost(struct profiler *profiler, const struct boost_demand *demand);
void profiler_read_boost(const struct profiler *profiler, struct profiler_boost *ret_boost);

void profiler_read_stats(const struct profiler *profiler, struct profiler_stats *ret_stats);
