// SPDX-License-Identifier: Apache-2.0
// Uploaded debug files by build id, in a folder of the store's directory. Bounded: the least
// recently used are evicted. Safe for several threads.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/symbols/debug_cache.h"
#include "base/error.h"

#define DEBUG_FILE_BYTES_MAX (2ULL << 30) // of one upload

struct debug_files {
	struct debug_cache cache;
	atomic_uint version; // changes with each upload
};

/** Open @data/debug-files, created if missing. Returns 0 or -errno. */
int debug_files_open(struct debug_files *files, const char *data, uint64_t bytes_max,
		     struct error *err);
void debug_files_close(struct debug_files *files);

/** Open the file of @build_id for reading. Returns the caller's descriptor, or -ENOENT. */
int debug_files_find(const struct debug_files *files, const char *build_id);

/**
 * Keep the received @file (debug_cache_begin()) if it is an ELF file with symbols and this build id. It
 * is on disk on return. On failure it is deleted. Returns 0; -EINVAL (@err says why); -EFBIG; -errno.
 */
int debug_files_keep(struct debug_files *files, struct debug_cache_file *file, const char *build_id,
		     struct error *err);

/** Delete the file of @build_id. Returns 0; -ENOENT; -EINVAL (no build id); -errno. */
int debug_files_remove(struct debug_files *files, const char *build_id);

/**
 * Check that an open file is an ELF file with symbols and this build id. 0, or -EINVAL with @err.
 */
int debug_files_check(int fd, const char *build_id, struct error *err);
