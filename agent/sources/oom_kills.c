// SPDX-License-Identifier: Apache-2.0
#include "agent/sources/oom_kills.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"

struct kill {
	struct labels labels;
	uint64_t realtime_ns;
};

struct oom_kills {
	struct process_table *processes;
	struct kill *kills;
	uint32_t count, capacity;
	uint64_t dropped;
};

struct oom_kills *oom_kills_new(struct process_table *processes)
{
	struct oom_kills *kills = calloc(1, sizeof(*kills));

	if (kills)
		kills->processes = processes;
	return kills;
}

static void clear(struct oom_kills *kills)
{
	for (uint32_t i = 0; i < kills->count; i++)
		labels_deinit(&kills->kills[i].labels);
	kills->count = 0;
}

void oom_kills_free(struct oom_kills *kills)
{
	if (!kills)
		return;
	clear(kills);
	free(kills->kills);
	free(kills);
}

static int keep(struct oom_kills *kills, const struct process *process, uint64_t realtime_ns)
{
	struct kill kill = { .realtime_ns = realtime_ns };

	if (!process)
		return -ENOMEM;
	int rc = array_reserve(&kills->kills, sizeof(*kills->kills), &kills->capacity, kills->count,
			       1, OOM_KILLS_MAX);
	if (!rc)
		rc = labels_copy(&process->labels, &kill.labels);
	if (!rc)
		kills->kills[kills->count++] = kill;
	return rc;
}

void oom_kills_take(struct oom_kills *kills, const struct process_record *record,
		    uint64_t realtime_ns)
{
	if (record->event != PROCESS_EXIT || !record->killed_by_oom)
		return;
	// One that was never sampled has its labels from what is left of it.
	if (keep(kills, process_table_get(kills->processes, &record->process, record->name),
		 realtime_ns))
		kills->dropped++;
}

int oom_kills_add(struct oom_kills *kills, struct export_interval *interval)
{
	uint64_t slot_ns = interval->profile->slot_ns;
	int rc = 0;

	for (uint32_t i = 0; i < kills->count && !rc; i++) {
		const struct kill *kill = &kills->kills[i];
		uint64_t slot = kill->realtime_ns / slot_ns;

		rc = export_interval_add_value(interval, &kill->labels, PROFILE_TYPE_OOM_KILLS,
					       slot, slot, 1);
	}
	clear(kills);
	return rc;
}

uint64_t oom_kills_dropped(const struct oom_kills *kills)
{
	return kills->dropped;
}
