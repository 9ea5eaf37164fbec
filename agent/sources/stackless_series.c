// SPDX-License-Identifier: Apache-2.0
#include "agent/sources/stackless_series.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/sources/cpu_throttling.h"
#include "agent/sources/memory_usage.h"
#include "agent/sources/oom_kills.h"
#include "base/cleanup.h"
#include "base/clock.h"

/* Events, once each. */
struct reported {
	bool unreachable, full, baselines, lost, memory_full, memory_late, kills;
};

struct stackless_series {
	struct cpu_throttling *throttling; // NULL: it does not run
	struct memory_usage *memory;       // the same
	struct oom_kills *kills;           // the same
	struct reported reported;
	struct event_log *events;
};

static void open_throttling(struct stackless_series *series, struct process_table *processes)
{
	struct cpu_throttling_options options = { .processes = processes };
	struct cpu_throttling_stats stats;
	struct error err = { 0 };

	if (cpu_throttling_open(&options, &series->throttling, &err))
		event_warn(series->events, "CPU throttling", "not measured: %.260s", err.text);
	if (!series->throttling)
		return;
	cpu_throttling_read_stats(series->throttling, &stats);
	if (stats.is_exposed)
		event_warn(series->events, "CPU throttling",
			   "this container can write the host's cgroups; mount them with "
			   "recursiveReadOnly, or do not mount them");
}

static int open_memory(struct stackless_series *series, struct process_table *processes,
		       struct error *err)
{
	series->kills = oom_kills_new(processes);
	if (!series->kills)
		return error_set(err, -ENOMEM, "out of memory");
	return memory_usage_open(processes, &series->memory, err);
}

static void close_source(void *state)
{
	struct stackless_series *series = state;

	if (!series)
		return;
	cpu_throttling_close(series->throttling);
	memory_usage_close(series->memory);
	oom_kills_free(series->kills);
	free(series);
}

static int open_source(const struct source_setup *setup, void **ret_state, struct error *err)
{
	struct stackless_series *series = calloc(1, sizeof(*series));
	int rc = 0;

	if (!series)
		return error_set(err, -ENOMEM, "out of memory");
	series->events = setup->events;
	if (setup->bits & SOURCE_WALL)
		open_throttling(series, setup->processes);
	if (setup->bits & SOURCE_MEMORY)
		rc = open_memory(series, setup->processes, err);
	if (rc) {
		close_source(series);
		return rc;
	}
	*ret_state = series;
	return 0;
}

static void report_throttling_losses(struct stackless_series *series)
{
	struct event_log *events = series->events;
	struct reported *reported = &series->reported;
	struct cpu_throttling_stats stats;

	cpu_throttling_read_stats(series->throttling, &stats);
	if (stats.unreachable)
		event_warn_once(events, &reported->unreachable, "CPU throttling",
				"some processes not measured: their cgroups are outside the "
				"mounted tree; mount the host's /sys/fs/cgroup, read-only");
	if (stats.dropped)
		event_warn_once(events, &reported->full, "CPU throttling",
				"some processes not measured: table full (limits %d cgroups, %d "
				"processes); their other profiles are complete",
				CGROUPS_MAX, CGROUP_MEMBERS_MAX);
	if (stats.baselines_dropped)
		event_warn_once(events, &reported->baselines, "CPU throttling",
				"throttling before a cgroup's first sample not measured: table "
				"full (limit %d cgroups)",
				CGROUP_BASELINES_MAX);
	if (stats.values_dropped)
		event_warn_once(events, &reported->lost, "CPU throttling",
				"dropped counts: the cgroup's processes have exited, or over %d "
				"cgroups in one export interval",
				CGROUP_VALUES_MAX);
}

static void report_memory_losses(struct stackless_series *series)
{
	struct memory_usage_stats stats;

	memory_usage_read_stats(series->memory, &stats);
	if (stats.dropped)
		event_warn_once(series->events, &series->reported.memory_full, "memory usage",
				"some processes not measured: table full (limit %d); their other "
				"profiles are complete",
				MEMORY_PROCESSES_MAX);
	if (stats.late)
		event_info_once(
			series->events, &series->reported.memory_late, "memory usage",
			"some processes are read less than once a second: too many "
			"(limits %.1f %% of a CPU, %d reads per second); nothing to do: their "
			"memory is only shown coarser in time",
			100.0 * MEMORY_NS_PER_SECOND / NS_PER_SECOND, MEMORY_READS_PER_SECOND);
	if (oom_kills_dropped(series->kills))
		event_warn_once(series->events, &series->reported.kills, "OOM kills",
				"dropped kills: over %d in one export interval, or out of memory; "
				"use a shorter --interval",
				OOM_KILLS_MAX);
}

static void tick(void *state, uint64_t now_ns)
{
	struct stackless_series *series = state;

	if (series->throttling)
		cpu_throttling_tick(series->throttling, now_ns);
	if (series->memory)
		memory_usage_tick(series->memory, now_ns, clock_realtime_ns());
}

static void take_process(void *state, const struct process_record *record)
{
	struct stackless_series *series = state;

	if (series->kills)
		oom_kills_take(series->kills, record, clock_realtime_ns());
}

static int before_drain(void *state)
{
	struct stackless_series *series = state;

	if (series->throttling)
		cpu_throttling_before_drain(series->throttling);
	return 0;
}

static int add_throttling(struct stackless_series *series, struct export_interval *interval)
{
	if (!series->throttling)
		return 0;
	report_throttling_losses(series);
	return cpu_throttling_after_drain(series->throttling, interval);
}

static int add_memory(struct stackless_series *series, struct export_interval *interval)
{
	if (!series->memory)
		return 0;
	report_memory_losses(series);
	int rc = memory_usage_add(series->memory, interval, clock_realtime_ns());
	int failed = oom_kills_add(series->kills, interval);
	return rc ? rc : failed;
}

static int after_drain(void *state, struct export_interval *interval)
{
	int rc = add_memory(state, interval);
	int failed = add_throttling(state, interval);

	return rc ? rc : failed;
}

const struct source stackless_series_source = {
	.name = "series",
	.bit = SOURCE_SERIES,
	.open = open_source,
	.close = close_source,
	.before_drain = before_drain,
	.after_drain = after_drain,
	.take_process = take_process,
	.tick = tick,
};
