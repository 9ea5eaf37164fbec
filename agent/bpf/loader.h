// SPDX-License-Identifier: Apache-2.0
// The kernel programs: opened, set, loaded, attached; their maps and records. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/bpf/unwind_maps.h"
#include "base/error.h"
#include "base/event_log.h"
#include "bpf/counters.h"
#include "bpf/sample.h"

struct loader;

/** How much of the unwinder is loaded: each is smaller than the one before. */
enum loader_level {
	LOADER_LEVEL_FULL,
	LOADER_LEVEL_NO_PYTHON,     // interpreters are code like any other
	LOADER_LEVEL_FRAME_POINTER, // no tables
};

/** What the kernel is asked to take. */
struct loader_attempt {
	bool raw_tracepoints; // the process programs without types
	enum loader_level level;
};

struct bpf_object;

struct loader_options {
	uint64_t slot_ns;
	uint32_t frequency_hz;    // of ticks; 0: the usual
	pid_t pid;                // only this process and its later children; 0: all
	bool cycles;              // ticks are of hardware cycles, not of the CPU clock
	uint32_t counts_max;      // distinct samples between two loader_swap_counts()
	bool snapshots;           // samples that need a table not there yet come as snapshots
	bool waits;               // stacks of waits come through the ring, too
	struct event_log *events; // of what the kernel refuses; may be NULL
	// For tests: begin with what is tried when kernels refuse better.
	bool raw_tracepoints;    // the process programs without types
	enum loader_level level; // the first to be tried
	uint32_t ring_bytes;     // of records; 0: by CPUs and frequency
	// Likewise: called before each attempt, makes of the programs what this kernel refuses.
	void (*spoil)(const struct loader_attempt *attempt, struct bpf_object *programs);
};

/**
 * Load everything and attach the process programs. The sampler waits for perf events. What a kernel
 * refuses is left out, if the rest can do without it: an event says so.
 */
int loader_open(const struct loader_options *options, struct loader **ret_loader,
		struct error *err);
void loader_close(struct loader *loader);

enum loader_level loader_level(const struct loader *loader);

/** The unwinder's maps. Owned by the loader. */
const struct unwind_maps *loader_unwind_maps(const struct loader *loader);

/**
 * Why the kernel refused what was loaded since this was called the last time, as libbpf says; "": it
 * said nothing. Once a loader was opened.
 */
const char *loader_take_error(void);

/**
 * Let programs that were opened, but not loaded yet, use the loader's maps for those of theirs that
 * have the same name, and its shared variables. Returns 0 or a negative errno.
 */
int loader_share_maps(const struct loader *loader, struct bpf_object *programs);

/** The sampling program, to be run by perf events. Owned by the loader. */
int loader_sampler_fd(const struct loader *loader);
/** Readable when records wait and the kernel side asks for attention. Owned by the loader. */
int loader_records_fd(const struct loader *loader);

/** What loader_read_records() calls for each record; the record is gone when it returns. */
struct record_handlers {
	/** The body's frame_count was checked against its size and STACK_DEPTH_MAX. */
	void (*stack)(void *context, const struct stack_record *record);
	void (*process)(void *context, const struct process_record *record);
	/** NULL: not taken. */
	void (*wake)(void *context, const struct wake_record *record);
	/** Has page_count pages of stack, which was checked against its size. NULL: not taken. */
	void (*snapshot)(void *context, const struct snapshot_record *record);
	void *context;
};

/**
 * The records that wait now, in order, and those that come meanwhile, but no more than the ring holds:
 * the rest waits for the next call. Does not block. Returns 0 or a negative errno.
 */
int loader_read_records(struct loader *loader, const struct record_handlers *handlers,
			struct error *err);

/** The agent no longer has this stack's body: the kernel side sends it when it is seen again. */
void loader_drop_stack(struct loader *loader, const struct stack_hash *hash);

/**
 * Let the kernel count in the other map from now on. On return no program counts in the old one
 * any more; it is read with loader_drain_counts(). If a program is still in it after 500 ms, there is
 * nothing to drain this time, and the next call waits for it again.
 */
int loader_swap_counts(struct loader *loader, struct error *err);

typedef int (*count_fn)(void *context, const struct count_key *key, const struct count *count);

/**
 * Hand each count of the map swapped out to @fn and empty it. Stops when @fn fails: the batch in
 * hand (at most 1024) is lost then, the rest comes with the next window but one.
 */
int loader_drain_counts(struct loader *loader, count_fn fn, void *context, struct error *err);

/** Unix time = the kernel's monotonic time + this, for the slots of samples. */
void loader_set_clock_offset(struct loader *loader, uint64_t offset_ns);

/** From @since_ns (monotonic) on, @cpu ticks each @period_ns. For a struct period_listener. */
void loader_set_period(void *loader, uint32_t cpu, uint64_t period_ns, uint64_t since_ns);

/** Sums over all CPUs; an unreadable map leaves zeros. */
void loader_read_counters(const struct loader *loader, uint64_t ret_counters[COUNTER_COUNT]);

/** Time that a program spent so far, and how often it ran; 0 unless kernel.bpf_stats_enabled. */
void loader_read_run_time_of(int program_fd, uint64_t *ret_ns, uint64_t *ret_count);
/** Time in the sampling program, and how often it ran; 0 unless kernel.bpf_stats_enabled. */
void loader_read_run_time(const struct loader *loader, uint64_t *ret_ns, uint64_t *ret_count);
