// SPDX-License-Identifier: Apache-2.0
// A double of a failing disk, preloaded into the real collector: while the file DISK_DOUBLE_ERROR exists,
// changes of files below DISK_DOUBLE_FOLDER fail with the errno that it holds.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static int error_now(void)
{
	char text[16] = "";
	int fd = (int)syscall(SYS_openat, AT_FDCWD, getenv("DISK_DOUBLE_ERROR"), O_RDONLY);

	if (fd < 0)
		return 0;
	syscall(SYS_read, fd, text, sizeof(text) - 1);
	syscall(SYS_close, fd);
	return atoi(text);
}

static int is_ours(const char *path)
{
	const char *folder = getenv("DISK_DOUBLE_FOLDER");

	return strncmp(path, folder, strlen(folder)) == 0;
}

static int path_fails(const char *path)
{
	errno = is_ours(path) ? error_now() : 0;
	return errno != 0;
}

static int fd_fails(int fd)
{
	char link[64], path[4096] = "";

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return readlink(link, path, sizeof(path) - 1) > 0 && path_fails(path);
}

int open(const char *path, int flags, ...)
{
	va_list arguments;

	va_start(arguments, flags);
	mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	if (flags & (O_CREAT | O_WRONLY | O_RDWR) && path_fails(path))
		return -1;
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int openat(int directory, const char *path, int flags, ...)
{
	va_list arguments;

	va_start(arguments, flags);
	mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	if (flags & (O_CREAT | O_WRONLY | O_RDWR) &&
	    (directory >= 0 ? fd_fails(directory) : path_fails(path)))
		return -1;
	return (int)syscall(SYS_openat, directory, path, flags, mode);
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

int rename(const char *from, const char *to)
{
	return path_fails(from) ? -1 : (int)syscall(SYS_rename, from, to);
}

int unlink(const char *path)
{
	return path_fails(path) ? -1 : (int)syscall(SYS_unlink, path);
}
