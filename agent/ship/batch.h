// SPDX-License-Identifier: Apache-2.0
// One export interval's profile on its way to the collector. One that waits is packed: the message with all its
// definitions, compressed to a twentieth of the profile's memory.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/profile/profile.h"
#include "proto/export_message.h"

/** A compressed message. */
struct packed {
	uint8_t *bytes;
	size_t size;
	size_t message_size; // when unpacked
};

/** Its bytes are in memory (`profile`, `packed` or both), in a file of the spool's folder, or in both. */
struct batch {
	struct batch_id id; // unknown until unpacked, if an earlier start wrote the file
	struct profile *profile;
	struct packed packed;
	size_t memory_bytes; // of all that
	uint64_t sample_count;

	// The spool's.
	struct batch *next;
	uint64_t added_ns;  // monotonic; 0: by an earlier start
	uint64_t file;      // its number in the folder; 0: none
	uint64_t file_size; // bytes
	bool is_found;      // by an earlier start: its sample_count is unknown until it is read
	bool is_too_large;  // for the folder
	bool is_written;    // just now, by the folder's thread, which frees it then if `is_gone`
	bool is_gone;
};

/** Takes @profile, also when it returns NULL (out of memory). */
struct batch *batch_new(const struct batch_id *id, struct profile *profile);
void batch_free(struct batch *batch);

/** Pack the profile, which stays. Returns 0; -ENOMEM, -EFBIG and @err. */
int batch_compress(const struct batch *batch, struct packed *ret_packed, struct error *err);
/** Keep only the packed bytes. Returns as batch_compress(), and the batch is as before. */
int batch_pack(struct batch *batch, struct error *err);
/** Make `profile` beside the packed bytes. Returns as batch_compress(); -EBADMSG if they are damaged. */
int batch_unpack(struct batch *batch, struct error *err);
/** Free what is in memory. */
void batch_unload(struct batch *batch);
