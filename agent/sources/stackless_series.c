// SPDX-License-Identifier: Apache-2.0
#include "agent/sources/stackless_series.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/sources/cgroup_counter.h"
#include "agent/sources/memory_usage.h"
#include "base/cleanup.h"
#include "base/clock.h"

enum { COUNTERS = 2 };

/* Events of one of the counters, once each. */
struct reported {
	bool unreachable, full, baselines, lost;
};

struct stackless_series {
	struct cgroup_counter *counters[COUNTERS]; // by kind; NULL: it does not run
	struct reported reported[COUNTERS];
	struct memory_usage *memory;
	bool is_memory_full_reported, is_memory_late_reported;
	struct event_log *events;
};

static const char *const names[COUNTERS] = {
	[CGROUP_COUNTER_THROTTLED] = "CPU throttling",
	[CGROUP_COUNTER_OOM_KILLS] = "OOM kills",
};

static void open_counter(struct stackless_series *series, enum cgroup_counter_kind kind,
			 struct process_table *processes)
{
	struct cgroup_counter_options options = { .kind = kind, .processes = processes };
	struct error err = { 0 };

	if (cgroup_counter_open(&options, &series->counters[kind], &err))
		event_warn(series->events, names[kind], "not measured: %.260s", err.text);
}

static void close_source(void *state)
{
	struct stackless_series *series = state;

	if (!series)
		return;
	for (int i = 0; i < COUNTERS; i++)
		cgroup_counter_close(series->counters[i]);
	memory_usage_close(series->memory);
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
		open_counter(series, CGROUP_COUNTER_THROTTLED, setup->processes);
	if (setup->bits & SOURCE_MEMORY) {
		open_counter(series, CGROUP_COUNTER_OOM_KILLS, setup->processes);
		rc = memory_usage_open(setup->processes, &series->memory, err);
	}
	if (rc) {
		close_source(series);
		return rc;
	}
	*ret_state = series;
	return 0;
}

static void report_losses(struct stackless_series *series, enum cgroup_counter_kind kind)
{
	struct event_log *events = series->events;
	struct reported *reported = &series->reported[kind];
	struct cgroup_counter_stats stats;

	if (!series->counters[kind])
		return;
	cgroup_counter_read_stats(series->counters[kind], &stats);
	if (stats.unreachable)
		event_warn_once(
			events, &reported->unreachable, names[kind],
			"some processes are not measured: their cgroups are not below what is "
			"mounted here; mount the host's /sys/fs/cgroup, read-only");
	if (stats.dropped)
		event_warn_once(
			events, &reported->full, names[kind],
			"some processes lack these figures, but are profiled: table full (limits "
			"%d cgroups, %d processes)",
			CGROUPS_MAX, CGROUP_MEMBERS_MAX);
	if (stats.baselines_dropped)
		event_warn_once(
			events, &reported->baselines, names[kind],
			"counts from before a cgroup's first sample are not measured: table "
			"full (limit %d cgroups)",
			CGROUP_BASELINES_MAX);
	if (stats.values_dropped)
		event_warn_once(events, &reported->lost, names[kind],
				"dropped some counts: no process of the cgroup is known any more, "
				"or too many cgroups in one export interval (limit %d)",
				CGROUP_VALUES_MAX);
}

static void report_memory_losses(struct stackless_series *series)
{
	struct memory_usage_stats stats;

	memory_usage_read_stats(series->memory, &stats);
	if (stats.dropped)
		event_warn_once(series->events, &series->is_memory_full_reported, "memory usage",
				"some processes are not measured: table full (limit %d)",
				MEMORY_PROCESSES_MAX);
	if (stats.late)
		event_warn_once(series->events, &series->is_memory_late_reported, "memory usage",
				"some processes are read less than once a second: too many "
				"(limits %.1f %% of a CPU, %d reads per second)",
				100.0 * MEMORY_NS_PER_SECOND / NS_PER_SECOND,
				MEMORY_READS_PER_SECOND);
}

static void tick(void *state, uint64_t now_ns)
{
	struct stackless_series *series = state;

	for (int i = 0; i < COUNTERS; i++) {
		if (series->counters[i])
			cgroup_counter_tick(series->counters[i], now_ns);
	}
	if (series->memory)
		memory_usage_tick(series->memory, now_ns, clock_realtime_ns());
}

static int before_drain(void *state)
{
	struct stackless_series *series = state;

	for (int i = 0; i < COUNTERS; i++) {
		if (series->counters[i])
			cgroup_counter_before_drain(series->counters[i]);
	}
	return 0;
}

static int after_drain(void *state, struct export_interval *interval)
{
	struct stackless_series *series = state;
	int rc = series->memory ? memory_usage_add(series->memory, interval, clock_realtime_ns())
				: 0;

	for (int i = 0; i < COUNTERS; i++) {
		int failed = series->counters[i]
				     ? cgroup_counter_after_drain(series->counters[i], interval)
				     : 0;
		if (!rc)
			rc = failed;
		report_losses(series, i);
	}
	if (series->memory)
		report_memory_losses(series);
	return rc;
}

const struct source stackless_series_source = {
	.name = "series",
	.bit = SOURCE_SERIES,
	.open = open_source,
	.close = close_source,
	.before_drain = before_drain,
	.after_drain = after_drain,
	.tick = tick,
};
