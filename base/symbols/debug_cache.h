// SPDX-License-Identifier: Apache-2.0
// Debug files kept on disk by build id, within a bound; least recently used go first. A build id
// that no server has is kept too, as an empty file, so that it is not asked for again at once.
#pragma once

#include <stdint.h>

#include "base/error.h"

enum {
	DEBUG_CACHE_FILES_MAX = 16384, // considered when room is made; more are left alone
	DEBUG_CACHE_REFUSAL_S = 3600,  // so long a server's "no" is believed
	DEBUG_CACHE_ID_BYTES_MAX = 32, // of a build id; SHA-256's are the longest
	DEBUG_CACHE_NAME_BYTES = 2 * DEBUG_CACHE_ID_BYTES_MAX + 16,
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

/** The same, without counting it as a use. */
int debug_cache_look(const struct debug_cache *cache, const char *build_id);

/** A file that is being written. Begin with debug_cache_begin(), end with one of the other two. */
struct debug_cache_file {
	int fd; // -1: none
	char name[DEBUG_CACHE_NAME_BYTES];
};

/** Begin a file that is not yet kept. Returns 0 or -errno. */
int debug_cache_begin(const struct debug_cache *cache, struct debug_cache_file *ret_file);
/**
 * Keep it for @build_id, after making room, in place of one that may be there. On failure it is
 * dropped. Returns 0; -EINVAL (no build id); -EFBIG (larger than the cache); -errno.
 */
int debug_cache_keep(const struct debug_cache *cache, struct debug_cache_file *file,
		     const char *build_id);
void debug_cache_drop(const struct debug_cache *cache, struct debug_cache_file *file);
/** Delete the file kept for @build_id. Returns 0; -ENOENT; -EINVAL (no build id); -errno. */
int debug_cache_remove(const struct debug_cache *cache, const char *build_id);
/** Record that no server has it. Returns 0 or -errno. */
int debug_cache_refuse(const struct debug_cache *cache, const char *build_id);

/** One file that is kept. */
typedef int (*debug_cache_file_fn)(void *context, const char *build_id, uint64_t bytes,
				   uint64_t used_s);

/**
 * Give each file kept, in no order; refusals are not files. @used_s is Unix time.
 * Returns 0; -ENOMEM; -errno; or what @fn returned, if not 0.
 */
int debug_cache_list(const struct debug_cache *cache, debug_cache_file_fn fn, void *context);
