// SPDX-License-Identifier: Apache-2.0
#include "collector/store/disk_room.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"

#define PROBE_NAME "PROBE"

enum { PROBE_BYTES = 64 << 10 };

int disk_room_read(const char *path, uint64_t keep_bytes, struct disk_room *ret_room,
		   struct error *err)
{
	struct statvfs disk;

	if (statvfs(path, &disk) < 0)
		return error_errno(err, -errno, "store %s: read the free space", path);
	uint64_t block = disk.f_frsize ? disk.f_frsize : disk.f_bsize;
	struct disk_room room = { .total_bytes = disk.f_blocks * block,
				  .free_bytes = disk.f_bavail * block };
	room.keep_bytes = room.total_bytes / DISK_KEEP_SHARE;
	if (keep_bytes < room.keep_bytes)
		room.keep_bytes = keep_bytes;
	room.refuse_bytes = room.keep_bytes / DISK_REFUSE_SHARE;
	*ret_room = room;
	return 0;
}

static int open_directory(const char *path)
{
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

void disk_ballast_make(const char *path, const struct disk_room *room)
{
	uint64_t bytes = room->keep_bytes / DISK_BALLAST_SHARE;
	_cleanup_close_ int directory = open_directory(path);

	if (directory < 0 || !bytes || room->free_bytes < room->keep_bytes + 2 * bytes ||
	    faccessat(directory, DISK_BALLAST_NAME, F_OK, 0) == 0)
		return;
	_cleanup_close_ int fd =
		openat(directory, DISK_BALLAST_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0 && posix_fallocate(fd, 0, (off_t)bytes))
		unlinkat(directory, DISK_BALLAST_NAME, 0);
}

uint64_t disk_ballast_delete(const char *path)
{
	_cleanup_close_ int directory = open_directory(path);
	struct stat status;

	if (directory < 0 || fstatat(directory, DISK_BALLAST_NAME, &status, 0) < 0 ||
	    unlinkat(directory, DISK_BALLAST_NAME, 0) < 0)
		return 0;
	return (uint64_t)status.st_size;
}

int disk_probe(const char *path, struct error *err)
{
	static const char zeros[PROBE_BYTES];
	_cleanup_close_ int directory = open_directory(path);
	if (directory < 0)
		return error_errno(err, -errno, "store %s: open the folder", path);

	_cleanup_close_ int fd =
		openat(directory, PROBE_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_errno(err, -errno, "store %s: create a file", path);
	ssize_t written = write(fd, zeros, sizeof(zeros));
	int rc = written < 0 || fsync(fd) < 0        ? -errno
		 : written != (ssize_t)sizeof(zeros) ? -ENOSPC
						     : 0;
	unlinkat(directory, PROBE_NAME, 0);
	return rc ? error_errno(err, rc, "store %s: write a file", path) : 0;
}
