// SPDX-License-Identifier: Apache-2.0
// Samples that wait to be unwound: those of processes that the unwinder did not know when they came.
// Each is unwound when its process's tables are ready, and counted then. One thread.
#pragma once

#include <stdint.h>

#include "agent/process/process_table.h"
#include "agent/publish/process_unwind.h"
#include "agent/bpf/snapshot_program.h"

enum {
	SNAPSHOTS_MAX = 512, // waiting: 8.6 MB; a build of many jobs makes 100 a second
};

/** A table of PyTorch's size takes a third of it. */
#define SNAPSHOT_WAIT_NS (1000 * NS_PER_MS)

struct snapshot_queue;

/** All outlive this. NULL when out of memory. */
struct snapshot_queue *snapshot_queue_new(struct snapshot_program *program,
					  struct process_table *processes,
					  struct process_unwinds *unwinds);
/** What waits is lost. NULL is allowed. */
void snapshot_queue_free(struct snapshot_queue *snapshots);

/**
 * A snapshot has come: its process is published, and it is unwound at once if that can be done. When
 * too many wait, the oldest is unwound as far as it can be.
 */
void snapshot_queue_take(struct snapshot_queue *snapshots, const struct snapshot_record *record);

/** Unwind those that are ready now, or have waited long enough. To be called when tables have come. */
void snapshot_queue_settle(struct snapshot_queue *snapshots);

/** How many wait. */
uint32_t snapshot_queue_count(const struct snapshot_queue *snapshots);

/** Unwind all, as far as possible: the last window ends. */
void snapshot_queue_flush(struct snapshot_queue *snapshots);

struct snapshot_queue_stats {
	uint64_t taken;
	uint64_t
		early; // unwound before their tables were ready: waited too long, or too many waited
	uint64_t lost; // the program did not run
};

void snapshot_queue_read_stats(const struct snapshot_queue *snapshots,
			       struct snapshot_queue_stats *ret_stats);
