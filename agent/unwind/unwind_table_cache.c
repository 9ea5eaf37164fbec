// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/unwind_table_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/array.h"
#include "base/cache_folder.h"
#include "base/cleanup.h"
#include "agent/elf/build_id.h"
#include "agent/unwind/unwind_table_file.h"

enum {
	NAME_BYTES = 64,
	FILES_MAX = 65536,             // considered when evicting
	UNFINISHED_SECONDS_MAX = 3600, // then its writer is gone
};

#define FINISHED   ".table"
#define UNFINISHED ".new"

struct unwind_table_cache {
	int folder;
	uint64_t builder; // hash of this program's build id
	uint64_t bytes_max;
	uint64_t bytes; // of all files, as far as known
	uint32_t unfinished_count;
};

/* A file that may be evicted. */
struct cached_file {
	char name[NAME_BYTES];
	uint64_t bytes;
	int64_t used_ns;
};

struct file_list {
	struct cached_file *files;
	uint32_t count, capacity;
	uint64_t bytes;
};

static void kept_list_deinit(struct file_list *list)
{
	free(list->files);
}

static void closedirp(DIR **folder)
{
	if (*folder)
		closedir(*folder);
}

/* ---- eviction -------------------------------------------------------------------------------- */

static bool has_suffix(const char *name, const char *suffix)
{
	size_t length = strlen(name), suffix_length = strlen(suffix);

	return length > suffix_length && strcmp(name + length - suffix_length, suffix) == 0;
}

static int add_file(struct file_list *list, const char *name, const struct stat *status)
{
	int rc = array_reserve(&list->files, sizeof(*list->files), &list->capacity, list->count, 1,
			       UINT32_MAX);
	if (rc)
		return rc;

	struct cached_file *file = &list->files[list->count++];
	memcpy(file->name, name, strlen(name) + 1); // its length is checked
	file->bytes = (uint64_t)status->st_size;
	file->used_ns = status->st_mtim.tv_sec * 1000000000LL + status->st_mtim.tv_nsec;
	list->bytes += file->bytes;
	return 0;
}

static void remove_unfinished(int folder, const char *name, const struct stat *status)
{
	if (time(NULL) - status->st_mtim.tv_sec > UNFINISHED_SECONDS_MAX)
		unlinkat(folder, name, 0);
}

/* Files with other names are not ours. */
static int list_files(int folder_fd, struct file_list *list)
{
	_cleanup_close_ int fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	_cleanup_(closedirp) DIR *folder = fdopendir(fd);
	if (!folder)
		return -errno;
	take_fd(fd);

	struct dirent *entry;
	while ((entry = readdir(folder)) && list->count < FILES_MAX) {
		struct stat status;

		if (strlen(entry->d_name) >= NAME_BYTES ||
		    fstatat(folder_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(status.st_mode))
			continue;
		if (has_suffix(entry->d_name, UNFINISHED))
			remove_unfinished(folder_fd, entry->d_name, &status);
		else if (has_suffix(entry->d_name, FINISHED) &&
			 add_file(list, entry->d_name, &status))
			return -ENOMEM;
	}
	return 0;
}

static int compare_by_use(const void *left, const void *right)
{
	const struct cached_file *a = left, *b = right;

	return a->used_ns < b->used_ns ? -1 : a->used_ns > b->used_ns;
}

/* Evicts the least recently used until @bytes fit, and an eighth more, to do it seldom. */
static int make_room(struct unwind_table_cache *cache, uint64_t bytes)
{
	_cleanup_(kept_list_deinit) struct file_list list = { 0 };

	if (bytes <= cache->bytes_max && cache->bytes <= cache->bytes_max - bytes)
		return 0;
	int rc = list_files(cache->folder, &list); // other agents may have changed it
	if (rc)
		return rc;

	uint64_t wanted = cache->bytes_max - cache->bytes_max / 8;
	wanted = wanted > bytes ? wanted - bytes : 0;
	qsort(list.files, list.count, sizeof(*list.files), compare_by_use);
	for (uint32_t i = 0; i < list.count && list.bytes > wanted; i++) {
		if (unlinkat(cache->folder, list.files[i].name, 0) && errno != ENOENT)
			return -errno;
		list.bytes -= list.files[i].bytes;
	}
	cache->bytes = list.bytes;
	return 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Ids may have any characters: they are not file names. */
static int file_name(const struct unwind_table_key *key, char ret_name[NAME_BYTES])
{
	uint64_t seed = key->marks_hash ^ key->builder * 0x9e3779b97f4a7c15ULL;
	size_t length = strlen(key->id);

	if (!length || length > UNWIND_TABLE_ID_MAX)
		return -ENAMETOOLONG;

	XXH128_hash_t hash = XXH3_128bits_withSeed(key->id, length, seed);
	snprintf(ret_name, NAME_BYTES, "%016" PRIx64 "%016" PRIx64 FINISHED, (uint64_t)hash.high64,
		 (uint64_t)hash.low64);
	return 0;
}

static struct unwind_table_key key_of(const struct unwind_table_cache *cache, const char *id,
				      uint64_t marks_hash)
{
	return (struct unwind_table_key){ .id = id,
					  .builder = cache->builder,
					  .marks_hash = marks_hash };
}

int unwind_table_cache_open(const char *folder, uint64_t bytes_max,
			    struct unwind_table_cache **ret_cache, struct error *err)
{
	_cleanup_(kept_list_deinit) struct file_list list = { 0 };
	_cleanup_close_ int fd = cache_folder_open(folder, "unwind table cache", err);

	if (fd < 0)
		return fd;
	int rc = list_files(fd, &list);
	if (rc)
		return error_errno(err, rc, "unwind table cache: list %s", folder);

	struct unwind_table_cache *cache = calloc(1, sizeof(*cache));
	if (!cache)
		return error_set(err, -ENOMEM, "unwind table cache: out of memory");
	cache->folder = take_fd(fd);
	cache->builder = build_id_hash_of_program();
	cache->bytes_max = bytes_max;
	cache->bytes = list.bytes;
	*ret_cache = cache;
	return 0;
}

void unwind_table_cache_close(struct unwind_table_cache *cache)
{
	if (!cache)
		return;
	close(cache->folder);
	free(cache);
}

uint64_t unwind_marks_hash(const struct unwind_mark *marks, uint32_t count)
{
	XXH3_state_t *state = XXH3_createState();
	uint64_t hash = 0;

	if (!state)
		return 0;
	XXH3_64bits_reset(state);
	for (uint32_t i = 0; i < count; i++) { // field by field: padding is undefined
		XXH3_64bits_update(state, &marks[i].start, sizeof(marks[i].start));
		XXH3_64bits_update(state, &marks[i].limit, sizeof(marks[i].limit));
		XXH3_64bits_update(state, &marks[i].flags, sizeof(marks[i].flags));
	}
	hash = XXH3_64bits_digest(state);
	XXH3_freeState(state);
	return hash;
}

int unwind_table_cache_find(struct unwind_table_cache *cache, const char *id, uint64_t marks_hash,
			    struct unwind_table **ret_table)
{
	struct unwind_table_key key = key_of(cache, id, marks_hash);
	char name[NAME_BYTES];
	struct stat status;
	int rc = file_name(&key, name);

	if (rc)
		return rc;
	_cleanup_close_ int fd =
		openat(cache->folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ELOOP ? -ENOENT : -errno;
	if (fstat(fd, &status))
		return -errno;
	if (!cache_file_is_ours(&status))
		return -ENOENT;
	rc = unwind_table_file_read(fd, (uint64_t)status.st_size, &key, ret_table);
	if (rc == -EBADMSG) {
		if (unlinkat(cache->folder, name, 0) == 0)
			cache->bytes -= cache->bytes < (uint64_t)status.st_size
						? cache->bytes
						: (uint64_t)status.st_size;
		return -ENOENT;
	}
	// The file's time is its last use. If it cannot be set, the file is evicted early.
	if (rc == 0)
		(void)futimens(fd, NULL);
	return rc;
}

int unwind_table_cache_add(struct unwind_table_cache *cache, const char *id, uint64_t marks_hash,
			   const struct unwind_table *table)
{
	struct unwind_table_key key = key_of(cache, id, marks_hash);
	uint64_t bytes = unwind_table_file_bytes(table);
	char name[NAME_BYTES], unfinished[NAME_BYTES];
	int rc = file_name(&key, name);

	if (rc)
		return rc;
	if (bytes > cache->bytes_max / 2)
		return -EFBIG;
	rc = make_room(cache, bytes);
	if (rc)
		return rc;
	snprintf(unfinished, sizeof(unfinished), "%d-%u" UNFINISHED, getpid(),
		 cache->unfinished_count++);
	unlinkat(cache->folder, unfinished, 0); // left by an agent with our pid
	_cleanup_close_ int fd = openat(cache->folder, unfinished,
					O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	rc = unwind_table_file_write(fd, &key, table);
	if (!rc && renameat(cache->folder, unfinished, cache->folder, name))
		rc = -errno;
	if (rc)
		unlinkat(cache->folder, unfinished, 0);
	else
		cache->bytes += bytes;
	return rc;
}
