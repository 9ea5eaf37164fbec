// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/snapshot_queue.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

struct waiting {
	struct waiting *next;
	uint64_t since_ns;
	struct snapshot_record record; // cut to its size
};

struct snapshot_queue {
	struct snapshot_program *program;
	struct process_table *processes;
	struct process_unwinds *unwinds;
	struct waiting *first, **last;
	uint32_t count;
	struct snapshot_queue_stats stats;
};

struct snapshot_queue *snapshot_queue_new(struct snapshot_program *program,
					  struct process_table *processes,
					  struct process_unwinds *unwinds)
{
	struct snapshot_queue *snapshots = calloc(1, sizeof(*snapshots));

	if (!snapshots)
		return NULL;
	snapshots->program = program;
	snapshots->processes = processes;
	snapshots->unwinds = unwinds;
	snapshots->last = &snapshots->first;
	return snapshots;
}

void snapshot_queue_free(struct snapshot_queue *snapshots)
{
	if (!snapshots)
		return;
	while (snapshots->first) {
		struct waiting *next = snapshots->first->next;

		free(snapshots->first);
		snapshots->first = next;
	}
	free(snapshots);
}

static void run(struct snapshot_queue *snapshots, const struct snapshot_record *record)
{
	if (snapshot_program_run(snapshots->program, record))
		snapshots->stats.lost++;
}

// The process is published, with what is known of it.
static void publish(struct snapshot_queue *snapshots, const struct snapshot_record *record)
{
	struct process *process =
		process_table_get(snapshots->processes, &record->key.process, record->process_name);
	struct code_address code;

	if (!process)
		return;
	process_find_code(snapshots->processes, process, record->pc, &code);
	process_unwind_touch(snapshots->unwinds, process, record->pc);
}

static bool keep(struct snapshot_queue *snapshots, const struct snapshot_record *record)
{
	uint32_t size = snapshot_record_size(record);
	struct waiting *waiting = malloc(offsetof(struct waiting, record) + size);

	if (!waiting)
		return false;
	waiting->next = NULL;
	waiting->since_ns = clock_monotonic_ns();
	memcpy(&waiting->record, record, size);
	*snapshots->last = waiting;
	snapshots->last = &waiting->next;
	snapshots->count++;
	return true;
}

// Run and forget the one at @place.
static void settle(struct snapshot_queue *snapshots, struct waiting **place)
{
	struct waiting *waiting = *place;

	run(snapshots, &waiting->record);
	*place = waiting->next;
	if (snapshots->last == &waiting->next)
		snapshots->last = place;
	free(waiting);
	snapshots->count--;
}

void snapshot_queue_take(struct snapshot_queue *snapshots, const struct snapshot_record *record)
{
	snapshots->stats.taken++;
	publish(snapshots, record);
	if (process_unwind_waits(snapshots->unwinds, &record->key.process)) {
		if (snapshots->count == SNAPSHOTS_MAX) {
			snapshots->stats.early++;
			settle(snapshots, &snapshots->first);
		}
		if (keep(snapshots, record))
			return;
	}
	run(snapshots, record);
}

void snapshot_queue_settle(struct snapshot_queue *snapshots)
{
	uint64_t now = snapshots->first ? clock_monotonic_ns() : 0;
	struct waiting **place = &snapshots->first;

	while (*place) {
		struct waiting *waiting = *place;
		bool is_ready =
			!process_unwind_waits(snapshots->unwinds, &waiting->record.key.process);
		bool is_late = now - waiting->since_ns > SNAPSHOT_WAIT_NS;

		if (!is_ready && !is_late) {
			place = &waiting->next;
			continue;
		}
		snapshots->stats.early += !is_ready;
		settle(snapshots, place);
	}
}

uint32_t snapshot_queue_count(const struct snapshot_queue *snapshots)
{
	return snapshots->count;
}

void snapshot_queue_flush(struct snapshot_queue *snapshots)
{
	while (snapshots->first) {
		snapshots->stats.early += process_unwind_waits(
			snapshots->unwinds, &snapshots->first->record.key.process);
		settle(snapshots, &snapshots->first);
	}
}

void snapshot_queue_read_stats(const struct snapshot_queue *snapshots,
			       struct snapshot_queue_stats *ret_stats)
{
	*ret_stats = snapshots->stats;
}
