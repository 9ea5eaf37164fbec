// SPDX-License-Identifier: Apache-2.0
#include "mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "slow_open.h"

enum { LINK_BYTES = 64 };

static void map_files_name(const struct mapping *mapping, char ret_name[LINK_BYTES])
{
	snprintf(ret_name, LINK_BYTES, "map_files/%" PRIx64 "-%" PRIx64, mapping->start,
		 mapping->limit);
}

/* What the kernel knows without asking a server, which may not answer any more. */
static int stat_known(int folder, const char *path, int flags, struct stat *ret_status)
{
	struct statx known;

	if (statx(folder, path, flags | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &known))
		return -errno;
	*ret_status = (struct stat){
		.st_dev = makedev(known.stx_dev_major, known.stx_dev_minor),
		.st_ino = known.stx_ino,
		.st_mode = known.stx_mode,
		.st_size = (off_t)known.stx_size,
		.st_mtim = { .tv_sec = known.stx_mtime.tv_sec, .tv_nsec = known.stx_mtime.tv_nsec },
	};
	return 0;
}

int mapped_file_stat(int folder, const struct mapping *mapping, struct stat *ret_status)
{
	char name[LINK_BYTES];

	map_files_name(mapping, name);
	return stat_known(folder, name, 0, ret_status);
}

/*
 * Turn a descriptor that only names a file (O_PATH) into one to read it by. A hostile FUSE file
 * cannot keep us waiting: without allow_other those mounts refuse all users but their own.
 */
static int reopen_regular(int path_fd, uint64_t inode)
{
	char self[LINK_BYTES];
	struct stat status;

	int rc = stat_known(path_fd, "", AT_EMPTY_PATH, &status);
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

/* In another thread: see to it that the file's server answers, too. */
static int reopen_slowly(int path_fd, const char *path, uint64_t flags, uint64_t inode)
{
	_cleanup_close_ int fd = reopen_regular(path_fd, inode);
	char byte;

	(void)path;
	(void)flags;
	if (fd < 0)
		return fd;
	return pread(fd, &byte, 1, 0) < 0 ? -errno : take_fd(fd);
}

/* Network file systems, like all that have no block device of their own, have major number 0. */
static int reopen(int path_fd)
{
	struct stat status;
	int rc = stat_known(path_fd, "", AT_EMPTY_PATH, &status);

	if (rc)
		return rc;
	return major(status.st_dev) ? reopen_regular(path_fd, 0)
				    : slow_open(reopen_slowly, path_fd, "", 0, 0);
}

/* In another thread: each part of the path may have to be asked for. */
static int open_in_root(int folder, const char *path, uint64_t flags, uint64_t inode)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | flags,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	_cleanup_close_ int root = openat(folder, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return -errno;
	_cleanup_close_ int path_fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	return path_fd < 0 ? -errno : reopen_slowly(path_fd, path, flags, inode);
}

int mapped_file_open_in_root(int folder, const char *path, uint64_t inode)
{
	return slow_open(open_in_root, folder, path, 0, inode);
}

int mapped_file_open_no_link(int folder, const char *path)
{
	return slow_open(open_in_root, folder, path, O_NOFOLLOW, 0);
}

/* The page or two of code that the kernel gives every process; complete with ELF header and symbols. */
static int open_vdso(void)
{
	const uint8_t *vdso = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
	_cleanup_close_ int self = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	struct mapping_list *list;

	if (!vdso)
		return -ENOENT;
	if (self < 0)
		return -errno;
	int rc = mapping_list_read(self, &list);
	if (rc)
		return rc;
	const struct mapping *mapping = mapping_list_find(list, (uintptr_t)vdso);
	size_t size = mapping ? mapping->limit - mapping->start : 0;
	mapping_list_release(list);
	if (!size)
		return -ENOENT;

	_cleanup_close_ int fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t written = write(fd, vdso, size);
	if (written != (ssize_t)size)
		return written < 0 ? -errno : -EIO;
	return take_fd(fd);
}

int mapped_file_open(int folder, const struct mapping_list *list, const struct mapping *mapping)
{
	const char *path = mapping_path(list, mapping);
	char name[LINK_BYTES];

	if (strcmp(path, "[vdso]") == 0)
		return open_vdso();
	map_files_name(mapping, name);
	_cleanup_close_ int path_fd = openat(folder, name, O_PATH | O_CLOEXEC);
	if (path_fd >= 0)
		return reopen(path_fd);
	if (path[0] != '/')
		return -errno;
	return mapped_file_open_in_root(folder, path, mapping->inode);
}
