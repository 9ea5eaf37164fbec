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

/* What one of the counters has to say. */
struct told {
	char failure[ERROR_TEXT_BYTES];
	bool unreachable, full, unremembered, lost;
};

struct stackless_series {
	struct cgroup_counter *counters[COUNTERS]; // by kind; NULL: it does not run
	struct told told[COUNTERS];
	struct memory_usage *memory;
	bool memory_full, memory_late;
	char notice[ERROR_TEXT_BYTES];
};

static const char *const names[COUNTERS] = {
	[CGROUP_COUNTER_THROTTLED] = "throttling by quotas",
	[CGROUP_COUNTER_OOM_KILLS] = "OOM kills",
};

static void open_counter(struct stackless_series *series, enum cgroup_counter_kind kind,
			 struct process_table *processes)
{
	struct cgroup_counter_options options = { .kind = kind, .processes = processes };
	struct error err = { 0 };

	if (cgroup_counter_open(&options, &series->counters[kind], &err))
		snprintf(series->told[kind].failure, sizeof(series->told[kind].failure),
			 "%s are not seen: %.260s", names[kind], err.text);
}

int stackless_series_open(const struct stackless_series_options *options,
			  struct stackless_series **ret_series, struct error *err)
{
	struct stackless_series *series = calloc(1, sizeof(*series));
	int rc = 0;

	if (!series)
		return error_set(err, -ENOMEM, "out of memory");
	if (options->throttling)
		open_counter(series, CGROUP_COUNTER_THROTTLED, options->processes);
	if (options->memory) {
		open_counter(series, CGROUP_COUNTER_OOM_KILLS, options->processes);
		rc = memory_usage_open(options->processes, &series->memory, err);
	}
	if (rc) {
		stackless_series_close(series);
		return rc;
	}
	*ret_series = series;
	return 0;
}

void stackless_series_close(struct stackless_series *series)
{
	if (!series)
		return;
	for (int i = 0; i < COUNTERS; i++)
		cgroup_counter_close(series->counters[i]);
	memory_usage_close(series->memory);
	free(series);
}

void stackless_series_tick(struct stackless_series *series, uint64_t now_ns)
{
	for (int i = 0; i < COUNTERS; i++) {
		if (series->counters[i])
			cgroup_counter_tick(series->counters[i], now_ns);
	}
	if (series->memory)
		memory_usage_tick(series->memory, now_ns, clock_realtime_ns());
}

void stackless_series_before_drain(struct stackless_series *series)
{
	for (int i = 0; i < COUNTERS; i++) {
		if (series->counters[i])
			cgroup_counter_before_drain(series->counters[i]);
	}
}

int stackless_series_after_drain(struct stackless_series *series, struct export_interval *interval)
{
	int rc = series->memory ? memory_usage_add(series->memory, interval, clock_realtime_ns())
				: 0;

	for (int i = 0; i < COUNTERS; i++) {
		int failed = series->counters[i]
				     ? cgroup_counter_after_drain(series->counters[i], interval)
				     : 0;
		if (!rc)
			rc = failed;
	}
	return rc;
}

// Is it to be told now? Once.
static bool is_news(uint64_t count, bool *told)
{
	bool news = count && !*told;

	*told |= news;
	return news;
}

static const char *notice_of_counter(struct stackless_series *series, enum cgroup_counter_kind kind)
{
	struct told *told = &series->told[kind];
	char *notice = series->notice;
	size_t size = sizeof(series->notice);
	struct cgroup_counter_stats stats;

	if (told->failure[0]) {
		snprintf(notice, size, "%s", told->failure);
		told->failure[0] = '\0';
		return notice;
	}
	if (!series->counters[kind])
		return NULL;
	cgroup_counter_read_stats(series->counters[kind], &stats);
	if (is_news(stats.unreachable, &told->unreachable))
		snprintf(notice, size,
			 "%s of some processes are not seen: their control groups are not below "
			 "what "
			 "is mounted here (mount the host's /sys/fs/cgroup, read-only)",
			 names[kind]);
	else if (is_news(stats.refused, &told->full))
		snprintf(notice, size,
			 "%s of some processes are not seen: more than %d control groups or %d "
			 "processes",
			 names[kind], CGROUPS_MAX, CGROUP_MEMBERS_MAX);
	else if (is_news(stats.unremembered, &told->unremembered))
		snprintf(
			notice, size,
			"%s that control groups counted before a process of theirs was sampled are "
			"left out: there are more than %d groups",
			names[kind], CGROUP_FORMERS_MAX);
	else if (is_news(stats.values_lost, &told->lost))
		snprintf(
			notice, size,
			"some %s are not told: none of the group's processes is known any more, or "
			"more than %d groups had some between two windows",
			names[kind], CGROUP_VALUES_MAX);
	else
		return NULL;
	return notice;
}

const char *stackless_series_next_notice(struct stackless_series *series)
{
	struct memory_usage_stats stats;
	const char *notice = NULL;

	for (int i = 0; i < COUNTERS && !notice; i++)
		notice = notice_of_counter(series, i);
	if (notice || !series->memory)
		return notice;
	memory_usage_read_stats(series->memory, &stats);
	if (is_news(stats.refused, &series->memory_full))
		snprintf(series->notice, sizeof(series->notice),
			 "the memory of some processes is not seen: there are more than %d",
			 MEMORY_PROCESSES_MAX);
	else if (is_news(stats.late, &series->memory_late))
		snprintf(series->notice, sizeof(series->notice),
			 "the memory of some processes is looked at less than once a second: of "
			 "all of "
			 "them it would take more than %.1f %% of a CPU, or %d readings",
			 100.0 * MEMORY_NS_PER_SECOND / NS_PER_SECOND, MEMORY_READS_PER_SECOND);
	else
		return NULL;
	return series->notice;
}
