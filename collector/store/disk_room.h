// SPDX-License-Identifier: Apache-2.0
// Room on the store's disk: how much there is, and the ballast, a file that only takes room. On a disk
// that others have filled, its deletion gives the store room to come up and to delete old profiles.
#pragma once

#include <stdint.h>

#include "base/error.h"

#define DISK_BALLAST_NAME "BALLAST"

enum {
	// --disk-free is at most this share of the disk: on a small volume the rest would be of no use.
	DISK_KEEP_SHARE = 10,
	// Below this part of --disk-free batches are refused: what is on its way into files (write
	// buffers, the log, a compaction's output) needs room still.
	DISK_REFUSE_SHARE = 2,
	DISK_BALLAST_SHARE = 4,
};

struct disk_room {
	uint64_t total_bytes, free_bytes;
	uint64_t keep_bytes;   // below it the oldest profiles are deleted; 0: no limit
	uint64_t refuse_bytes; // below it batches are refused
};

/** Read the room on the disk of directory @path, of which @keep_bytes are to stay free. */
int disk_room_read(const char *path, uint64_t keep_bytes, struct disk_room *ret_room,
		   struct error *err);

/** Make the ballast, unless it is there or the disk has no room to spare. */
void disk_ballast_make(const char *path, const struct disk_room *room);
/** Delete the ballast. Returns its size, 0 if there was none. */
uint64_t disk_ballast_delete(const char *path);

/** Can files be written in @path? Writes and syncs a small one. */
int disk_probe(const char *path, struct error *err);
