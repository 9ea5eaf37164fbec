// SPDX-License-Identifier: Apache-2.0
#include "collector/store/rocksdb/rocksdb_db.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <rocksdb/c.h>

#include "base/cleanup.h"

static const char *const family_names[DB_FAMILY_COUNT] = { "default", "raw", "dictionary",
							   "chunk" };

// An empty directory becomes a store. A directory with this file is one. Others are refused.
static const char marker_name[] = "CAIRN_STORE";
static const char marker_text[] = "This directory belongs to cairn-collector. Do not edit.\n";

enum {
	// The usual limit is 1024 descriptors, and sockets need their share.
	FILES_OPEN_MAX = 256,
	BLOCK_BYTES = 32 << 10,
	LOG_FILES_KEPT = 3,
	LOG_FILE_BYTES = 4 << 20,
};

struct db {
	rocksdb_t *rocksdb;
	rocksdb_options_t *options;                   // of the database
	rocksdb_options_t *families[DB_FAMILY_COUNT]; // of each family
	rocksdb_block_based_table_options_t *tables[DB_FAMILY_COUNT];
	rocksdb_cache_t *cache;
	rocksdb_column_family_handle_t *handles[DB_FAMILY_COUNT];
	rocksdb_writeoptions_t *write_synced, *write_unsynced;
	rocksdb_readoptions_t *read;
	char *path;
};

struct db_batch {
	rocksdb_writebatch_t *writes;
	struct db *db;
};

struct db_iterator {
	rocksdb_iterator_t *rocksdb;
	rocksdb_readoptions_t *options;
	bool placed;
	size_t to_size;
	char to[64]; // RocksDB keeps a pointer to it
};

/** RocksDB reports errors as text. */
static int code_of_text(const char *text)
{
	if (strstr(text, "lock ") && strstr(text, "LOCK"))
		return -EBUSY;
	if (strstr(text, "No space left"))
		return -ENOSPC;
	if (!strncmp(text, "Corruption", 10) || !strncmp(text, "Invalid argument", 16))
		return -EBADMSG;
	return -EIO;
}

static const char *remedy_of_code(int code)
{
	switch (code) {
	case -EBUSY:
		return "another process has it open; stop that process, or choose another "
		       "directory with --data";
	case -ENOSPC:
		return "free space, or shorten --retention";
	case -EBADMSG:
		return "the store is damaged; restore it from a backup, or move the directory away "
		       "to start an empty one";
	default:
		return "check the disk and the permissions";
	}
}

/** Set @err from RocksDB's @text and free it. 0 if it is NULL. */
static int set_error(struct error *err, const struct db *db, const char *what, char *text)
{
	if (!text)
		return 0;
	int code = code_of_text(text);
	error_set(err, code, "store %s: %s: %.120s; %s", db->path, what, text,
		  remedy_of_code(code));
	rocksdb_free(text);
	return code;
}

static bool directory_is_empty(const char *path)
{
	DIR *directory = opendir(path);
	if (!directory)
		return false;
	bool empty = true;
	struct dirent *entry;
	while (empty && (entry = readdir(directory)))
		// An empty ext4 volume has a lost+found.
		empty = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
			!strcmp(entry->d_name, "lost+found");
	closedir(directory);
	return empty;
}

static int write_marker(int directory, const char *path, struct error *err)
{
	_cleanup_close_ int fd =
		openat(directory, marker_name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_errno(err, -errno, "store %s: create %s", path, marker_name);
	ssize_t written = write(fd, marker_text, sizeof(marker_text) - 1);
	if (written != sizeof(marker_text) - 1 || fsync(fd) < 0 || fsync(directory) < 0)
		return error_errno(err, written < 0 ? -errno : -EIO, "store %s: write %s", path,
				   marker_name);
	return 0;
}

/** Check that @path is a store's directory, or make an empty one a store's. */
static int claim_directory(const char *path, struct error *err)
{
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return error_errno(err, -errno,
				   "store %s: create the directory; choose another with --data",
				   path);
	_cleanup_close_ int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		return error_errno(err, -errno, "store %s: open the directory", path);
	if (faccessat(directory, marker_name, F_OK, 0) == 0)
		return 0;
	if (!directory_is_empty(path))
		return error_set(err, -EBADMSG,
				 "store %s: the directory is not empty and has no cairn store; "
				 "choose another directory with --data",
				 path);
	return write_marker(directory, path, err);
}

static void set_table_options(struct db *db, enum db_family family)
{
	rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
	rocksdb_block_based_options_set_block_cache(table, db->cache);
	rocksdb_block_based_options_set_block_size(table, BLOCK_BYTES);
	// Index blocks count against the cache: memory is bounded whatever the number of files.
	rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
	rocksdb_options_set_block_based_table_factory(db->families[family], table);
	db->tables[family] = table;
}

static void set_family_options(struct db *db, enum db_family family, uint64_t memory_bytes)
{
	static const int compressions[DB_FAMILY_COUNT] = {
		[DB_META] = rocksdb_no_compression,
		[DB_RAW] = rocksdb_lz4_compression, // short-lived
		[DB_DICTIONARY] = rocksdb_zstd_compression,
		[DB_CHUNK] = rocksdb_no_compression, // its columns are compressed
	};
	rocksdb_options_t *options = rocksdb_options_create_copy(db->options);

	rocksdb_options_set_compression(options, compressions[family]);
	rocksdb_options_set_write_buffer_size(options, memory_bytes / 16);
	rocksdb_options_set_max_write_buffer_number(options, 3);
	rocksdb_options_set_target_file_size_base(options, 32 << 20);
	if (family == DB_RAW) // deleted within minutes: compaction returns the disk space
		rocksdb_options_set_level0_file_num_compaction_trigger(options, 2);
	db->families[family] = options;
	set_table_options(db, family);
}

static void set_options(struct db *db, uint64_t memory_bytes)
{
	db->options = rocksdb_options_create();
	rocksdb_options_set_create_if_missing(db->options, 1);
	rocksdb_options_set_create_missing_column_families(db->options, 1);
	rocksdb_options_set_paranoid_checks(db->options, 1);
	rocksdb_options_set_max_open_files(db->options, FILES_OPEN_MAX);
	rocksdb_options_set_db_write_buffer_size(db->options, memory_bytes / 4);
	rocksdb_options_set_max_total_wal_size(db->options, memory_bytes / 8);
	rocksdb_options_set_max_background_jobs(db->options, 2);
	rocksdb_options_set_keep_log_file_num(db->options, LOG_FILES_KEPT);
	rocksdb_options_set_max_log_file_size(db->options, LOG_FILE_BYTES);
	rocksdb_options_set_bytes_per_sync(db->options, 1 << 20);

	db->cache = rocksdb_cache_create_lru(memory_bytes / 4);
	for (int family = 0; family < DB_FAMILY_COUNT; family++)
		set_family_options(db, family, memory_bytes);

	db->write_synced = rocksdb_writeoptions_create();
	rocksdb_writeoptions_set_sync(db->write_synced, 1);
	db->write_unsynced = rocksdb_writeoptions_create();
	db->read = rocksdb_readoptions_create();
}

int db_open(const char *path, uint64_t memory_bytes, struct db **ret_db, struct error *err)
{
	int rc = claim_directory(path, err);
	if (rc)
		return rc;

	struct db *db = calloc(1, sizeof(*db));
	if (!db || !(db->path = strdup(path))) {
		free(db);
		return error_set(err, -ENOMEM, "store %s: out of memory", path);
	}
	set_options(db, memory_bytes);

	char *text = NULL;
	db->rocksdb = rocksdb_open_column_families(db->options, path, DB_FAMILY_COUNT, family_names,
						   (const rocksdb_options_t *const *)db->families,
						   db->handles, &text);
	if (text) {
		rc = set_error(err, db, "open", text);
		db->rocksdb = NULL;
		db_close(db);
		return rc;
	}
	*ret_db = db;
	return 0;
}

void db_close(struct db *db)
{
	if (!db)
		return;
	if (db->rocksdb) {
		for (int family = 0; family < DB_FAMILY_COUNT; family++)
			rocksdb_column_family_handle_destroy(db->handles[family]);
		rocksdb_close(db->rocksdb);
	}
	for (int family = 0; family < DB_FAMILY_COUNT; family++) {
		rocksdb_options_destroy(db->families[family]);
		rocksdb_block_based_options_destroy(db->tables[family]);
	}
	rocksdb_options_destroy(db->options);
	rocksdb_cache_destroy(db->cache);
	rocksdb_writeoptions_destroy(db->write_synced);
	rocksdb_writeoptions_destroy(db->write_unsynced);
	rocksdb_readoptions_destroy(db->read);
	free(db->path);
	free(db);
}

struct db_batch *db_batch_new(struct db *db)
{
	struct db_batch *batch = malloc(sizeof(*batch));
	if (!batch)
		return NULL;
	*batch = (struct db_batch){ .writes = rocksdb_writebatch_create(), .db = db };
	return batch;
}

void db_batch_freep(struct db_batch **batch)
{
	if (!*batch)
		return;
	rocksdb_writebatch_destroy((*batch)->writes);
	free(*batch);
}

void db_batch_put(struct db_batch *batch, enum db_family family, struct bytes key,
		  struct bytes value)
{
	rocksdb_writebatch_put_cf(batch->writes, batch->db->handles[family], key.at, key.size,
				  value.at, value.size);
}

void db_batch_delete(struct db_batch *batch, enum db_family family, struct bytes key)
{
	rocksdb_writebatch_delete_cf(batch->writes, batch->db->handles[family], key.at, key.size);
}

void db_batch_delete_range(struct db_batch *batch, enum db_family family, struct bytes from,
			   struct bytes to)
{
	rocksdb_writebatch_delete_range_cf(batch->writes, batch->db->handles[family], from.at,
					   from.size, to.at, to.size);
}

int db_write(struct db *db, struct db_batch *batch, bool sync, struct error *err)
{
	char *text = NULL;
	rocksdb_write(db->rocksdb, sync ? db->write_synced : db->write_unsynced, batch->writes,
		      &text);
	return set_error(err, db, "write", text);
}

int db_get(struct db *db, enum db_family family, struct bytes key, struct buffer *value,
	   struct error *err)
{
	char *text = NULL;
	rocksdb_pinnableslice_t *slice = rocksdb_get_pinned_cf(
		db->rocksdb, db->read, db->handles[family], key.at, key.size, &text);
	if (text)
		return set_error(err, db, "read", text);
	if (!slice)
		return -ENOENT;
	size_t size;
	const char *at = rocksdb_pinnableslice_value(slice, &size);
	buffer_append(value, at, size);
	rocksdb_pinnableslice_destroy(slice);
	return value->rc ? error_set(err, value->rc, "store %s: out of memory", db->path) : 0;
}

int db_drop_files(struct db *db, enum db_family family, struct bytes from, struct bytes to,
		  struct error *err)
{
	char *text = NULL;
	rocksdb_delete_file_in_range_cf(db->rocksdb, db->handles[family], from.at, from.size, to.at,
					to.size, &text);
	return set_error(err, db, "delete old files", text);
}

void db_compact(struct db *db, enum db_family family)
{
	rocksdb_compact_range_cf(db->rocksdb, db->handles[family], NULL, 0, NULL, 0);
}

struct db_iterator *db_iterator_open(struct db *db, enum db_family family, struct bytes from,
				     struct bytes to, bool keep)
{
	struct db_iterator *iterator = calloc(1, sizeof(*iterator));
	if (!iterator)
		return NULL;
	assert(to.size <= sizeof(iterator->to));
	memcpy(iterator->to, to.at, to.size);
	iterator->to_size = to.size;
	iterator->options = rocksdb_readoptions_create();
	rocksdb_readoptions_set_fill_cache(iterator->options, keep);
	rocksdb_readoptions_set_iterate_upper_bound(iterator->options, iterator->to, to.size);
	iterator->rocksdb =
		rocksdb_create_iterator_cf(db->rocksdb, iterator->options, db->handles[family]);
	rocksdb_iter_seek(iterator->rocksdb, from.at, from.size);
	return iterator;
}

void db_iterator_freep(struct db_iterator **iterator)
{
	if (!*iterator)
		return;
	rocksdb_iter_destroy((*iterator)->rocksdb);
	rocksdb_readoptions_destroy((*iterator)->options);
	free(*iterator);
}

bool db_iterator_seek(struct db_iterator *iterator, struct bytes key)
{
	iterator->placed = true;
	rocksdb_iter_seek(iterator->rocksdb, key.at, key.size);
	return rocksdb_iter_valid(iterator->rocksdb);
}

bool db_iterator_next(struct db_iterator *iterator)
{
	if (iterator->placed)
		rocksdb_iter_next(iterator->rocksdb);
	iterator->placed = true;
	return rocksdb_iter_valid(iterator->rocksdb);
}

struct bytes db_iterator_key(const struct db_iterator *iterator)
{
	struct bytes key;
	key.at = rocksdb_iter_key(iterator->rocksdb, &key.size);
	return key;
}

struct bytes db_iterator_value(const struct db_iterator *iterator)
{
	struct bytes value;
	value.at = rocksdb_iter_value(iterator->rocksdb, &value.size);
	return value;
}

int db_iterator_check(const struct db_iterator *iterator, struct error *err)
{
	char *text = NULL;
	rocksdb_iter_get_error(iterator->rocksdb, &text);
	if (!text)
		return 0;
	int code = code_of_text(text);
	error_set(err, code, "store: read: %.160s; %s", text, remedy_of_code(code));
	rocksdb_free(text);
	return code;
}

uint64_t db_stored_bytes(const struct db *db)
{
	uint64_t bytes = 0;
	DIR *directory = opendir(db->path);
	struct dirent *entry;
	struct stat status;

	while (directory && (entry = readdir(directory)))
		if (fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(status.st_mode))
			bytes += (uint64_t)status.st_size;
	if (directory)
		closedir(directory);
	return bytes;
}

uint64_t db_memory_bytes(struct db *db)
{
	uint64_t bytes = rocksdb_cache_get_usage(db->cache), property;

	for (int family = 0; family < DB_FAMILY_COUNT; family++)
		if (!rocksdb_property_int_cf(db->rocksdb, db->handles[family],
					     "rocksdb.cur-size-all-mem-tables", &property))
			bytes += property;
	return bytes;
}
