/* SPDX-License-Identifier: Apache-2.0 */
// The programs of context switches on the running kernel, and the time that they tell of one process.
#pragma once

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/test.h"

#include "agent/bpf/loader.h"
#include "agent/bpf/machine.h"
#include "agent/sources/switches.h"
#include "base/clock.h"

/* Time of one process, by kind of count. */
struct counted {
	uint32_t pid;
	const char *thread_name; // NULL: all
	uint64_t ns[SAMPLE_KIND_PAGE_FAULT];
	uint64_t with_user_stack_ns;    // of SAMPLE_KIND_OFF_CPU
	uint64_t without_stack_ns;      // off-CPU, but no stack is known
	uint32_t slots_of;              // a kind: of its intervals
	uint64_t first_slot, last_slot; // 0: none
};

struct fixture {
	struct loader *loader;
	struct switches *switches;
	struct event_log *events;
};

static inline bool machine_is_fit(void)
{
	struct error err;

	return machine_check(&err) == 0;
}

/* Of process @pid, or of all: 0. */
static inline struct fixture open_switches_of(bool raw_tracepoints, uint32_t ring_bytes, pid_t pid)
{
	const struct loader_options options = {
		.pid = pid,
		.ring_bytes = ring_bytes,
		.slot_ns = 20 * NS_PER_MS,
		.counts_max = 65536,
		.level = LOADER_LEVEL_FRAME_POINTER,
	};
	const struct switches_options switches_options = {
		.slot_ns = options.slot_ns,
		.raw_tracepoints = raw_tracepoints,
		.only_targets = pid != 0,
		.events = event_log_new(),
	};
	struct fixture fixture = { .events = switches_options.events };
	struct error err = { 0 };

	if (loader_open(&options, &fixture.loader, &err))
		fail_msg("loader_open: %s", err.text);
	loader_set_clock_offset(fixture.loader, clock_realtime_ns() - clock_monotonic_ns());
	if (switches_open(fixture.loader, &switches_options, &fixture.switches, &err))
		fail_msg("switches_open: %s", err.text);
	return fixture;
}

static inline struct fixture open_switches(bool raw_tracepoints)
{
	return open_switches_of(raw_tracepoints, 0, 0);
}

static inline void close_switches(struct fixture *fixture)
{
	switches_close(fixture->switches);
	loader_close(fixture->loader);
	event_log_free(fixture->events);
}

/* Weighted stacks count as the others. */
static inline uint32_t kind_of(const struct count_key *key)
{
	return key->kind == SAMPLE_KIND_OFF_CPU_SAMPLED       ? SAMPLE_KIND_OFF_CPU
	       : key->kind == SAMPLE_KIND_SCHED_DELAY_SAMPLED ? SAMPLE_KIND_SCHED_DELAY
							      : key->kind;
}

static inline bool has_stack(const struct count_key *key)
{
	return key->user.high || key->user.low || key->kernel.high || key->kernel.low;
}

static inline int add_one(void *context, const struct count_key *key, const struct count *count)
{
	struct counted *counted = context;
	uint32_t kind = kind_of(key);

	if (key->process.pid == counted->pid && kind < SAMPLE_KIND_PAGE_FAULT &&
	    (!counted->thread_name ||
	     !strncmp(key->thread_name, counted->thread_name, THREAD_NAME_BYTES))) {
		counted->ns[kind] += count->value;
		if ((kind == SAMPLE_KIND_OFF_CPU || kind == SAMPLE_KIND_SCHED_DELAY) &&
		    !has_stack(key))
			counted->without_stack_ns += count->value;
		if (kind == counted->slots_of) {
			uint64_t last = key->slot + key->more_slots;

			if (!counted->first_slot || key->slot < counted->first_slot)
				counted->first_slot = key->slot;
			if (last > counted->last_slot)
				counted->last_slot = last;
		}
		if (kind == SAMPLE_KIND_OFF_CPU && (key->user.high || key->user.low))
			counted->with_user_stack_ns += count->value;
	}
	return 0;
}

/* Returns when the export interval ended. */
static inline uint64_t drain(struct fixture *fixture, struct counted *counted)
{
	struct error err = { 0 };
	uint64_t end_ns;

	EXPECT_EQ(0, switches_sweep(fixture->switches), "sweep");
	end_ns = clock_monotonic_ns();
	if (loader_swap_counts(fixture->loader, &err) ||
	    loader_drain_counts(fixture->loader, add_one, counted, &err))
		fail_msg("drain: %s", err.text);
	return end_ns;
}

static inline uint64_t sum(const struct counted *counted)
{
	return counted->ns[SAMPLE_KIND_RUNNING] + counted->ns[SAMPLE_KIND_RUN_QUEUE] +
	       counted->ns[SAMPLE_KIND_BLOCKED];
}

static inline void sleep_ns(uint64_t ns)
{
	const struct timespec time = { ns / NS_PER_SECOND, ns % NS_PER_SECOND };

	nanosleep(&time, NULL);
}

static inline void end_child(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static inline void expect_about(uint64_t wanted_ns, uint64_t ns, double percent, const char *what)
{
	double off = wanted_ns ? 100.0 * ((double)ns - (double)wanted_ns) / (double)wanted_ns : 0;

	if (off < -percent || off > percent)
		fail_msg("%s: %.3f ms, not %.3f", what, ns / 1e6, wanted_ns / 1e6);
}

static inline uint64_t off_cpu_total(const struct counted *counted)
{
	return counted->ns[SAMPLE_KIND_BLOCKED] + counted->ns[SAMPLE_KIND_RUN_QUEUE];
}
