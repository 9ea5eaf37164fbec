// SPDX-License-Identifier: Apache-2.0
// Faults on demand, by LD_PRELOAD: a test writes into a shared file which calls fail from now on. A double of
// a disk, a descriptor table and a clock that fail; everything else is the program's own.
//
//	LD_PRELOAD=faults.so FAULTS=FILE FAULTS_BELOW=FOLDER program ...
//
// FILE is struct faults, which faults.py writes.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* An errno each, 0: none. */
struct faults {
	// Of regular files below the folder; change: to make, rename and remove them, and to open them for writing.
	volatile int32_t write, sync, change, read;
	volatile int32_t accept, reserved;
	volatile int64_t clock_ns; // added to the wall clock
};

static const struct faults none;
static const struct faults *faults = &none;
static char folder[4096];

__attribute__((constructor)) static void map_faults(void)
{
	const char *path = getenv("FAULTS"), *below = getenv("FAULTS_BELOW");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (below)
		snprintf(folder, sizeof(folder), "%s", below);
	if (fd < 0)
		return;
	void *mapped = mmap(NULL, sizeof(struct faults), PROT_READ, MAP_SHARED, fd, 0);
	if (mapped != MAP_FAILED)
		faults = mapped;
	close(fd);
}

/* The function that @name hides. */
#define REAL(name)                     \
	static __typeof__(&name) real; \
	if (!real)                     \
	real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static bool is_below(const char *path)
{
	size_t length = strlen(folder);

	return length && strncmp(path, folder, length) == 0;
}

static bool is_ours(int fd)
{
	char name[64], path[4096];
	struct stat status;

	if (fstat(fd, &status) || !S_ISREG(status.st_mode))
		return false;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	ssize_t length = readlink(name, path, sizeof(path) - 1);
	if (length < 0)
		return false;
	path[length] = '\0';
	return is_below(path);
}

/* Does a call on @fd fail? Sets errno. */
static bool fails(int32_t error, int fd)
{
	if (!error || !is_ours(fd))
		return false;
	errno = error;
	return true;
}

ssize_t write(int fd, const void *bytes, size_t size)
{
	REAL(write);
	return fails(faults->write, fd) ? -1 : real(fd, bytes, size);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
	REAL(pwrite);
	return fails(faults->write, fd) ? -1 : real(fd, bytes, size, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t offset)
{
	REAL(pwrite64);
	return fails(faults->write, fd) ? -1 : real(fd, bytes, size, offset);
}

ssize_t writev(int fd, const struct iovec *pieces, int count)
{
	REAL(writev);
	return fails(faults->write, fd) ? -1 : real(fd, pieces, count);
}

int fallocate(int fd, int mode, off_t offset, off_t length)
{
	REAL(fallocate);
	return fails(faults->write, fd) ? -1 : real(fd, mode, offset, length);
}

ssize_t pread(int fd, void *bytes, size_t size, off_t offset)
{
	REAL(pread);
	return fails(faults->read, fd) ? -1 : real(fd, bytes, size, offset);
}

ssize_t pread64(int fd, void *bytes, size_t size, off64_t offset)
{
	REAL(pread64);
	return fails(faults->read, fd) ? -1 : real(fd, bytes, size, offset);
}

int fsync(int fd)
{
	REAL(fsync);
	return fails(faults->sync, fd) ? -1 : real(fd);
}

int fdatasync(int fd)
{
	REAL(fdatasync);
	return fails(faults->sync, fd) ? -1 : real(fd);
}

static bool change_fails(const char *path)
{
	if (!faults->change || !is_below(path))
		return false;
	errno = faults->change;
	return true;
}

static bool open_fails(const char *path, int flags)
{
	return flags & (O_CREAT | O_WRONLY | O_RDWR) && change_fails(path);
}

int rename(const char *from, const char *to)
{
	REAL(rename);
	return change_fails(from) ? -1 : real(from, to);
}

int unlink(const char *path)
{
	REAL(unlink);
	return change_fails(path) ? -1 : real(path);
}

int openat(int directory, const char *path, int flags, ...)
{
	REAL(openat);
	__builtin_va_list arguments;
	char link[64], name[4096] = "";

	__builtin_va_start(arguments, flags);
	mode_t mode = (mode_t) __builtin_va_arg(arguments, int);
	__builtin_va_end(arguments);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", directory);
	if (path[0] != '/' && faults->change && readlink(link, name, sizeof(name) - 1) < 0)
		name[0] = '\0';
	return open_fails(path[0] == '/' ? path : name, flags) ? -1
							       : real(directory, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
	REAL(open);
	__builtin_va_list arguments;

	__builtin_va_start(arguments, flags);
	mode_t mode = (mode_t) __builtin_va_arg(arguments, int);
	__builtin_va_end(arguments);
	return open_fails(path, flags) ? -1 : real(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	REAL(open64);
	__builtin_va_list arguments;

	__builtin_va_start(arguments, flags);
	mode_t mode = (mode_t) __builtin_va_arg(arguments, int);
	__builtin_va_end(arguments);
	return open_fails(path, flags) ? -1 : real(path, flags, mode);
}

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
	REAL(accept4);
	if (faults->accept) {
		errno = faults->accept;
		return -1;
	}
	return real(fd, address, length, flags);
}

int accept(int fd, struct sockaddr *address, socklen_t *length)
{
	REAL(accept);
	if (faults->accept) {
		errno = faults->accept;
		return -1;
	}
	return real(fd, address, length);
}

static int64_t shifted(int64_t ns)
{
	return ns + faults->clock_ns;
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	REAL(clock_gettime);
	int rc = real(clock, ret);

	if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) &&
	    faults->clock_ns) {
		int64_t ns = shifted(ret->tv_sec * 1000000000LL + ret->tv_nsec);

		ret->tv_sec = ns / 1000000000;
		ret->tv_nsec = ns % 1000000000;
	}
	return rc;
}

int gettimeofday(struct timeval *ret, void *zone)
{
	struct timespec now;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	ret->tv_sec = now.tv_sec;
	ret->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *ret)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (ret)
		*ret = now.tv_sec;
	return now.tv_sec;
}
