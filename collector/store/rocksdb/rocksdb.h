// SPDX-License-Identifier: Apache-2.0
// The embedded store: an implementation of collector/store/store.h on RocksDB.
#pragma once

#include "collector/store/store.h"

/**
 * Open the store in @options->path, or create it. On a disk that cannot be written it is open for queries
 * only, until the disk can. Returns 0; -EBUSY (another process holds its lock), -EBADMSG (not a store,
 * damaged, or of another format), -EINVAL, -ENOSPC, -EROFS, -EIO, -ENOMEM; @err says what to do.
 */
int rocksdb_store_open(const struct store_options *options, struct store **ret_store,
		       struct error *err);

/** What a check has read, and found. */
struct store_check {
	uint64_t partitions, records, chunks, runs, rows;
	uint64_t damaged; // reports of damage
};

struct store_checker {
	void *context;
	/** Damage in the partition that begins at @start_ns (0: of no partition). */
	void (*damage)(void *context, uint64_t start_ns, const char *text);
	/** The partition that begins at @start_ns, one of @count, is done. */
	void (*progress)(void *context, uint64_t start_ns, uint32_t count,
			 const struct store_check *found);
};

/** Read all of the store in @path, which nobody writes. 0, whatever was found; or why it cannot be read. */
int rocksdb_store_check(const char *path, const struct store_checker *checker,
			struct store_check *ret_found, struct error *err);

/** Copy the latest backup in @folder (store_backup()) to @path, which must be missing or empty. */
int rocksdb_store_restore(const char *folder, const char *path, struct error *err);

/** Does another process have the store in @path open? */
bool rocksdb_store_is_open(const char *path);
