// SPDX-License-Identifier: Apache-2.0
// A RocksDB database as few nouns: families of sorted keys, atomic batches, iterators. The only
// file that includes rocksdb/c.h is rocksdb_db.c.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

/** Column families: each has its own files, one write-ahead log keeps batches over all atomic. */
enum db_family {
	DB_META,       // format, agents' sequences
	DB_RAW,        // rows of open windows, short-lived
	DB_DICTIONARY, // strings, locations, nodes, stacks, series of a partition
	DB_CHUNK,      // rows and activity of closed windows
	DB_FAMILY_COUNT,
};

struct db;
struct db_batch;
struct db_iterator;

/** A key or a value in place. */
struct bytes {
	const void *at;
	size_t size;
};

/**
 * Open or create the database in @path. @memory_bytes bounds block cache and write buffers.
 * Errors: -EBUSY (another process holds the lock), -EBADMSG (not a database of ours, or corrupt),
 * -ENOSPC, -EIO; the text says what to do.
 */
int db_open(const char *path, uint64_t memory_bytes, struct db **ret_db, struct error *err);
void db_close(struct db *db);

/** NULL when out of memory. */
struct db_batch *db_batch_new(struct db *db);
void db_batch_freep(struct db_batch **batch);
void db_batch_put(struct db_batch *batch, enum db_family family, struct bytes key,
		  struct bytes value);
void db_batch_delete(struct db_batch *batch, enum db_family family, struct bytes key);
/** All keys in [from, to). */
void db_batch_delete_range(struct db_batch *batch, enum db_family family, struct bytes from,
			   struct bytes to);

/**
 * Write the batch whole or not at all. With @sync it is on the disk on return. Without, it reaches
 * the disk no later than the next synced batch, and never after one written later.
 */
int db_write(struct db *db, struct db_batch *batch, bool sync, struct error *err);

/** Append the value of @key to @value. Returns 0; -ENOENT without @err; or an error. */
int db_get(struct db *db, enum db_family family, struct bytes key, struct buffer *value,
	   struct error *err);

/**
 * Give the files that lie whole in [from, to) back to the disk at once. Follows a deleted range,
 * which alone would wait for compaction.
 */
int db_drop_files(struct db *db, enum db_family family, struct bytes from, struct bytes to,
		  struct error *err);

/** Rewrite @family without what was deleted. */
void db_compact(struct db *db, enum db_family family);

/**
 * A view of the keys in [from, to) as they are now, later writes unseen. @keep: blocks read go to
 * the cache (leave it out for large scans). Placed before the first key. NULL when out of memory.
 */
struct db_iterator *db_iterator_open(struct db *db, enum db_family family, struct bytes from,
				     struct bytes to, bool keep);
void db_iterator_freep(struct db_iterator **iterator);
/** To the first key at or after @key; false at the end or on an error. */
bool db_iterator_seek(struct db_iterator *iterator, struct bytes key);
bool db_iterator_next(struct db_iterator *iterator);
/** Valid until the iterator moves. */
struct bytes db_iterator_key(const struct db_iterator *iterator);
struct bytes db_iterator_value(const struct db_iterator *iterator);
/** Why seek or next returned false: 0 at the end. */
int db_iterator_check(const struct db_iterator *iterator, struct error *err);

/** Bytes of all files of the database. */
uint64_t db_stored_bytes(const struct db *db);
/** Memory of block cache, write buffers and open tables, about. */
uint64_t db_memory_bytes(struct db *db);
