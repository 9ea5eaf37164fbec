// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/foreign_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/elf/path_walk.h"
#include "agent/elf/slow_open.h"
#include "base/cleanup.h"

enum { LINK_BYTES = 64 };

int foreign_file_stat(int folder, const char *path, int flags, struct stat *ret_status)
{
	struct statx known;

	if (statx(folder, path, flags | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &known))
		return -errno;
	*ret_status = (struct stat){
		.st_dev = makedev(known.stx_dev_major, known.stx_dev_minor),
		.st_ino = known.stx_ino,
		.st_mode = known.stx_mode,
		.st_size = (off_t)known.stx_size,
		.st_uid = known.stx_uid,
		.st_mtim = { .tv_sec = known.stx_mtime.tv_sec, .tv_nsec = known.stx_mtime.tv_nsec },
		.st_ctim = { .tv_sec = known.stx_ctime.tv_sec, .tv_nsec = known.stx_ctime.tv_nsec },
	};
	return 0;
}

/*
 * Open an O_PATH descriptor for reading. A hostile FUSE server cannot block us: without allow_other its mounts refuse
 * other users.
 */
static int reopen_regular(int path_fd, uint64_t inode)
{
	char self[LINK_BYTES];
	struct stat status;

	int rc = foreign_file_stat(path_fd, "", AT_EMPTY_PATH, &status);
	if (rc)
		return rc;
	if (!S_ISREG(status.st_mode))
		return -ENOEXEC;
	// The device cannot be compared: on overlayfs and btrfs maps shows another one than stat().
	if (inode && status.st_ino != inode)
		return -ESTALE;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", path_fd);
	int fd = open(self, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* In another thread: the file's server must answer, too. */
static int reopen_slowly(struct slow_open *open, int path_fd, const char *path, uint64_t flags,
			 uint64_t inode)
{
	struct stat status;
	char byte;
	int rc = foreign_file_stat(path_fd, "", AT_EMPTY_PATH, &status);

	(void)path;
	(void)flags;
	if (!rc)
		rc = slow_open_enter(open, status.st_dev);
	if (rc)
		return rc;
	_cleanup_close_ int fd = reopen_regular(path_fd, inode);
	if (fd < 0)
		return fd;
	return pread(fd, &byte, 1, 0) < 0 ? -errno : take_fd(fd);
}

/* Network file systems have no block device: major number 0. */
int foreign_file_reopen(int path_fd)
{
	struct stat status;
	int rc = foreign_file_stat(path_fd, "", AT_EMPTY_PATH, &status);

	if (rc)
		return rc;
	return major(status.st_dev) ? reopen_regular(path_fd, 0)
				    : slow_open(reopen_slowly, path_fd, "", 0, 0);
}

static int enter_path(void *context, const char *path)
{
	return slow_open_enter_path(context, path);
}

/* In another thread: each part of the path may ask the server. */
static int open_in_root(struct slow_open *open, int folder, const char *path, uint64_t flags,
			uint64_t inode)
{
	_cleanup_close_ int root = openat(folder, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return -errno;
	_cleanup_close_ int path_fd = path_walk(root, path, flags & O_NOFOLLOW, enter_path, open);
	return path_fd < 0 ? path_fd : reopen_slowly(open, path_fd, path, flags, inode);
}

int foreign_file_open(int folder, const char *path, uint64_t inode)
{
	return slow_open(open_in_root, folder, path, 0, inode);
}

int foreign_file_open_no_link(int folder, const char *path)
{
	return slow_open(open_in_root, folder, path, O_NOFOLLOW, 0);
}
