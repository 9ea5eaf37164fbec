// SPDX-License-Identifier: Apache-2.0
// A double of the disk below a store: these functions take the place of libc's, also for librocksdb.
// Changes of files below disk_double.path are counted, and fail as the test says.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DISK_FDS_MAX = 4096 };

static struct disk_double {
	char path[64]; // "": no file fails
	atomic_long changes;
	atomic_long good_changes; // so many succeed; negative: all
	atomic_int fail_count;    // so many fail then
	atomic_int code;
	atomic_ullong free_bytes, total_bytes; // as statvfs() says
	atomic_bool is_ours[DISK_FDS_MAX];
} disk_double = { .good_changes = -1 };

static void disk_double_fail(long good_changes, int fail_count, int code)
{
	disk_double.changes = 0;
	disk_double.fail_count = fail_count;
	disk_double.code = code;
	disk_double.good_changes = good_changes;
}

static void disk_double_heal(void)
{
	disk_double.good_changes = -1;
}

static bool change_fails(void)
{
	long number = atomic_fetch_add(&disk_double.changes, 1), good = disk_double.good_changes;

	if (good < 0 || number < good || atomic_fetch_sub(&disk_double.fail_count, 1) <= 0)
		return false;
	errno = disk_double.code;
	return true;
}

static bool is_our_path(const char *path)
{
	return disk_double.path[0] && !strncmp(path, disk_double.path, strlen(disk_double.path));
}

static bool fd_fails(int fd)
{
	return fd >= 0 && fd < DISK_FDS_MAX && disk_double.is_ours[fd] && change_fails();
}

static int open_double(int directory, const char *path, int flags, mode_t mode)
{
	// An opened directory is one of ours, too: disk_probe() opens files in it.
	bool is_ours = is_our_path(path) || (directory >= 0 && disk_double.is_ours[directory]);

	if (is_ours && (flags & (O_CREAT | O_WRONLY | O_RDWR)) && change_fails())
		return -1;
	int fd = (int)syscall(SYS_openat, directory, path, flags, mode);
	if (fd >= 0 && fd < DISK_FDS_MAX)
		disk_double.is_ours[fd] = is_ours;
	return fd;
}

int open(const char *path, int flags, ...)
{
	va_list arguments;

	va_start(arguments, flags);
	mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	return open_double(AT_FDCWD, path, flags, mode);
}

int openat(int directory, const char *path, int flags, ...)
{
	va_list arguments;

	va_start(arguments, flags);
	mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	return open_double(directory, path, flags, mode);
}

ssize_t write(int fd, const void *bytes, size_t size)
{
	return fd_fails(fd) ? -1 : syscall(SYS_write, fd, bytes, size);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
	return fd_fails(fd) ? -1 : syscall(SYS_pwrite64, fd, bytes, size, offset);
}

int fsync(int fd)
{
	return fd_fails(fd) ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
	return fd_fails(fd) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int ftruncate(int fd, off_t size)
{
	return fd_fails(fd) ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

int fallocate(int fd, int mode, off_t offset, off_t size)
{
	return fd_fails(fd) ? -1 : (int)syscall(SYS_fallocate, fd, mode, offset, size);
}

int sync_file_range(int fd, off_t offset, off_t size, unsigned int flags)
{
	// Without flags it writes nothing: RocksDB asks whether it is there.
	return flags && fd_fails(fd) ? -1
				     : (int)syscall(SYS_sync_file_range, fd, offset, size, flags);
}

int rename(const char *from, const char *to)
{
	return is_our_path(from) && change_fails() ? -1 : (int)syscall(SYS_rename, from, to);
}

int link(const char *from, const char *to)
{
	return is_our_path(to) && change_fails() ? -1 : (int)syscall(SYS_link, from, to);
}

int unlink(const char *path)
{
	return is_our_path(path) && change_fails() ? -1 : (int)syscall(SYS_unlink, path);
}

int statvfs(const char *restrict path, struct statvfs *restrict ret_disk)
{
	(void)path;
	*ret_disk = (struct statvfs){ .f_bsize = 1,
				      .f_frsize = 1,
				      .f_blocks = disk_double.total_bytes,
				      .f_bavail = disk_double.free_bytes };
	return 0;
}
