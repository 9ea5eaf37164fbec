// SPDX-License-Identifier: Apache-2.0
// Debug files that were uploaded, by build id, in a folder of the store's directory, within a bound;
// those that were not used for longest go first. Safe for several threads.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/debug_cache.h"
#include "base/error.h"

#define DEBUG_FILE_BYTES_MAX (2ULL << 30) // of one upload

struct debug_files {
	struct debug_cache cache;
	atomic_uint version; // of what is there: changes with each upload
};

/** Open @data/debug-files, made if it is not there. Returns 0 or -errno. */
int debug_files_open(struct debug_files *files, const char *data, uint64_t bytes_max,
		     struct error *err);
void debug_files_close(struct debug_files *files);

/** The file of @build_id for reading (the caller's), or -ENOENT. */
int debug_files_find(const struct debug_files *files, const char *build_id);

/**
 * Keep what was received in @file (debug_cache_begin()), if it is an ELF file with symbols and
 * this build id. It is on disk when this returns. On failure it is dropped.
 * Returns 0; -EINVAL (it is not; @err says what it is); -EFBIG; -errno.
 */
int debug_files_keep(struct debug_files *files, struct debug_cache_file *file, const char *build_id,
		     struct error *err);

/** Whether an open file is an ELF file with symbols of @build_id: 0, or -EINVAL and why. */
int debug_files_check(int fd, const char *build_id, struct error *err);
