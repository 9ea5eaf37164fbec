// SPDX-License-Identifier: Apache-2.0
// What a profiler is made of. profiler_open.c opens and closes it, profiler.c runs it, profiler_boost.c does what
// boosts demand.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/boost/boosts.h"
#include "agent/publish/running_processes.h"
#include "agent/stacks/export_interval.h"
#include "agent/stacks/stack_reader.h"

enum {
	PROFILER_SERVICES_BYTES =
		4096, // of --wakers and a boost's services together; a longer list is cut
};

struct profiler {
	uint64_t slot_ns;
	uint32_t frequency_hz; // without a boost
	const char *wakers;    // the same; NULL: none
	double boost_budget_percent;
	uint32_t counts_max;
	struct executable_table *executables;
	struct mmap_events *mmaps; // NULL: mappings are read when stacks need them
	struct process_table *processes;
	struct identity_cache *identities; // NULL: all files are hashed
	struct python_runtimes *pythons;
	struct python_code_cache *python_codes;
	struct kallsyms_reading *kallsyms_reading; // until the symbols are needed
	struct kallsyms *kallsyms;                 // NULL: kernel functions stay unnamed
	struct debuginfod *debuginfod;             // NULL: no server is asked
	struct source_line_reader *lines;          // NULL: functions only
	struct location_table *locations;
	struct gpu_namer gpu_namer; // set by the source that names GPU kernels
	struct stack_table *stacks;
	struct wait_class_cache *wait_classes;
	struct series_quota *quota; // NULL: no collector to protect
	struct held_counts *held;   // NULL: no count waits for its process's pod
	bool folds_thread_names;
	struct stack_reader reader;
	struct loader *loader;
	struct process_unwinds *unwinds;
	struct snapshot_program *snapshot_program;
	struct snapshot_queue *snapshots; // NULL: the kernel refused them
	struct perf_events *events;
	struct sources *sources;
	struct export_interval interval; // may have counts already: full maps are drained early
	uint32_t intervals;              // finished
	uint64_t lines_due_ns;           // when to collect lines
	uint64_t clock_due_ns;           // when to set the clock
	uint64_t counts_due_ns;
	uint64_t counts_before; // counter when the count maps were swapped
	uint64_t stacks_lost, threads_other, series_other, unspread, excluded;
	uint64_t hung_opens; // reported
	uint64_t drain_ns;
	struct running_ready ready;
	int epoll_fd; // records and timer
	int timer_fd;
	struct boost_demand boost; // that is met
	uint32_t boosted_hz;       // the rate that was set for it
	uint32_t boosted_sources;  // that were opened for it
	char boosted_services[PROFILER_SERVICES_BYTES];
	struct event_log *event_log;                                        // may be NULL
	int (*add_series)(void *context, struct export_interval *interval); // NULL: none
	void *context;
};

/** Tell the BPF programs how the wall clock stands to the monotonic one. */
void profiler_set_clock(struct profiler *profiler);
/** What an export interval is made with. */
struct export_interval_sources profiler_interval_sources(const struct profiler *profiler);
/** Sample at this rate, until sampling stops; @context: the profiler. For the governor, and for boosts without one. Returns 0. */
int profiler_set_frequency(void *context, uint32_t frequency_hz);
