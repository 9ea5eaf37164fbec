// SPDX-License-Identifier: Apache-2.0
// For tests: child processes that map a driver's file, and copies of the double that they map.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/load_double.h"
#include "tests/test.h"

/* A temporary folder, until folder_remove(). */
static char folder[64];

static inline int folder_make(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/cairn-drivers-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static inline int folder_remove(void **state)
{
	char command[96];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static inline const char *in_folder(const char *name, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%s", folder, name);
	return path;
}

static inline char *read_double(const char *name, size_t *ret_size)
{
	char path[PATH_MAX];
	struct stat status;
	int fd = open(double_path(name, path), O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(0, fstat(fd, &status));
	char *bytes = malloc((size_t)status.st_size);
	assert_non_null(bytes);
	assert_int_equal(status.st_size, read(fd, bytes, (size_t)status.st_size));
	close(fd);
	*ret_size = (size_t)status.st_size;
	return bytes;
}

static inline void write_file(const char *path, const void *bytes, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

	assert_true(fd >= 0);
	assert_int_equal(size, write(fd, bytes, size));
	close(fd);
}

/* A copy of the double @from at @path. */
static inline void copy_double(const char *from, const char *path)
{
	size_t size;
	char *bytes = read_double(from, &size);

	write_file(path, bytes, size);
	free(bytes);
}

/* A child that runs @work, then waits until it is ended. In its own mount namespace if @unshares. */
static inline pid_t start_child(int (*work)(const void *context), const void *context,
				bool unshares)
{
	int ready[2];
	char byte = 0;

	assert_int_equal(0, pipe2(ready, O_CLOEXEC));
	pid_t child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if ((unshares &&
		     (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))) ||
		    work(context) || write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_true(child > 0);
	ssize_t got = read(ready[0], &byte, 1);
	close(ready[0]);
	if (got == 1)
		return child;
	waitpid(child, NULL, 0);
	return -1;
}

static inline void end_child(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* Map the file's first pages as code. */
static inline int map_path(const void *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 || mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED;
}
