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

struct snapshots;

/** All outlive this. NULL when out of memory. */
struct snapshots *snapshots_new(struct snapshot_program *program, struct process_table *processes,
				struct process_unwinds *unwinds);
/** What waits is lost. NULL is allowed. */
void snapshots_free(struct snapshots *snapshots);

/**
 * A snapshot has come: its process is published, and it is unwound at once if that can be done. When
 * too many wait, the oldest is unwound as far as it can be.
 */
void snapshots_take(struct snapshots *snapshots, const struct snapshot_record *record);

/** Unwind those that are ready now, or have waited long enough. To be called when tables have come. */
void snapshots_settle(struct snapshots *snapshots);

/** How many wait. */
uint32_t snapshots_count(const struct snapshots *snapshots);

/** Unwind all, as far as possible: the last window ends. */
void snapshots_flush(struct snapshots *snapshots);

struct snapshots_stats {
	uint64_t taken;
	uint64_t
		early; // unwound before their tables were ready: waited too long, or too many waited
	uint64_t lost; // the program did not run
};

void snapshots_read_stats(const struct snapshots *snapshots, struct snapshots_stats *ret_stats);
