// SPDX-License-Identifier: Apache-2.0
// A cache of unwind tables on disk: after a restart the tables of large libraries are ready at once. One file per
// executable and marks. Files that are truncated, altered, of another version or another user are removed: tables can
// be built again.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "agent/unwind/unwind_table.h"

/* PyTorch's libraries need 20 MB, those of a Debian machine 140 MB. */
#define UNWIND_TABLE_CACHE_BYTES_DEFAULT (256ULL << 20)

/*
 * A table that took the builder less CPU time is built again: reading a file takes a tenth of it, and of the 150 files of
 * a small node 80 are then in the cache, with nine tenths of the work.
 */
#define UNWIND_TABLE_CACHE_BUILD_NS_MIN 500000

struct unwind_table_cache;

/**
 * Open the cache in @folder, which is created for this user only. Files take at most @bytes_max; the least recently used
 * are evicted. Returns 0; -EPERM if the folder belongs to another user; -errno; -ENOMEM. One thread at a time; several
 * agents may share a folder, but another build of the program has tables of its own.
 */
int unwind_table_cache_open(const char *folder, uint64_t bytes_max,
			    struct unwind_table_cache **ret_cache, struct error *err);
void unwind_table_cache_close(struct unwind_table_cache *cache);

/** Key of a table beside the executable's id. */
uint64_t unwind_marks_hash(const struct unwind_mark *marks, uint32_t count);

/**
 * The table of executable @id with these marks, owned by the caller. Returns 0; -ENOENT; -ENAMETOOLONG; -ENOMEM; -errno.
 */
int unwind_table_cache_find(struct unwind_table_cache *cache, const char *id, uint64_t marks_hash,
			    struct unwind_table **ret_table);

/**
 * Store @table. Returns 0; -EFBIG if it would take more than half of the cache; -ENAMETOOLONG; -errno if writing fails,
 * and nothing is stored.
 */
int unwind_table_cache_add(struct unwind_table_cache *cache, const char *id, uint64_t marks_hash,
			   const struct unwind_table *table);
