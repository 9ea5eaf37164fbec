// SPDX-License-Identifier: Apache-2.0
// Batches for the collector, oldest first, within a limit. Those that wait are packed: the message with all
// its definitions, compressed to a twentieth of the profile's memory.
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/profile/profile.h"
#include "proto/export_message.h"

/** One export interval's profile; either `profile` or, once packed, `packed`. */
struct batch {
	struct batch_id id;
	struct profile *profile;
	uint8_t *packed;
	size_t packed_size;
	size_t message_size; // of the message when unpacked
	size_t bytes;        // in the spool
	uint64_t sample_count;
	struct batch *next;
};

/** Takes @profile, also when it returns NULL (out of memory). */
struct batch *batch_new(const struct batch_id *id, struct profile *profile);
void batch_free(struct batch *batch);
/** Returns 0; -ENOMEM, -EFBIG and @err, and the batch is as before. */
int batch_pack(struct batch *batch, struct error *err);
/** Make `profile` again. Returns as batch_pack(). */
int batch_unpack(struct batch *batch, struct error *err);

/** A zeroed struct with limits is a valid empty spool. One thread at a time. */
struct spool {
	size_t bytes_max;
	uint32_t count_max;
	struct batch *oldest, *newest;
	size_t bytes;
	uint32_t count;
	uint64_t dropped_batches; // since the start: the oldest, to make room
	uint64_t dropped_samples;
};

void spool_deinit(struct spool *spool);
/** Takes @batch; drops the oldest ones until it fits, itself if it is too large alone. */
void spool_add(struct spool *spool, struct batch *batch);
/** The oldest, now owned by the caller; NULL if there is none. */
struct batch *spool_take(struct spool *spool);
