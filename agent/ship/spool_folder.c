// SPDX-License-Identifier: Apache-2.0
#include "agent/ship/spool_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/ship/sending_note.h"
#include "agent/ship/spool_file.h"
#include "base/array.h"
#include "base/cache_folder.h"
#include "base/cleanup.h"

#define FOLDER_NAME     "cairn-spool"
#define LOCK_NAME       "lock"
#define UNFINISHED_NAME "unfinished"
#define SUFFIX          ".batch"

enum {
	NUMBER_DIGITS = 16, // hexadecimal, so that names sort as numbers do
	NAME_BYTES = 32,
};

#define NUMBER_MAX (UINT64_MAX >> 1) // so that there is always a next one

struct spool_folder {
	int fd;
	int lock_fd;
	struct sending_note sending;
};

// ---- names ----------------------------------------------------------------------------------

static void name_of(uint64_t number, char ret_name[NAME_BYTES])
{
	snprintf(ret_name, NAME_BYTES, "%0*llx" SUFFIX, NUMBER_DIGITS, (unsigned long long)number);
}

/* Of exactly the names that name_of() makes. */
static bool number_of(const char *name, uint64_t *ret_number)
{
	uint64_t number = strtoull(name, NULL, 16);
	char same[NAME_BYTES];

	name_of(number, same);
	if (!number || number > NUMBER_MAX || strcmp(name, same) != 0)
		return false;
	*ret_number = number;
	return true;
}

// ---- opening --------------------------------------------------------------------------------

static int lock(struct spool_folder *folder, struct error *err)
{
	struct stat status;

	folder->lock_fd = openat(folder->fd, LOCK_NAME,
				 O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (folder->lock_fd < 0 || fstat(folder->lock_fd, &status))
		return error_errno(err, -errno, "open " LOCK_NAME);
	if (!cache_file_is_ours(&status))
		return error_set(err, -EPERM, LOCK_NAME " is not this user's own file");
	if (flock(folder->lock_fd, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK
			       ? error_set(err, -EBUSY,
					   "another agent has it; each needs a folder of its own")
			       : error_errno(err, -errno, "lock");
	return 0;
}

int spool_folder_open(const char *path, struct spool_folder **ret_folder, struct error *err)
{
	struct spool_folder *folder = calloc(1, sizeof(*folder));
	char own[PATH_MAX];

	if (!folder)
		return error_set(err, -ENOMEM, "out of memory");
	*folder = (struct spool_folder){ .fd = -1, .lock_fd = -1, .sending.fd = -1 };
	if (snprintf(own, sizeof(own), "%s/" FOLDER_NAME, path) >= (int)sizeof(own)) {
		spool_folder_close(folder);
		return error_set(err, -ENAMETOOLONG, "path too long");
	}
	folder->fd = cache_folder_open(own, "spool", err);
	int rc = folder->fd < 0 ? folder->fd : lock(folder, err);
	if (rc) {
		spool_folder_close(folder);
		return rc;
	}
	unlinkat(folder->fd, UNFINISHED_NAME, 0); // of an agent that ended while it wrote
	sending_note_open(folder->fd, &folder->sending);
	*ret_folder = folder;
	return 0;
}

void spool_folder_close(struct spool_folder *folder)
{
	if (!folder)
		return;
	sending_note_close(&folder->sending);
	cleanup_closep(&folder->lock_fd);
	cleanup_closep(&folder->fd);
	free(folder);
}

// ---- listing --------------------------------------------------------------------------------

static bool is_folders_own(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..") || !strcmp(name, LOCK_NAME) ||
	       !strcmp(name, SENDING_NOTE_NAME);
}

static int add_entry(struct spool_folder *folder, const char *name,
		     struct spool_folder_files *files)
{
	struct stat status;
	uint64_t number = 0;

	if (is_folders_own(name))
		return 0;
	bool is_named = number_of(name, &number);
	files->last = number > files->last ? number : files->last;
	if (!is_named || fstatat(folder->fd, name, &status, AT_SYMLINK_NOFOLLOW) ||
	    !cache_file_is_ours(&status)) {
		files->foreign++;
		return files->foreign > SPOOL_FOLDER_ENTRIES_MAX ? -E2BIG : 0;
	}
	int rc = array_reserve(&files->list, sizeof(*files->list), &files->capacity, files->count,
			       1, SPOOL_FOLDER_ENTRIES_MAX);
	if (rc)
		return rc;
	files->list[files->count++] =
		(struct spool_folder_file){ number, (uint64_t)status.st_size };
	return 0;
}

static int by_number(const void *a, const void *b)
{
	const struct spool_folder_file *left = a, *right = b;

	return left->number < right->number ? -1 : left->number > right->number;
}

static int list_entries(struct spool_folder *folder, DIR *directory,
			struct spool_folder_files *files)
{
	const struct dirent *entry;
	int rc = 0;

	while (!rc) {
		errno = 0;
		entry = readdir(directory);
		if (!entry)
			return -errno;
		rc = add_entry(folder, entry->d_name, files);
	}
	return rc;
}

int spool_folder_list(struct spool_folder *folder, struct spool_folder_files *ret_files,
		      struct error *err)
{
	struct spool_folder_files files = { 0 };
	_cleanup_close_ int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);

	if (!directory)
		return error_errno(err, -errno, "list");
	fd = -1; // the directory's
	int rc = list_entries(folder, directory, &files);
	closedir(directory);
	if (rc) {
		spool_folder_files_deinit(&files);
		return rc == -E2BIG
			       ? error_set(err, rc, "more than %d entries: not a folder of batches",
					   SPOOL_FOLDER_ENTRIES_MAX)
			       : error_errno(err, rc, "list");
	}
	if (files.count)
		qsort(files.list, files.count, sizeof(*files.list), by_number);
	*ret_files = files;
	return 0;
}

void spool_folder_files_deinit(struct spool_folder_files *files)
{
	free(files->list);
	*files = (struct spool_folder_files){ 0 };
}

// ---- writing --------------------------------------------------------------------------------

uint64_t spool_folder_file_size(const struct packed *packed)
{
	return SPOOL_FILE_HEADER_BYTES + packed->size;
}

static uint64_t free_bytes_of(const struct statvfs *disk)
{
	return (uint64_t)disk->f_bavail * disk->f_frsize;
}

uint64_t spool_folder_kept_free(const struct statvfs *disk)
{
	uint64_t tenth = (uint64_t)disk->f_blocks * disk->f_frsize / 10;

	return tenth < SPOOL_FOLDER_FREE_BYTES ? tenth : SPOOL_FOLDER_FREE_BYTES;
}

uint64_t spool_folder_room(const struct statvfs *disk)
{
	uint64_t kept = spool_folder_kept_free(disk), free_bytes = free_bytes_of(disk);

	return free_bytes > kept ? free_bytes - kept : 0;
}

static int check_room(struct spool_folder *folder, uint64_t size, struct error *err)
{
	struct statvfs disk;

	if (fstatvfs(folder->fd, &disk))
		return error_errno(err, -errno, "free space");
	if (spool_folder_room(&disk) < size)
		return error_set(err, -ENOSPC, "its disk has %llu MiB free, %llu MiB are kept free",
				 (unsigned long long)(free_bytes_of(&disk) >> 20),
				 (unsigned long long)(spool_folder_kept_free(&disk) >> 20));
	return 0;
}

static int write_all(int fd, struct iovec *pieces, int count)
{
	while (count) {
		ssize_t written = writev(fd, pieces, count);

		if (written < 0)
			return -errno;
		for (; count && (size_t)written >= pieces->iov_len; pieces++, count--)
			written -= (ssize_t)pieces->iov_len;
		if (!count)
			break;
		pieces->iov_base = (uint8_t *)pieces->iov_base + written;
		pieces->iov_len -= (size_t)written;
	}
	return 0;
}

static int write_unfinished(struct spool_folder *folder, const struct packed *packed,
			    uint64_t sample_count)
{
	uint8_t header[SPOOL_FILE_HEADER_BYTES];
	struct iovec pieces[] = { { header, sizeof(header) }, { packed->bytes, packed->size } };
	int fd = openat(folder->fd, UNFINISHED_NAME,
			O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	spool_file_encode_header(packed, sample_count, header);
	int rc = write_all(fd, pieces, ARRAY_SIZE(pieces));
	// A file server may say only now that it has no room.
	if (close(fd) && !rc)
		rc = -errno;
	return rc;
}

int spool_folder_write(struct spool_folder *folder, uint64_t number, const struct packed *packed,
		       uint64_t sample_count, struct error *err)
{
	char name[NAME_BYTES];
	int rc = check_room(folder, spool_folder_file_size(packed), err);

	if (rc)
		return rc;
	if (number > NUMBER_MAX)
		return error_set(err, -EOVERFLOW, "a file's number is the last one; empty it");
	name_of(number, name);
	rc = write_unfinished(folder, packed, sample_count);
	if (!rc && renameat(folder->fd, UNFINISHED_NAME, folder->fd, name))
		rc = -errno;
	if (!rc)
		return 0;
	unlinkat(folder->fd, UNFINISHED_NAME, 0);
	return error_errno(err, rc, "write a batch");
}

// ---- reading --------------------------------------------------------------------------------

static int open_file(struct spool_folder *folder, uint64_t number, struct stat *ret_status,
		     struct error *err)
{
	char name[NAME_BYTES];

	name_of(number, name);
	_cleanup_close_ int fd =
		openat(folder->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, ret_status))
		return error_errno(err, -errno, "%s", name);
	if (!cache_file_is_ours(ret_status))
		return error_set(err, -EPERM, "%s: not this user's own file", name);
	return take_fd(fd);
}

static ssize_t read_all(int fd, uint8_t *bytes, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t count = pread(fd, bytes + done, size - done, (off_t)done);

		if (count < 0)
			return -errno;
		if (count == 0)
			break;
		done += (size_t)count;
	}
	return (ssize_t)done;
}

int spool_folder_read(struct spool_folder *folder, uint64_t number, struct batch *batch,
		      struct error *err)
{
	struct stat status;
	_cleanup_close_ int fd = open_file(folder, number, &status, err);
	struct error cause = { 0 };

	if (fd < 0)
		return fd;
	if (status.st_size > SPOOL_FILE_BYTES_MAX)
		return error_set(err, -EBADMSG, "%llx: larger than a batch can be",
				 (unsigned long long)number);
	_cleanup_free_ uint8_t *bytes = malloc((size_t)status.st_size + 1);
	if (!bytes)
		return error_set(err, -ENOMEM, "out of memory for a batch");
	ssize_t size = read_all(fd, bytes, (size_t)status.st_size);
	if (size < 0)
		return error_errno(err, (int)size, "%llx: read", (unsigned long long)number);
	int rc = spool_file_decode(bytes, (size_t)size, batch, &cause);
	return rc ? error_set(err, rc, "%llx: %s", (unsigned long long)number, cause.text) : 0;
}

uint64_t spool_folder_count_samples(struct spool_folder *folder, uint64_t number)
{
	struct stat status;
	uint8_t bytes[SPOOL_FILE_HEADER_BYTES];
	struct spool_file_header header;
	_cleanup_close_ int fd = open_file(folder, number, &status, NULL);
	ssize_t size = fd < 0 ? -1 : read_all(fd, bytes, sizeof(bytes));

	if (size < 0 ||
	    spool_file_decode_header(bytes, (size_t)size, (uint64_t)status.st_size, &header, NULL))
		return 0;
	return header.sample_count;
}

int spool_folder_begin_sending(struct spool_folder *folder, uint64_t number, struct error *err)
{
	if (sending_note_is_suspect(&folder->sending, number))
		return error_set(err, -EBADMSG,
				 "%llx: %d starts of the agent ended while they sent it",
				 (unsigned long long)number, SENDING_STARTS_MAX);
	sending_note_write(&folder->sending, number);
	return 0;
}

void spool_folder_end_sending(struct spool_folder *folder)
{
	sending_note_write(&folder->sending, 0);
}

void spool_folder_remove(struct spool_folder *folder, uint64_t number)
{
	char name[NAME_BYTES];

	name_of(number, name);
	unlinkat(folder->fd, name, 0);
}
