// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/identity_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cache_folder.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash_table.h"
#include "base/id128.h"

#define NAME    "identities"
#define BOOT_ID "/proc/sys/kernel/random/boot_id"

enum {
	RECORDS_MAX =
		2 * IDENTITIES_MAX, // in memory: those of earlier starts, and as many new ones
	BOOT_ID_BYTES = 36,
	NAME_BYTES = 48,
};

/* Without padding: written and hashed as bytes. */
struct record {
	struct file_version version;
	char id[BUILD_ID_TEXT_BYTES];
	char content[FILE_CONTENT_TEXT_BYTES];
	char zero[6];
	uint64_t check; // of what is before it
};
_Static_assert(sizeof(struct record) == 168, "padding would be written");

struct header {
	char magic[8];
	char boot_id[BOOT_ID_BYTES];
	uint32_t zero;
	uint64_t builder;
	uint64_t count;
};
_Static_assert(sizeof(struct header) == 64, "padding would be written");

struct records {
	struct record *list;
	uint32_t count, capacity;
};

struct identity_cache {
	int folder;
	struct header header; // of this boot and program
	struct records records;
	bool used[RECORDS_MAX]; // in this run, by record
	struct hash_table by_version;
	bool is_new; // what is not on disk
	struct identity_cache_stats stats;
};

// ---- one record -----------------------------------------------------------------------------

static uint64_t check_of(const struct record *record)
{
	return id128_of(record, offsetof(struct record, check)).low;
}

static bool is_sound(const struct record *record)
{
	return record->check == check_of(record) && memchr(record->id, '\0', sizeof(record->id)) &&
	       memchr(record->content, '\0', sizeof(record->content));
}

static bool version_equals(const void *context, uint32_t item, const void *key)
{
	const struct records *records = context;

	return memcmp(&records->list[item].version, key, sizeof(struct file_version)) == 0;
}

static uint32_t find(const struct hash_table *by_version, const struct records *records,
		     const struct file_version *version)
{
	return hash_table_find(by_version, hash64_of(version, sizeof(*version)), version_equals,
			       records, version);
}

/* Without memory, or space, the file is hashed again next time. */
static bool add(struct hash_table *by_version, struct records *records, uint32_t count_max,
		const struct record *record)
{
	if (find(by_version, records, &record->version) != HASH_TABLE_NONE ||
	    array_reserve(&records->list, sizeof(*records->list), &records->capacity,
			  records->count, 1, count_max) ||
	    hash_table_add(by_version, hash64_of(&record->version, sizeof(record->version)),
			   records->count))
		return false;
	records->list[records->count++] = *record;
	return true;
}

// ---- what may be kept -----------------------------------------------------------------------

/* Btrfs has a disk, though its device number is made up. */
static bool is_on_our_disk(const struct opened_file *file)
{
	struct statvfs mount;
	struct statfs system;

	if (fstatvfs(file->fd, &mount) || (mount.f_flag & ST_NOSUID))
		return false;
	return major(file->status.st_dev) != 0 ||
	       (fstatfs(file->fd, &system) == 0 && system.f_type == BTRFS_SUPER_MAGIC);
}

static bool cannot_change_unseen(const struct opened_file *file)
{
	return file->has_host_root && file_only_root_writes(&file->status) && is_on_our_disk(file);
}

static bool is_settled(const struct file_version *version, uint64_t now_ns)
{
	int64_t changed_ns =
		version->changed_seconds * (int64_t)NS_PER_SECOND + version->changed_ns;

	return changed_ns >= 0 && now_ns >= IDENTITY_SETTLED_NS &&
	       (uint64_t)changed_ns < now_ns - IDENTITY_SETTLED_NS;
}

// ---- the file -------------------------------------------------------------------------------

static int open_file(int folder, struct stat *ret_status)
{
	_cleanup_close_ int fd =
		openat(folder, NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || fstat(fd, ret_status))
		return -errno;
	return cache_file_is_ours(ret_status) ? take_fd(fd) : -EPERM;
}

static bool read_header(struct identity_cache *cache, int fd, uint64_t *ret_count)
{
	struct header header;

	if (read(fd, &header, sizeof(header)) != sizeof(header))
		return false;
	*ret_count = header.count < IDENTITIES_MAX ? header.count : IDENTITIES_MAX;
	header.count = 0;
	return memcmp(&header, &cache->header, sizeof(header)) == 0;
}

/* Adds to @records what the file has of this boot and program. */
static void read_records(struct identity_cache *cache, struct hash_table *by_version,
			 struct records *records)
{
	struct stat status;
	_cleanup_close_ int fd = open_file(cache->folder, &status);
	struct record record;
	uint64_t count;

	if (fd < 0 || !read_header(cache, fd, &count) || !count)
		return;
	_cleanup_free_ struct record *list = malloc(count * sizeof(record));
	if (!list)
		return;
	ssize_t size = read(fd, list, count * sizeof(record));
	uint64_t whole = size > 0 ? (uint64_t)size / sizeof(record) : 0;
	cache->stats.damaged += count - whole;
	for (uint64_t i = 0; i < whole; i++) {
		if (is_sound(&list[i]))
			add(by_version, records, IDENTITIES_MAX, &list[i]);
		else
			cache->stats.damaged++;
	}
}

static int write_all(int fd, const void *bytes, size_t size)
{
	const char *at = bytes;

	while (size) {
		ssize_t written = write(fd, at, size);

		if (written < 0)
			return -errno;
		at += written;
		size -= (size_t)written;
	}
	return 0;
}

static int write_file(const struct identity_cache *cache, const struct records *records)
{
	struct header header = cache->header;
	char unfinished[NAME_BYTES];

	header.count = records->count;
	snprintf(unfinished, sizeof(unfinished), NAME "-%d.new", (int)getpid());
	unlinkat(cache->folder, unfinished, 0); // left by a program with our pid
	_cleanup_close_ int fd = openat(cache->folder, unfinished,
					O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	int rc = write_all(fd, &header, sizeof(header));
	if (!rc)
		rc = write_all(fd, records->list, records->count * sizeof(*records->list));
	if (!rc && renameat(cache->folder, unfinished, cache->folder, NAME))
		rc = -errno;
	if (rc)
		unlinkat(cache->folder, unfinished, 0);
	return rc;
}

static void records_deinit(struct records *records)
{
	free(records->list);
}

int identity_cache_save(struct identity_cache *cache)
{
	_cleanup_(hash_table_deinit) struct hash_table by_version = { 0 };
	_cleanup_(records_deinit) struct records kept = { 0 };

	if (!cache->is_new)
		return 0;
	cache->is_new = false; // what cannot be written is tried again with the next news
	for (uint32_t i = 0; i < cache->records.count; i++)
		if (cache->used[i])
			add(&by_version, &kept, IDENTITIES_MAX, &cache->records.list[i]);
	read_records(cache, &by_version, &kept);
	return write_file(cache, &kept);
}

// ---- public ---------------------------------------------------------------------------------

static int fill_header(struct header *header)
{
	_cleanup_close_ int fd = open(BOOT_ID, O_RDONLY | O_CLOEXEC);

	memcpy(header->magic, "cairnid1", sizeof(header->magic));
	header->builder = build_id_hash_of_program();
	if (fd < 0)
		return -errno;
	return read(fd, header->boot_id, BOOT_ID_BYTES) == BOOT_ID_BYTES ? 0 : -EIO;
}

int identity_cache_open(const char *folder, struct identity_cache **ret_cache, struct error *err)
{
	struct identity_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return error_set(err, -ENOMEM, "identity cache: out of memory");
	cache->folder = cache_folder_open(folder, "identity cache", err);
	int rc = cache->folder < 0 ? cache->folder : 0;
	if (!rc && fill_header(&cache->header))
		rc = error_set(err, -EIO, "identity cache: read " BOOT_ID);
	if (rc) {
		identity_cache_close(cache);
		return rc;
	}
	read_records(cache, &cache->by_version, &cache->records);
	*ret_cache = cache;
	return 0;
}

void identity_cache_close(struct identity_cache *cache)
{
	if (!cache)
		return;
	identity_cache_save(cache);
	cleanup_closep(&cache->folder);
	records_deinit(&cache->records);
	hash_table_deinit(&cache->by_version);
	free(cache);
}

bool identity_cache_find(struct identity_cache *cache, const struct opened_file *file,
			 struct file_identity *ret_identity)
{
	uint32_t at = find(&cache->by_version, &cache->records, &file->version);

	if (at == HASH_TABLE_NONE || !cannot_change_unseen(file))
		return false;
	const struct record *record = &cache->records.list[at];
	*ret_identity = (struct file_identity){ 0 };
	memcpy(ret_identity->id, record->id, sizeof(record->id));
	memcpy(ret_identity->content, record->content, sizeof(record->content));
	file_identity_set_key(ret_identity);
	cache->used[at] = true;
	cache->stats.found++;
	return true;
}

void identity_cache_add(struct identity_cache *cache, const struct opened_file *file,
			const struct file_identity *identity, uint64_t read_ns)
{
	struct record record = { .version = file->version };
	uint32_t at = cache->records.count;

	if (!is_settled(&file->version, read_ns) || !cannot_change_unseen(file) ||
	    identity->debug_content[0])
		return;
	memcpy(record.id, identity->id, strlen(identity->id));
	memcpy(record.content, identity->content, strlen(identity->content));
	record.check = check_of(&record);
	if (add(&cache->by_version, &cache->records, RECORDS_MAX, &record))
		cache->used[at] = cache->is_new = true;
}

void identity_cache_read_stats(const struct identity_cache *cache,
			       struct identity_cache_stats *ret_stats)
{
	*ret_stats = cache->stats;
}
