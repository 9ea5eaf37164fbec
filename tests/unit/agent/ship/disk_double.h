// SPDX-License-Identifier: Apache-2.0
// A disk that fails on request: the calls of the folder that a test names, from one of them on. A double of libc's functions,
// which the test's program has in their place.
#pragma once

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

/* Of one test. Zeroed: a good disk. */
struct disk_double {
	const char *folder; // nothing else fails
	int error;          // of the calls that fail; 0: none
	unsigned int good;  // calls that do not fail yet
	unsigned int calls; // so far
	size_t short_write; // at most so many bytes of a write; 0: all
	bool has_size;      // it says that it has `size` and `free_bytes`
	uint64_t size, free_bytes;
};
static struct disk_double disk;
static pthread_mutex_t disk_mutex = PTHREAD_MUTEX_INITIALIZER;

static inline void disk_set(struct disk_double now)
{
	pthread_mutex_lock(&disk_mutex);
	disk = now;
	pthread_mutex_unlock(&disk_mutex);
}

static inline struct disk_double disk_get(void)
{
	pthread_mutex_lock(&disk_mutex);
	struct disk_double now = disk;
	pthread_mutex_unlock(&disk_mutex);
	return now;
}

static bool disk_has(int fd)
{
	char name[64], path[4096];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	ssize_t length = readlink(name, path, sizeof(path) - 1);
	path[length < 0 ? 0 : length] = '\0';
	return disk.folder && strncmp(path, disk.folder, strlen(disk.folder)) == 0;
}

/* Does this call fail? Sets errno. */
static bool disk_fails(int fd)
{
	int before = errno;

	pthread_mutex_lock(&disk_mutex);
	bool fails = disk.folder && disk_has(fd) && ++disk.calls > disk.good && disk.error;
	pthread_mutex_unlock(&disk_mutex);
	errno = fails ? disk.error : before;
	return fails;
}

#define DISK_REAL(name)                \
	static __typeof__(&name) real; \
	if (!real)                     \
	real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int openat(int directory, const char *path, int flags, ...)
{
	DISK_REAL(openat);
	va_list arguments;

	va_start(arguments, flags);
	mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	return directory >= 0 && disk_fails(directory) ? -1 : real(directory, path, flags, mode);
}

ssize_t writev(int fd, const struct iovec *pieces, int count)
{
	DISK_REAL(writev);
	struct iovec first = pieces[0];
	size_t short_write = disk_get().short_write;

	if (disk_fails(fd))
		return -1;
	if (!short_write)
		return real(fd, pieces, count);
	first.iov_len = first.iov_len < short_write ? first.iov_len : short_write;
	return real(fd, &first, 1);
}

ssize_t pread(int fd, void *bytes, size_t size, off_t offset)
{
	DISK_REAL(pread);
	return disk_fails(fd) ? -1 : real(fd, bytes, size, offset);
}

int renameat(int from_directory, const char *from, int to_directory, const char *to)
{
	DISK_REAL(renameat);
	return disk_fails(from_directory) ? -1 : real(from_directory, from, to_directory, to);
}

int unlinkat(int directory, const char *path, int flags)
{
	DISK_REAL(unlinkat);
	return directory >= 0 && disk_fails(directory) ? -1 : real(directory, path, flags);
}

int fstatvfs(int fd, struct statvfs *ret)
{
	DISK_REAL(fstatvfs);
	if (disk_fails(fd))
		return -1;
	int rc = real(fd, ret);
	struct disk_double now = disk_get();
	if (now.has_size) {
		ret->f_frsize = 1;
		ret->f_blocks = now.size;
		ret->f_bavail = now.free_bytes;
	}
	return rc;
}

/* ---- a folder of a test ---------------------------------------------------------------------- */

static char disk_folder[64]; // for --spool-dir
static char disk_own[96];    // where the batches are

/* A new, empty folder. */
static inline const char *disk_folder_make(void)
{
	snprintf(disk_folder, sizeof(disk_folder), "/tmp/cairn-spool-XXXXXX");
	if (!mkdtemp(disk_folder))
		abort();
	snprintf(disk_own, sizeof(disk_own), "%s/cairn-spool", disk_folder);
	return disk_folder;
}

static inline void disk_folder_remove(void)
{
	char command[128];

	disk_set((struct disk_double){ 0 });
	snprintf(command, sizeof(command), "rm -rf %s", disk_folder);
	if (system(command))
		abort();
}
