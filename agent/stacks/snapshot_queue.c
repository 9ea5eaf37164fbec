// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/snapshot_queue.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

struct queued {
	struct queued *next;
	uint64_t since_ns;
	struct snapshot_record record; // cut to its size
};

struct snapshot_queue {
	struct snapshot_program *program;
	struct process_table *processes;
	struct process_unwinds *unwinds;
	struct queued *first, **last;
	uint32_t count;
	struct snapshot_queue_stats stats;
};

struct snapshot_queue *snapshot_queue_new(struct snapshot_program *program,
					  struct process_table *processes,
					  struct process_unwinds *unwinds)
{
	struct snapshot_queue *queue = calloc(1, sizeof(*queue));

	if (!queue)
		return NULL;
	queue->program = program;
	queue->processes = processes;
	queue->unwinds = unwinds;
	queue->last = &queue->first;
	return queue;
}

void snapshot_queue_free(struct snapshot_queue *queue)
{
	if (!queue)
		return;
	while (queue->first) {
		struct queued *next = queue->first->next;

		free(queue->first);
		queue->first = next;
	}
	free(queue);
}

static void unwind(struct snapshot_queue *queue, const struct snapshot_record *record)
{
	if (snapshot_program_run(queue->program, record))
		queue->stats.lost++;
}

static void publish(struct snapshot_queue *queue, const struct snapshot_record *record)
{
	struct process *process =
		process_table_get(queue->processes, &record->key.process, record->process_name);
	struct code_address code;

	if (!process)
		return;
	process_find_code(queue->processes, process, record->pc, &code); // reads its mappings
	process_unwind_touch(queue->unwinds, process, record->pc);
}

static bool append(struct snapshot_queue *queue, const struct snapshot_record *record)
{
	uint32_t size = snapshot_record_size(record);
	struct queued *queued = malloc(offsetof(struct queued, record) + size);

	if (!queued)
		return false;
	queued->next = NULL;
	queued->since_ns = clock_monotonic_ns();
	memcpy(&queued->record, record, size);
	*queue->last = queued;
	queue->last = &queued->next;
	queue->count++;
	return true;
}

static bool is_ready(const struct snapshot_queue *queue, const struct queued *queued)
{
	return !process_unwind_waits(queue->unwinds, &queued->record.key.process);
}

static void unwind_queued(struct snapshot_queue *queue, struct queued **place)
{
	struct queued *queued = *place;

	queue->stats.early += !is_ready(queue, queued);
	unwind(queue, &queued->record);
	*place = queued->next;
	if (queue->last == &queued->next)
		queue->last = place;
	free(queued);
	queue->count--;
}

void snapshot_queue_add(struct snapshot_queue *queue, const struct snapshot_record *record)
{
	publish(queue, record);
	if (process_unwind_waits(queue->unwinds, &record->key.process)) {
		if (queue->count == SNAPSHOTS_MAX)
			unwind_queued(queue, &queue->first);
		if (append(queue, record))
			return;
	}
	unwind(queue, record);
}

void snapshot_queue_unwind_ready(struct snapshot_queue *queue)
{
	uint64_t now = queue->first ? clock_monotonic_ns() : 0;
	struct queued **place = &queue->first;

	while (*place) {
		const struct queued *queued = *place;

		if (now - queued->since_ns <= SNAPSHOT_WAIT_NS && !is_ready(queue, queued))
			place = &(*place)->next;
		else
			unwind_queued(queue, place);
	}
}

uint32_t snapshot_queue_count(const struct snapshot_queue *queue)
{
	return queue->count;
}

void snapshot_queue_flush(struct snapshot_queue *queue)
{
	while (queue->first)
		unwind_queued(queue, &queue->first);
}

void snapshot_queue_read_stats(const struct snapshot_queue *queue,
			       struct snapshot_queue_stats *ret_stats)
{
	*ret_stats = queue->stats;
}
