// SPDX-License-Identifier: Apache-2.0
// Debug files kept on disk by build id, within a bound; least recently used go first. A build id
// that no server has is kept too, as an empty file, so that it is not asked for again at once.
#pragma once

#include <stdint.h>

#include "base/error.h"

enum {
	DEBUG_CACHE_FILES_MAX = 16384, // looked at when room is made; more are left alone
	DEBUG_CACHE_REFUSAL_S = 3600,  // so long a server's "no" is believed
};

struct debug_cache {
	int folder; // -1: none
	uint64_t bytes_max;
};

/**
 * Open the folder, which is made if it is not there, for this user only. Leftovers of transfers
 * that were cut off are removed. Returns 0 or -errno; @err names the folder.
 */
int debug_cache_open(struct debug_cache *cache, const char *folder, uint64_t bytes_max,
		     struct error *err);
void debug_cache_close(struct debug_cache *cache);

/**
 * Open the file kept for @build_id. Returns a descriptor (the caller's); -ENOENT: none is kept;
 * -ENODATA: no server had it less than DEBUG_CACHE_REFUSAL_S ago; -errno.
 */
int debug_cache_find(const struct debug_cache *cache, const char *build_id);

/** Begin a file that is not yet kept. Returns a descriptor for writing (the caller's); -errno. */
int debug_cache_begin(const struct debug_cache *cache, const char *build_id);
/**
 * Keep what was begun, after making room for it, or drop it. Returns 0; -EFBIG (larger than the
 * cache); -errno.
 */
int debug_cache_keep(const struct debug_cache *cache, const char *build_id);
void debug_cache_drop(const struct debug_cache *cache, const char *build_id);
/** Remember that no server has it. Returns 0 or -errno. */
int debug_cache_refuse(const struct debug_cache *cache, const char *build_id);
