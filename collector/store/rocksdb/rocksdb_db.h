// SPDX-License-Identifier: Apache-2.0
// A RocksDB database: families of sorted keys, atomic batches, iterators. Only rocksdb_db.c includes
// rocksdb/c.h, beside rocksdb_files.h.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

/** Column families. Each has files of its own; one write-ahead log makes batches atomic. */
enum db_family {
	DB_META,       // format, acknowledged sequences of agents
	DB_RAW,        // rows of open minutes, short-lived
	DB_DICTIONARY, // strings, locations, nodes, stacks and series of a partition
	DB_CHUNK,      // rows and rollups of closed minutes
	DB_FAMILY_COUNT,
};

struct db;
struct db_batch;
struct db_iterator;

/** A key or a value, not owned. */
struct bytes {
	const void *at;
	size_t size;
};

enum db_mode {
	DB_READ_WRITE, // created if missing
	// As above, of a database whose files are known to be damaged: compactions go round them.
	DB_READ_WRITE_DAMAGED,
	DB_READ_ONLY, // changes nothing on disk; the write-ahead log is read into memory
};

/**
 * Open the database in @path. @memory_bytes bounds block cache and write buffers. Errors: -EBUSY (another
 * process holds the lock), -EBADMSG (not a store), -EUCLEAN (damaged), -ENOSPC, -EROFS, -EIO; @err says
 * what to do.
 */
int db_open(const char *path, uint64_t memory_bytes, enum db_mode mode, struct db **ret_db,
	    struct error *err);
void db_close(struct db *db);

/** What was found damaged when it was opened; "": nothing. */
const char *db_damage(const struct db *db);

/**
 * Make a damaged database one that can be opened, of the files that can be read. The others go to the
 * folder "lost" in it.
 */
int db_repair(const char *path, uint64_t memory_bytes, struct error *err);

/**
 * 0, or why a write has failed. From then on the files stay as they are, as after a crash, and each write
 * fails: close the database and open it again.
 */
int db_failed(struct db *db, struct error *err);

/** NULL when out of memory. */
struct db_batch *db_batch_new(struct db *db);
void db_batch_freep(struct db_batch **batch);
void db_batch_put(struct db_batch *batch, enum db_family family, struct bytes key,
		  struct bytes value);
void db_batch_delete(struct db_batch *batch, enum db_family family, struct bytes key);
/** Delete the keys in [from, to). */
void db_batch_delete_range(struct db_batch *batch, enum db_family family, struct bytes from,
			   struct bytes to);

/**
 * Write the batch, whole or not at all. With @sync it is on disk on return; without, it is on disk
 * after the next synced batch. Batches become durable in the order of their writes.
 */
int db_write(struct db *db, struct db_batch *batch, bool sync, struct error *err);

/** Append the value of @key to @value. Returns 0; -ENOENT without @err; or an error. */
int db_get(struct db *db, enum db_family family, struct bytes key, struct buffer *value,
	   struct error *err);

/**
 * Delete the files whose keys all lie in [from, to). Call it after db_batch_delete_range(), which
 * frees space only at the next compaction.
 */
int db_drop_files(struct db *db, enum db_family family, struct bytes from, struct bytes to,
		  struct error *err);

/** Write what is in memory to files of the families: the write-ahead log of before goes. */
int db_flush(struct db *db, struct error *err);

/** Rewrite @family without deleted keys: all of it, or what lies in [from, to). */
void db_compact(struct db *db, enum db_family family);
void db_compact_range(struct db *db, enum db_family family, struct bytes from, struct bytes to);
/** Have RocksDB's own threads do that for [from, to), when they come to it. */
void db_suggest_compaction(struct db *db, enum db_family family, struct bytes from,
			   struct bytes to);

/**
 * Iterate over a snapshot of the keys in [from, to), starting before the first. @keep: blocks that
 * are read go to the cache (false for large scans). NULL when out of memory.
 */
struct db_iterator *db_iterator_open(struct db *db, enum db_family family, struct bytes from,
				     struct bytes to, bool keep);
void db_iterator_freep(struct db_iterator **iterator);
/** Move to the first key at or after @key. False at the end, or on an error. */
bool db_iterator_seek(struct db_iterator *iterator, struct bytes key);
bool db_iterator_next(struct db_iterator *iterator);
/** Valid until the iterator moves. */
struct bytes db_iterator_key(const struct db_iterator *iterator);
struct bytes db_iterator_value(const struct db_iterator *iterator);
/** The reason why seek or next returned false: 0 at the end. */
int db_iterator_check(const struct db_iterator *iterator, struct error *err);

/** Bytes of the database's files. */
uint64_t db_stored_bytes(const struct db *db);
/** Memory of block cache, write buffers and open tables, approximate. */
uint64_t db_memory_bytes(struct db *db);

/**
 * Add a backup of @db, as it is now, to @folder, which is created. What an earlier one there has is not
 * copied again; older ones than the last two go.
 */
int db_backup(struct db *db, const char *folder, struct error *err);
/** Copy the latest backup in @folder to the directory @path, which must be missing or empty. */
int db_restore(const char *folder, const char *path, struct error *err);
/** Does another process have the database open for writing? */
bool db_is_open_elsewhere(const char *path);
