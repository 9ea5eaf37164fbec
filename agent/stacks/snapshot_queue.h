// SPDX-License-Identifier: Apache-2.0
// Samples to be unwound later: registers and stack memory (a snapshot) of processes that the unwinder did
// not know when they were sampled. Each is unwound and counted once its process's unwind tables are ready.
// One thread.
#pragma once

#include <stdint.h>

#include "agent/process/process_table.h"
#include "agent/publish/process_unwind.h"
#include "agent/bpf/snapshot_program.h"

enum {
	SNAPSHOTS_MAX = 512, // queued: 8.6 MB; a parallel build makes 100 a second
};

/** A snapshot waits no longer for tables. Those of PyTorch's size take a third of it. */
#define SNAPSHOT_WAIT_NS (1000 * NS_PER_MS)

struct snapshot_queue;

/** All arguments outlive the queue. NULL when out of memory. */
struct snapshot_queue *snapshot_queue_new(struct snapshot_program *program,
					  struct process_table *processes,
					  struct process_unwinds *unwinds);
/** Drops what is queued. NULL is allowed. */
void snapshot_queue_free(struct snapshot_queue *queue);

/**
 * Publish the snapshot's process to the unwinder and unwind the snapshot: at once if the tables are ready,
 * else later. When the queue is full, its oldest is unwound as far as the tables go.
 */
void snapshot_queue_add(struct snapshot_queue *queue, const struct snapshot_record *record);

/** Unwind those that are ready or have waited long enough. Call it when unwind tables have come. */
void snapshot_queue_unwind_ready(struct snapshot_queue *queue);

uint32_t snapshot_queue_count(const struct snapshot_queue *queue);

/** Unwind all, as far as the tables go: the last export interval ends. */
void snapshot_queue_flush(struct snapshot_queue *queue);

struct snapshot_queue_stats {
	uint64_t
		early; // unwound before their tables were ready: they waited too long, or the queue was full
	uint64_t lost; // the BPF program that unwinds them did not run
};

void snapshot_queue_read_stats(const struct snapshot_queue *queue,
			       struct snapshot_queue_stats *ret_stats);
