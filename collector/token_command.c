// SPDX-License-Identifier: Apache-2.0
#include "collector/token_command.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collector/access/access_file.h"

static int print_token(const char *token, FILE *stream, struct error *err)
{
	if (fprintf(stream, "%s\n", token) < 0 || fflush(stream))
		return error_set(err, -errno, "cannot write the token: %s; nothing was added",
				 strerror(errno));
	return 0;
}

/* A line that is cut short would be one more that is damaged. */
static int append_line(const char *path, int fd, const char *line, struct error *err)
{
	char text[ACCESS_LINE_BYTES + 1];
	int size = snprintf(text, sizeof(text), "%s\n", line);
	ssize_t written = write(fd, text, (size_t)size);

	if (written == size)
		return 0;
	int rc = written < 0 ? -errno : -ENOSPC;
	if (written > 0 && ftruncate(fd, lseek(fd, 0, SEEK_CUR) - written))
		return error_set(err, rc,
				 "--access: %.100s: only a part of the token's line could be "
				 "written: %s; remove it",
				 path, strerror(-rc));
	return error_set(err, rc, "--access: %.100s: %s; the printed token was not added", path,
			 strerror(-rc));
}

/* The file first: a token for one that cannot be opened need not be printed. */
static int print_and_append(const char *path, const char *token, const char *line, FILE *stream,
			    struct error *err)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return error_errno(err, -errno, "--access: %.100s", path);
	int rc = print_token(token, stream, err);
	return rc ? rc : append_line(path, fd, line, err);
}

int token_command(const struct collector_options *options, FILE *stream, struct error *err)
{
	char token[ACCESS_TOKEN_BYTES], line[ACCESS_LINE_BYTES];
	int rc = access_token_new(options->new_token, options->roles, options->tenant, token, line,
				  err);

	if (!rc && options->access)
		rc = print_and_append(options->access, token, line, stream, err);
	else if (!rc) {
		rc = print_token(token, stream, err);
		if (!rc)
			fprintf(stderr, "%s\n", line);
	}
	explicit_bzero(token, sizeof(token));
	return rc;
}
