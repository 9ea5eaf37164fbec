// SPDX-License-Identifier: Apache-2.0
// The BPF programs: opened, configured, loaded and attached; their maps and records. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/bpf/unwind_maps.h"
#include "base/error.h"
#include "base/event_log.h"
#include "bpf/bpf_counters.h"
#include "bpf/sample.h"

struct loader;

/** Parts of the unwinder that are loaded; a lower level for kernels that refuse the one above. */
enum loader_level {
	LOADER_LEVEL_FULL,
	LOADER_LEVEL_NO_PYTHON,     // no Python frames: interpreters unwind as any code
	LOADER_LEVEL_FRAME_POINTER, // no tables either
};

/** One attempt to load. */
struct loader_attempt {
	bool raw_tracepoints; // process programs on raw tracepoints
	enum loader_level level;
};

struct bpf_object;

struct loader_options {
	uint64_t slot_ns;
	uint32_t frequency_hz; // 0: the default
	pid_t pid;     // this process and its later children, and loader_add_target()'s; 0: all
	bool only_gil; // only threads that hold a Python's GIL; without snapshots
	bool cycles;   // ticks count hardware cycles instead of CPU-clock time
	uint32_t counts_max;      // distinct counts between two loader_swap_counts()
	bool snapshots;           // send snapshots of processes without tables
	bool waits;               // off-CPU stacks come through the ring, too
	struct event_log *events; // for what the kernel refuses; may be NULL
	// For tests: start with a fallback.
	bool raw_tracepoints;    // process programs on raw tracepoints
	enum loader_level level; // the first to try
	uint32_t ring_bytes;     // size of the ring; 0: by CPUs and frequency
	// For tests: called before each attempt, breaks the programs that this kernel shall refuse.
	void (*spoil)(const struct loader_attempt *attempt, struct bpf_object *programs);
};

/**
 * Load everything and attach the process programs. The sampler needs perf events to run. Falls back
 * where the kernel refuses a part, and posts an event about it.
 */
int loader_open(const struct loader_options *options, struct loader **ret_loader,
		struct error *err);
void loader_close(struct loader *loader);

/** With options->pid: sample process @pid, too, and its later children. Returns 0 or -errno; -E2BIG: there are too many. */
int loader_add_target(struct loader *loader, pid_t pid, struct error *err);

enum loader_level loader_level(const struct loader *loader);

/** The unwinder's maps. Owned by the loader. */
const struct unwind_maps *loader_unwind_maps(const struct loader *loader);

/** libbpf's reason for what the kernel refused since the last call; "": none. */
const char *loader_take_error(void);

/**
 * Let opened, unloaded programs share the loader's maps of the same names and its shared variables.
 * Returns 0 or a negative errno.
 */
int loader_share_maps(const struct loader *loader, struct bpf_object *programs);

/** The sampler, for perf events. Owned by the loader. */
int loader_sampler_fd(const struct loader *loader);
/** Readable when BPF programs wake the agent. Owned by the loader. */
int loader_records_fd(const struct loader *loader);

/** Handlers of loader_read_records(). A record is valid during the call. */
struct record_handlers {
	/** frame_count is checked against the record's size and STACK_DEPTH_MAX. */
	void (*stack)(void *context, const struct stack_record *record);
	void (*process)(void *context, const struct process_record *record);
	/** May be NULL. */
	void (*wake)(void *context, const struct wake_record *record);
	/** page_count is checked against the record's size. May be NULL. */
	void (*snapshot)(void *context, const struct snapshot_record *record);
	void *context;
};

/**
 * Read the records that are there, in order, and those that arrive meanwhile, up to a ring's size. Does not
 * block. Returns 0 or a negative errno.
 */
int loader_read_records(struct loader *loader, const struct record_handlers *handlers,
			struct error *err);

/** The agent has evicted this stack: BPF programs send it again with its next sample. */
void loader_drop_stack(struct loader *loader, const struct stack_hash *hash);

/**
 * Let BPF programs count in the other map. On return none is in the old one: read it with
 * loader_drain_counts(). If one still is after 500 ms, nothing is drained this time and the next call waits
 * for it again.
 */
int loader_swap_counts(struct loader *loader, struct error *err);

typedef int (*count_fn)(void *context, const struct count_key *key, const struct count *count);

/**
 * Pass each count of the swapped-out map to @fn and empty the map. If @fn fails, the batch in hand (at most
 * DRAIN_BATCH) is dropped; the rest comes with the next export interval but one.
 */
int loader_drain_counts(struct loader *loader, count_fn fn, void *context, struct error *err);

/** Unix time = monotonic time + @offset_ns, for time slots. */
void loader_set_clock_offset(struct loader *loader, uint64_t offset_ns);

/** @cpu ticks every @period_ns since @since_ns (monotonic). For a struct period_listener. */
void loader_set_period(void *loader, uint32_t cpu, uint64_t period_ns, uint64_t since_ns);

/** Sums over all CPUs; 0 for what cannot be read. */
void loader_read_counters(const struct loader *loader, uint64_t ret_counters[COUNTER_COUNT]);

/** A program's time and runs so far; 0 unless kernel.bpf_stats_enabled. */
void loader_read_run_time_of(int program_fd, uint64_t *ret_ns, uint64_t *ret_count);
/** The same of the sampler. */
void loader_read_run_time(const struct loader *loader, uint64_t *ret_ns, uint64_t *ret_count);
