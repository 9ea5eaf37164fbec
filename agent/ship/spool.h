// SPDX-License-Identifier: Apache-2.0
// Batches for the collector, oldest first, within limits: in memory, or in a folder on disk that the next start of the agent
// finds (--spool-dir).
//
// When does a batch touch the disk? A collector that answers acknowledges within some milliseconds, so that writing each batch
// would cost a disk a file every few seconds on every node of a fleet, for nothing. So a batch waits in memory for
// SPOOL_MEMORY_MS first. Once the oldest one has waited for so long, all that wait are written, and each new one at once,
// until the collector has acknowledged them. An agent that is killed (kill -9, out of memory) while the collector is away
// loses what it had not yet drained from the kernel: at most an export interval. If it dies within SPOOL_MEMORY_MS of a
// drain, and the collector has not answered in that time, it loses that interval and this moment.
//
// No file is synced: what a process has written survives its death, and a reboot in good order. After a power failure the last
// half a minute may be missing or cut short, which the checksum of a file says; a sync for each batch would make other
// programs wait for the same disk's journal.
//
// A folder that cannot be used or written is said once and tried again each SPOOL_RETRY_S; batches wait in memory
// meanwhile. Only the folder's thread, and the sender's when it reads, wait for the disk; the one that samples never does.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/ship/batch.h"
#include "base/error.h"

enum {
	SPOOL_BATCHES_MAX = 1 << 16, // in memory, and on disk: three days of intervals of 5 s
	SPOOL_MEMORY_MS = 1000,
	SPOOL_RETRY_S = 30,
};

struct spool_options {
	uint64_t memory_bytes_max;
	uint32_t count_max; // in memory, and in the folder
	const char *folder; // NULL: only memory
	uint64_t folder_bytes_max;
	uint32_t memory_ms, retry_ms; // SPOOL_MEMORY_MS, SPOOL_RETRY_S; tests have less time
};

/** Since it was opened; what waits is now. */
struct spool_stats {
	uint32_t count;           // batches that wait, without the one that is being sent
	uint64_t memory_bytes;    // of these
	uint32_t folder_count;    // in the folder, with the one that is being sent
	uint64_t folder_bytes;    // of these
	uint64_t dropped_batches; // to make room: the oldest
	uint64_t dropped_samples;
	uint64_t written;  // to the folder
	uint64_t found;    // in the folder, of earlier starts
	uint64_t damaged;  // in the folder: dropped
	uint64_t failures; // to open the folder, and to write a batch
	bool uses_folder;  // opened, and the last write succeeded
};

struct spool;

/** Returns 0; -ENOMEM or -errno. A folder that cannot be used is logged: it may come. */
int spool_open(const struct spool_options *options, struct spool **ret_spool, struct error *err);

/** Takes @batch, which may be NULL for one of @sample_count samples that there was no memory for. Never waits for a disk. */
void spool_add(struct spool *spool, struct batch *batch, uint64_t sample_count);

/**
 * The oldest batch, with its profile; waits for one. It belongs to the spool. NULL once spool_end() was called and none is
 * left. One thread: each batch is followed by spool_finish() or spool_return().
 */
struct batch *spool_next(struct spool *spool);
/** It need not be sent any more. */
void spool_finish(struct spool *spool, struct batch *batch);
/** It was not sent: it is the oldest again. */
void spool_return(struct spool *spool, struct batch *batch);

/** No batch comes any more: spool_next() does not wait. */
void spool_end(struct spool *spool);

/** The folder in use, NULL if there is none; valid until the spool is closed. */
const char *spool_folder_path(const struct spool *spool);
void spool_read_stats(struct spool *spool, struct spool_stats *ret_stats);

/** What was in a spool that is closed. */
struct spool_rest {
	uint64_t kept; // batches that the next start finds
	uint64_t lost_samples;
};

/**
 * Write what waits to the folder, and free. Returns the number of batches that are lost; @ret_rest may be NULL, as may
 * @spool, whose rest is not written then.
 */
uint64_t spool_close(struct spool *spool, struct spool_rest *ret_rest);
