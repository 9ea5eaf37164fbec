// SPDX-License-Identifier: Apache-2.0
#include "cli/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

bool output_is_standard(const char *path)
{
	return path && strcmp(path, OUTPUT_STANDARD) == 0;
}

static int check_target(const char *path, struct error *err)
{
	struct stat status;

	if (stat(path, &status))
		return 0; // not there yet
	if (S_ISREG(status.st_mode))
		return 0;
	return error_set(err, S_ISDIR(status.st_mode) ? -EISDIR : -EINVAL,
			 "%s is there and is not a regular file; choose another name", path);
}

int output_file_check_name(const char *path, struct error *err)
{
	static const char *const standard[] = { "-", "/dev/stdout", "/dev/fd/1",
						"/proc/self/fd/1" };

	for (size_t i = 0; i < ARRAY_SIZE(standard); i++)
		if (strcmp(path, standard[i]) == 0)
			return error_set(err, -EINVAL,
					 "-o %s: standard output is not supported; name a file, "
					 "which is written when it is complete",
					 path);
	return 0;
}

int output_file_open(const char *path, struct output_file *ret_file, struct error *err)
{
	_cleanup_free_ char *name = NULL;
	_cleanup_free_ char *partial = NULL;
	int rc = output_is_standard(path) ? 0 : check_target(path, err);

	if (rc)
		return rc;
	if (output_is_standard(path)) {
		ret_file->is_standard = true;
		return 0;
	}
	name = strdup(path);
	if (!name || asprintf(&partial, "%s.partial", path) < 0)
		return error_set(err, -ENOMEM, "%s: out of memory", path);

	// Often run as root, and in /tmp: never write through a link that somebody else left there.
	if (unlink(partial) && errno != ENOENT)
		return error_errno(err, -errno, "cannot write %s", partial);
	int fd = open(partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return error_errno(err, -errno, "cannot write %s", partial);

	ret_file->path = take(name);
	ret_file->partial_path = take(partial);
	ret_file->fd = fd;
	return 0;
}

bool output_file_replaces(const struct output_file *file)
{
	return !file->is_standard && access(file->path, F_OK) == 0;
}

static int write_all(int fd, const struct buffer *content)
{
	size_t written = 0;

	while (written < content->size) {
		ssize_t size = write(fd, content->bytes + written, content->size - written);

		if (size < 0 && errno == EINTR)
			continue;
		if (size < 0)
			return -errno;
		written += (size_t)size;
	}
	return 0;
}

static void release(struct output_file *file)
{
	free(file->path);
	free(file->partial_path);
	*file = (struct output_file){ 0 };
}

int output_file_finish(struct output_file *file, const struct buffer *content, struct error *err)
{
	int rc;

	if (file->is_standard) {
		rc = write_all(STDOUT_FILENO, content);
		return rc ? error_errno(err, rc, "cannot write to standard output") : 0;
	}
	rc = write_all(file->fd, content);
	if (!rc && fsync(file->fd))
		rc = -errno;
	// Network file systems report a full disk at the end.
	if (close(file->fd) && !rc)
		rc = -errno;
	if (!rc && rename(file->partial_path, file->path))
		rc = -errno;
	if (rc) {
		unlink(file->partial_path);
		error_errno(err, rc, "cannot write %s", file->path);
	}
	release(file);
	return rc;
}

void output_file_discard(struct output_file *file)
{
	if (!file->partial_path)
		return;
	close(file->fd);
	unlink(file->partial_path);
	release(file);
}
