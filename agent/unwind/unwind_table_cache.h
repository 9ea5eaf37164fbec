// SPDX-License-Identifier: Apache-2.0
// Unwind tables kept on disk, so that an agent that starts anew has those of large libraries at
// once. A file per executable and its marks. What cannot be trusted (cut, altered, of another version,
// not ours) is ignored and removed; the tables can always be built again.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "agent/unwind/unwind_table.h"

/* PyTorch's libraries take 20 MB, those of a Debian machine 140 MB. */
#define UNWIND_TABLE_CACHE_BYTES_DEFAULT (256ULL << 20)

struct unwind_table_cache;

/**
 * Where tables are kept if nobody says otherwise: /var/cache/cairn for root, else cairn/ in
 * $XDG_CACHE_HOME or ~/.cache. Returns 0; -ENOENT if there is no home; -ENAMETOOLONG.
 */
int unwind_table_cache_folder(char *ret_folder, size_t size);

/**
 * Open the cache in @folder, which is made if need be, with permissions for nobody else. Its files
 * take at most @bytes_max; those that were used least recently are removed for new ones.
 * Returns 0; -EPERM if the folder belongs to somebody else; -errno; -ENOMEM.
 * One thread at a time; several agents can share a folder: each program's builds have tables of
 * their own, for another one may compile other rows.
 */
int unwind_table_cache_open(const char *folder, uint64_t bytes_max,
			    struct unwind_table_cache **ret_cache, struct error *err);
void unwind_table_cache_close(struct unwind_table_cache *cache);

/** What tables with these marks are kept under, beside the executable's id. */
uint64_t unwind_marks_hash(const struct unwind_mark *marks, uint32_t count);

/**
 * The table of executable @id built with these marks; the caller's. Returns 0; -ENOENT if it is not
 * kept; -ENAMETOOLONG; -ENOMEM; -errno when reading fails.
 */
int unwind_table_cache_find(struct unwind_table_cache *cache, const char *id, uint64_t marks_hash,
			    struct unwind_table **ret_table);

/**
 * Keep @table. Returns 0; -EFBIG if it would take more than half of the cache; -ENAMETOOLONG; -errno
 * when writing fails, and nothing has changed then.
 */
int unwind_table_cache_add(struct unwind_table_cache *cache, const char *id, uint64_t marks_hash,
			   const struct unwind_table *table);
