// SPDX-License-Identifier: Apache-2.0
#include "collector/store/rocksdb/rocksdb_db.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rocksdb/c.h>

#include "base/cleanup.h"
#include "collector/store/disk_room.h"
#include "collector/store/rocksdb/rocksdb_files.h"

static const char *const family_names[DB_FAMILY_COUNT] = { "default", "raw", "dictionary",
							   "chunk" };

// An empty directory becomes a store. A directory with this file is one. Others are refused.
static const char marker_name[] = "CAIRN_STORE";
static const char marker_text[] = "This folder belongs to cairn-collector. Do not edit.\n";

enum {
	// The usual limit is 1024 descriptors, and sockets need their share.
	FILES_OPEN_MAX = 256,
	BLOCK_BYTES = 32 << 10,
	LOG_FILES_KEPT = 3,
	L0_FILES_SLOW = 500,
	DB_DAMAGE_BYTES = 240,
	LOG_FILE_BYTES = 4 << 20,
	DELETIONS_WINDOW = 64, // of keys in a file
	BACKUPS_KEPT = 2,      // they share files; one that is damaged leaves the other
};

struct db {
	rocksdb_t *rocksdb;
	struct db_files *files;
	atomic_int
		write_failed; // by RocksDB's own judgement, as damage that a compaction met; a negative errno
	rocksdb_options_t *options;                   // of the database
	rocksdb_options_t *families[DB_FAMILY_COUNT]; // of each family
	rocksdb_block_based_table_options_t *tables[DB_FAMILY_COUNT];
	rocksdb_cache_t *cache;
	rocksdb_column_family_handle_t *handles[DB_FAMILY_COUNT];
	rocksdb_writeoptions_t *write_synced, *write_unsynced;
	rocksdb_readoptions_t *read;
	char *path;
	char damage[DB_DAMAGE_BYTES];
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
	size_t target_size;
	char target[64]; // of the last seek, if the iterator has not moved since; empty: none
};

/** RocksDB reports errors as text. */
static int code_of_text(const char *text)
{
	if (strstr(text, "lock ") && strstr(text, "LOCK"))
		return -EBUSY;
	if (strstr(text, "No space left"))
		return -ENOSPC;
	if (strstr(text, "Read-only file system"))
		return -EROFS;
	if (!strncmp(text, "Corruption", 10) || !strncmp(text, "Invalid argument", 16) ||
	    strstr(text, "No such file"))
		return -EBADMSG;
	return -EIO;
}

static const char *remedy_of_code(int code)
{
	switch (code) {
	case -EBUSY:
		return "another process has it open; stop that process, or choose another folder "
		       "with --data";
	case -ENOSPC:
		return "free space, or shorten --retention";
	case -EROFS:
		return "mount the disk read-write again";
	case -EBADMSG:
		return "the store is damaged; restore it from a backup, or move the folder away "
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

int db_failed(struct db *db, struct error *err)
{
	char text[DB_FILES_TEXT_BYTES];
	int code = atomic_load(&db->write_failed);

	if (db_files_failed(db->files, text)) {
		code = code_of_text(text);
		return error_set(err, code, "store %s: write: %.160s; %s", db->path, text,
				 remedy_of_code(code));
	}
	return code ? error_set(err, code, "store %s: RocksDB refuses writes; %s", db->path,
				remedy_of_code(code))
		    : 0;
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

/* Of a volume that belongs to another user the system's words do not say who we are. */
static int directory_error(struct error *err, const char *path, const char *what)
{
	int code = -errno;

	if (code != -EACCES && code != -EPERM)
		return error_errno(err, code, "store %s: %s", path, what);
	return error_set(err, code,
			 "store %s: %s: permission denied for uid %u; make the folder its own: "
			 "chown -R %u:%u %s",
			 path, what, geteuid(), geteuid(), getegid(), path);
}

static int write_marker(int directory, const char *path, struct error *err)
{
	_cleanup_close_ int fd =
		openat(directory, marker_name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return directory_error(err, path, "create CAIRN_STORE");
	ssize_t written = write(fd, marker_text, sizeof(marker_text) - 1);
	if (written != sizeof(marker_text) - 1 || fsync(fd) < 0 || fsync(directory) < 0)
		return error_errno(err, written < 0 ? -errno : -EIO, "store %s: write %s", path,
				   marker_name);
	return 0;
}

/** Check that @path is a store's directory, or make an empty one a store's. */
static int claim_directory(const char *path, enum db_mode mode, struct error *err)
{
	if (mode == DB_READ_WRITE && mkdir(path, 0700) < 0 && errno != EEXIST)
		return directory_error(err, path, "create the folder");
	_cleanup_close_ int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		return directory_error(err, path, "open the folder");
	if (mode == DB_READ_WRITE && faccessat(directory, ".", W_OK | X_OK, AT_EACCESS))
		return directory_error(err, path, "write into the folder");
	if (faccessat(directory, marker_name, F_OK, 0) == 0)
		return 0;
	if (mode == DB_READ_ONLY || !directory_is_empty(path))
		return error_set(err, -EBADMSG,
				 "store %s: the folder is not empty and has no cairn store; "
				 "choose another folder with --data",
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
	if (family ==
	    DB_CHUNK) // files that delete much are compacted: what was merged leaves the disk
		rocksdb_options_add_compact_on_deletion_collector_factory(options, DELETIONS_WINDOW,
									  DELETIONS_WINDOW / 2);
	if (family == DB_RAW) // deleted within minutes: compaction returns the disk space
		rocksdb_options_set_level0_file_num_compaction_trigger(options, 2);
	db->families[family] = options;
	set_table_options(db, family);
}

static void set_options(struct db *db, uint64_t memory_bytes)
{
	db->options = rocksdb_options_create();
	rocksdb_options_set_env(db->options, db_files_env(db->files));
	rocksdb_options_set_create_if_missing(db->options, 1);
	rocksdb_options_set_create_missing_column_families(db->options, 1);
	rocksdb_options_set_max_open_files(db->options, FILES_OPEN_MAX);
	rocksdb_options_set_db_write_buffer_size(db->options, memory_bytes / 4);
	rocksdb_options_set_max_total_wal_size(db->options, memory_bytes / 8);
	rocksdb_options_set_max_background_jobs(db->options, 2);
	// A damaged file is not compacted, and those above it pile up: writes go on all the same.
	rocksdb_options_set_level0_slowdown_writes_trigger(db->options, L0_FILES_SLOW);
	rocksdb_options_set_level0_stop_writes_trigger(db->options, 2 * L0_FILES_SLOW);
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

/** How much damage an open database may have. */
enum tolerance {
	TOLERATE_NOTHING, // but a last write that was cut short
	TOLERATE_LOG,     // the write-ahead log ends where it is damaged
	TOLERATE_FILES,   // what cannot be read is missing, and not compacted
};

static void set_tolerance(struct db *db, enum tolerance tolerance)
{
	bool strict = tolerance != TOLERATE_FILES;
	int recovery = tolerance == TOLERATE_NOTHING
			       ? rocksdb_tolerate_corrupted_tail_records_recovery
			       : rocksdb_point_in_time_recovery;

	rocksdb_options_set_paranoid_checks(db->options, strict);
	rocksdb_options_set_wal_recovery_mode(db->options, recovery);
}

/** Has the directory tables, but not the file that leads to their list? RocksDB would begin an empty one. */
static bool has_lost_list(const char *path)
{
	DIR *directory = opendir(path);
	bool has_table = false, has_list = false;
	struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		has_table = has_table || strstr(entry->d_name, ".sst");
		has_list = has_list || !strcmp(entry->d_name, "CURRENT");
	}
	if (directory)
		closedir(directory);
	return has_table && !has_list;
}

/** Open it with @tolerance. -EUCLEAN: it is more damaged. */
static int try_to_open(struct db *db, enum db_mode mode, enum tolerance tolerance,
		       struct error *err)
{
	const rocksdb_options_t *const *families = (const rocksdb_options_t *const *)db->families;
	char *text = NULL;

	if (has_lost_list(db->path))
		return error_set(err, -EUCLEAN, "store %s: open: the file CURRENT is missing",
				 db->path);
	set_tolerance(db, tolerance);
	db->rocksdb =
		mode == DB_READ_ONLY
			? rocksdb_open_for_read_only_column_families(
				  db->options, db->path, DB_FAMILY_COUNT, family_names, families,
				  db->handles, 0, &text)
			: rocksdb_open_column_families(db->options, db->path, DB_FAMILY_COUNT,
						       family_names, families, db->handles, &text);
	// What failed to be written explains what RocksDB then missed.
	int rc = db_failed(db, err);
	if (!rc)
		rc = set_error(err, db, "open", take(text));
	rocksdb_free(text);
	return rc == -EBADMSG ? -EUCLEAN : rc;
}

int db_open(const char *path, uint64_t memory_bytes, enum db_mode mode, struct db **ret_db,
	    struct error *err)
{
	enum tolerance tolerance =
		mode == DB_READ_WRITE_DAMAGED ? TOLERATE_FILES : TOLERATE_NOTHING;
	int rc = claim_directory(path, mode, err);
	if (rc)
		return rc;

	struct db *db = calloc(1, sizeof(*db));
	if (!db || !(db->path = strdup(path)) || !(db->files = db_files_new())) {
		if (db)
			free(db->path);
		free(db);
		return error_set(err, -ENOMEM, "store %s: out of memory", path);
	}
	set_options(db, memory_bytes);

	for (; (rc = try_to_open(db, mode, tolerance, err)) == -EUCLEAN; tolerance++) {
		if (!db->damage[0] && err)
			snprintf(db->damage, sizeof(db->damage), "%.*s", DB_DAMAGE_BYTES - 1,
				 err->text);
		if (tolerance == TOLERATE_FILES)
			break;
	}
	if (rc) {
		db_close(db);
		return rc;
	}
	*ret_db = db;
	return 0;
}

const char *db_damage(const struct db *db)
{
	return db->damage;
}

static void free_options(struct db *db)
{
	for (int family = 0; family < DB_FAMILY_COUNT; family++) {
		rocksdb_options_destroy(db->families[family]);
		rocksdb_block_based_options_destroy(db->tables[family]);
	}
	rocksdb_options_destroy(db->options);
	rocksdb_cache_destroy(db->cache);
	rocksdb_writeoptions_destroy(db->write_synced);
	rocksdb_writeoptions_destroy(db->write_unsynced);
	rocksdb_readoptions_destroy(db->read);
	db_files_free(db->files);
}

int db_repair(const char *path, uint64_t memory_bytes, struct error *err)
{
	struct db db = { .path = (char *)path, .files = db_files_new() };
	char *text = NULL;

	if (!db.files)
		return error_set(err, -ENOMEM, "store %s: out of memory", path);
	set_options(&db, memory_bytes);
	rocksdb_repair_db(db.options, path, &text);
	int rc = db_failed(&db, err);
	if (!rc)
		rc = set_error(err, &db, "repair", take(text));
	rocksdb_free(text);
	free_options(&db);
	return rc;
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
	free_options(db);
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
	int rc = db_failed(db, err);
	if (rc)
		return rc;

	char *text = NULL;
	rocksdb_write(db->rocksdb, sync ? db->write_synced : db->write_unsynced, batch->writes,
		      &text);
	if (text)
		atomic_store(&db->write_failed, code_of_text(text));
	rc = set_error(err, db, "write", text);
	// What needs not be on disk yet is in memory, and read from there until the database is closed.
	return rc || !sync ? rc : db_failed(db, err);
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
	int rc = set_error(err, db, "delete old files", text);
	return rc ? rc : db_failed(db, err);
}

int db_flush(struct db *db, struct error *err)
{
	rocksdb_flushoptions_t *options = rocksdb_flushoptions_create();
	char *text = NULL;

	for (int i = 0; i < DB_FAMILY_COUNT && !text; i++)
		rocksdb_flush_cf(db->rocksdb, options, db->handles[i], &text);
	rocksdb_flushoptions_destroy(options);
	return set_error(err, db, "flush", text);
}

void db_compact(struct db *db, enum db_family family)
{
	rocksdb_compact_range_cf(db->rocksdb, db->handles[family], NULL, 0, NULL, 0);
}

void db_compact_range(struct db *db, enum db_family family, struct bytes from, struct bytes to)
{
	rocksdb_compact_range_cf(db->rocksdb, db->handles[family], from.at, from.size, to.at,
				 to.size);
}

void db_suggest_compaction(struct db *db, enum db_family family, struct bytes from, struct bytes to)
{
	char *text = NULL;

	rocksdb_suggest_compact_range_cf(db->rocksdb, db->handles[family], from.at, from.size,
					 to.at, to.size, &text);
	rocksdb_free(text); // it stays as it is, until a compaction comes anyway
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

static int compare_keys(struct bytes a, struct bytes b)
{
	int order = memcmp(a.at, b.at, a.size < b.size ? a.size : b.size);

	return order ? order : (a.size > b.size) - (a.size < b.size);
}

/**
 * Is the first key at or after @key the iterator's, or the next one? Scans ask for most keys in order, and a seek finds and
 * checks a block anew each time.
 */
static bool is_near(struct db_iterator *iterator, struct bytes key)
{
	struct bytes target = { iterator->target, iterator->target_size };

	if (!iterator->target_size || compare_keys(target, key) > 0 ||
	    !rocksdb_iter_valid(iterator->rocksdb))
		return false;
	if (compare_keys(db_iterator_key(iterator), key) >= 0)
		return true;
	rocksdb_iter_next(iterator->rocksdb);
	return rocksdb_iter_valid(iterator->rocksdb) &&
	       compare_keys(db_iterator_key(iterator), key) >= 0;
}

bool db_iterator_seek(struct db_iterator *iterator, struct bytes key)
{
	bool is_placed = is_near(iterator, key);

	iterator->placed = true;
	if (!is_placed)
		rocksdb_iter_seek(iterator->rocksdb, key.at, key.size);
	iterator->target_size = key.size <= sizeof(iterator->target) ? key.size : 0;
	memcpy(iterator->target, key.at, iterator->target_size);
	return rocksdb_iter_valid(iterator->rocksdb);
}

bool db_iterator_next(struct db_iterator *iterator)
{
	iterator->target_size = 0;
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
		    S_ISREG(status.st_mode) && strcmp(entry->d_name, DISK_BALLAST_NAME))
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

// ---- backups ----------------------------------------------------------------------------------------

/** A backup engine on @folder. Both it and the database's side write through @files. */
static rocksdb_backup_engine_t *open_backups(const char *folder, struct db_files *files,
					     char **text)
{
	rocksdb_backup_engine_options_t *options = rocksdb_backup_engine_options_create(folder);

	rocksdb_backup_engine_options_set_env(options, db_files_env(files));
	rocksdb_backup_engine_t *backups =
		rocksdb_backup_engine_open_opts(options, db_files_env(files), text);
	rocksdb_backup_engine_options_destroy(options);
	return backups;
}

/** The outcome of work on @folder: what could not be written, else RocksDB's @text, which is freed. */
static int backup_outcome(const char *what, const char *folder, struct db_files *files, char *text,
			  struct error *err)
{
	char failure[DB_FILES_TEXT_BYTES];
	int code = 0;

	if (db_files_failed(files, failure))
		code = error_set(err, code_of_text(failure), "%s %s: %.160s", what, folder,
				 failure);
	else if (text)
		code = error_set(err, code_of_text(text), "%s %s: %.160s", what, folder, text);
	rocksdb_free(text);
	return code;
}

int db_backup(struct db *db, const char *folder, struct error *err)
{
	struct db_files *files = db_files_new();
	char *text = NULL;

	if (!files)
		return error_set(err, -ENOMEM, "backup %s: out of memory", folder);
	rocksdb_backup_engine_t *backups = open_backups(folder, files, &text);
	if (!text)
		rocksdb_backup_engine_create_new_backup_flush(backups, db->rocksdb, 0, &text);
	if (!text && !db_files_failed(files, (char[DB_FILES_TEXT_BYTES]){ 0 }))
		rocksdb_backup_engine_purge_old_backups(backups, BACKUPS_KEPT, &text);
	if (backups)
		rocksdb_backup_engine_close(backups);
	int rc = backup_outcome("backup", folder, files, text, err);
	db_files_free(files);
	return rc;
}

static int restore_files(const char *folder, const char *path, struct error *err)
{
	struct db_files *files = db_files_new();
	char *text = NULL;

	if (!files)
		return error_set(err, -ENOMEM, "restore %s: out of memory", folder);
	rocksdb_backup_engine_t *backups = open_backups(folder, files, &text);
	if (!text) {
		rocksdb_restore_options_t *options = rocksdb_restore_options_create();

		rocksdb_backup_engine_restore_db_from_latest_backup(backups, path, path, options,
								    &text);
		rocksdb_restore_options_destroy(options);
	}
	if (backups)
		rocksdb_backup_engine_close(backups);
	int rc = backup_outcome("restore", folder, files, text, err);
	db_files_free(files);
	return rc;
}

int db_restore(const char *folder, const char *path, struct error *err)
{
	char meta[PATH_MAX];

	snprintf(meta, sizeof(meta), "%s/meta", folder);
	if (directory_is_empty(meta) || access(meta, R_OK) < 0)
		return error_set(err, -ENOENT, "restore %s: there is no backup", folder);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return error_errno(err, -errno, "restore: create %s", path);
	if (!directory_is_empty(path))
		return error_set(err, -ENOTEMPTY,
				 "restore: %s is not empty; move it away, or choose another folder "
				 "with --data",
				 path);
	int rc = restore_files(folder, path, err);
	if (rc)
		return rc;
	_cleanup_close_ int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return directory < 0 ? error_errno(err, -errno, "restore: open %s", path)
			     : write_marker(directory, path, err);
}

bool db_is_open_elsewhere(const char *path)
{
	char name[PATH_MAX];
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	snprintf(name, sizeof(name), "%s/LOCK", path);
	_cleanup_close_ int fd = open(name, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}
