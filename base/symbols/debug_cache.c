// SPDX-License-Identifier: Apache-2.0
#include "base/symbols/debug_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

#define KEPT_SUFFIX  ".debug"
#define BEGUN_SUFFIX ".part"

enum { NAME_BYTES = DEBUG_CACHE_NAME_BYTES, PATH_BYTES = 4096 };

static int make_name(const char *build_id, const char *suffix, char ret_name[NAME_BYTES])
{
	size_t size = strlen(build_id);

	if (!size || size > 2 * DEBUG_CACHE_ID_BYTES_MAX ||
	    strspn(build_id, "0123456789abcdef") != size)
		return -EINVAL;
	snprintf(ret_name, NAME_BYTES, "%s%s", build_id, suffix);
	return 0;
}

static bool ends_in(const char *name, const char *suffix)
{
	size_t size = strlen(name), end = strlen(suffix);

	return size > end && strcmp(name + size - end, suffix) == 0;
}

/* ---- the folder ---------------------------------------------------------------------------- */

/* One file of the cache, when room is to be made. */
struct kept_file {
	char name[NAME_BYTES];
	uint64_t size;
	uint64_t bytes; // on disk
	struct timespec used;
};

struct kept_files {
	struct kept_file *files;
	uint32_t count;
	uint64_t bytes;
};

static bool is_older(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

static int compare_use(const void *left, const void *right)
{
	const struct kept_file *a = left, *b = right;

	return is_older(&b->used, &a->used) - is_older(&a->used, &b->used);
}

static DIR *open_listing(const struct debug_cache *cache)
{
	int fd = openat(cache->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *listing = fd < 0 ? NULL : fdopendir(fd);

	if (!listing && fd >= 0)
		close(fd);
	return listing;
}

static void closedirp(DIR **listing)
{
	if (*listing)
		closedir(*listing);
}

static int list_kept(const struct debug_cache *cache, struct kept_files *ret_files)
{
	_cleanup_(closedirp) DIR *listing = open_listing(cache);
	const struct dirent *item;
	struct stat status;

	if (!listing)
		return -errno;
	ret_files->files = calloc(DEBUG_CACHE_FILES_MAX, sizeof(*ret_files->files));
	if (!ret_files->files)
		return -ENOMEM;
	while (ret_files->count < DEBUG_CACHE_FILES_MAX && (item = readdir(listing))) {
		struct kept_file *file = &ret_files->files[ret_files->count];

		if (!ends_in(item->d_name, KEPT_SUFFIX) || strlen(item->d_name) >= NAME_BYTES ||
		    fstatat(cache->folder, item->d_name, &status, AT_SYMLINK_NOFOLLOW))
			continue;
		memcpy(file->name, item->d_name, strlen(item->d_name) + 1);
		file->size = (uint64_t)status.st_size;
		// What it takes on disk: an empty file takes a place in the folder at least.
		file->bytes = (uint64_t)status.st_blocks * 512 + 512;
		file->used = status.st_mtim;
		ret_files->bytes += file->bytes;
		ret_files->count++;
	}
	return 0;
}

static int make_room(const struct debug_cache *cache, uint64_t bytes)
{
	struct kept_files kept = { 0 };

	if (bytes > cache->bytes_max)
		return -EFBIG;
	int rc = list_kept(cache, &kept);
	if (!rc && kept.count)
		qsort(kept.files, kept.count, sizeof(*kept.files), compare_use);
	for (uint32_t i = 0; !rc && i < kept.count && kept.bytes + bytes > cache->bytes_max; i++)
		if (unlinkat(cache->folder, kept.files[i].name, 0) == 0)
			kept.bytes -= kept.files[i].bytes;
	free(kept.files);
	return rc;
}

static void remove_begun(const struct debug_cache *cache)
{
	_cleanup_(closedirp) DIR *listing = open_listing(cache);
	const struct dirent *item;

	while (listing && (item = readdir(listing)))
		if (ends_in(item->d_name, BEGUN_SUFFIX))
			unlinkat(cache->folder, item->d_name, 0);
}

/* As mkdir -p; a folder above that is there already is as it is. */
static int make_folders(const char *folder)
{
	char path[PATH_BYTES];
	size_t size = strlen(folder);

	if (!size || size >= sizeof(path))
		return -ENAMETOOLONG;
	memcpy(path, folder, size + 1);
	for (char *slash = path + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = '\0';
		if (mkdir(path, 0755) && errno != EEXIST)
			return -errno;
	}
	return mkdir(path, 0700) && errno != EEXIST ? -errno : 0;
}

int debug_cache_open(struct debug_cache *cache, const char *folder, uint64_t bytes_max,
		     struct error *err)
{
	int rc = make_folders(folder);

	if (rc)
		return error_errno(err, rc, "debug files: make %s", folder);
	cache->bytes_max = bytes_max;
	cache->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (cache->folder < 0)
		return error_errno(err, -errno, "debug files: open %s", folder);
	remove_begun(cache);
	return 0;
}

void debug_cache_close(struct debug_cache *cache)
{
	cleanup_closep(&cache->folder);
	cache->folder = -1;
}

/* ---- files --------------------------------------------------------------------------------- */

int debug_cache_look(const struct debug_cache *cache, const char *build_id)
{
	char name[NAME_BYTES];
	int rc = make_name(build_id, KEPT_SUFFIX, name);

	if (rc)
		return rc;
	int fd = openat(cache->folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int debug_cache_find(const struct debug_cache *cache, const char *build_id)
{
	char name[NAME_BYTES];
	struct stat status;
	int rc = make_name(build_id, KEPT_SUFFIX, name);

	if (rc)
		return rc;
	_cleanup_close_ int fd =
		openat(cache->folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status))
		return -errno;
	if (status.st_size) {
		futimens(fd, NULL); // used now
		return take_fd(fd);
	}
	if (time(NULL) - status.st_mtim.tv_sec < DEBUG_CACHE_REFUSAL_S)
		return -ENODATA;
	unlinkat(cache->folder, name, 0);
	return -ENOENT;
}

int debug_cache_begin(const struct debug_cache *cache, struct debug_cache_file *ret_file)
{
	static atomic_uint begun; // with the process's id no other file's name

	ret_file->fd = -1;
	snprintf(ret_file->name, sizeof(ret_file->name), "%d-%u%s", getpid(),
		 atomic_fetch_add(&begun, 1), BEGUN_SUFFIX);
	int fd = openat(cache->folder, ret_file->name,
			O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	ret_file->fd = fd;
	return 0;
}

int debug_cache_keep(const struct debug_cache *cache, struct debug_cache_file *file,
		     const char *build_id)
{
	char kept[NAME_BYTES];
	struct stat status;
	int rc = make_name(build_id, KEPT_SUFFIX, kept);

	if (!rc && fstat(file->fd, &status))
		rc = -errno;
	if (!rc)
		rc = make_room(cache, (uint64_t)status.st_blocks * 512 + 512);
	if (!rc && renameat(cache->folder, file->name, cache->folder, kept))
		rc = -errno;
	if (rc) {
		debug_cache_drop(cache, file);
		return rc;
	}
	close(file->fd);
	file->fd = -1;
	return 0;
}

void debug_cache_drop(const struct debug_cache *cache, struct debug_cache_file *file)
{
	if (file->fd < 0)
		return;
	unlinkat(cache->folder, file->name, 0);
	close(file->fd);
	file->fd = -1;
}

int debug_cache_remove(const struct debug_cache *cache, const char *build_id)
{
	char kept[NAME_BYTES];
	int rc = make_name(build_id, KEPT_SUFFIX, kept);

	return rc ? rc : unlinkat(cache->folder, kept, 0) ? -errno : 0;
}

int debug_cache_refuse(const struct debug_cache *cache, const char *build_id)
{
	struct debug_cache_file file;
	int rc = debug_cache_begin(cache, &file);

	return rc ? rc : debug_cache_keep(cache, &file, build_id);
}

int debug_cache_list(const struct debug_cache *cache, debug_cache_file_fn fn, void *context)
{
	struct kept_files kept = { 0 };
	int rc = list_kept(cache, &kept);

	for (uint32_t i = 0; !rc && i < kept.count; i++) {
		struct kept_file *file = &kept.files[i];

		if (!file->size)
			continue;
		file->name[strlen(file->name) - strlen(KEPT_SUFFIX)] = '\0';
		rc = fn(context, file->name, file->size, (uint64_t)file->used.tv_sec);
	}
	free(kept.files);
	return rc;
}
