// SPDX-License-Identifier: Apache-2.0
#include "base/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

void secret_erase(void *secret, size_t size)
{
	explicit_bzero(secret, size);
}

static int check(char *secret, const char *path, struct error *err)
{
	size_t size = strcspn(secret, "\r\n");

	while (size && (secret[size - 1] == ' ' || secret[size - 1] == '\t'))
		size--;
	secret[size] = '\0';
	if (!size)
		return error_set(err, -EINVAL, "%s: empty; its first line is the token", path);
	for (size_t i = 0; i < size; i++)
		if (secret[i] <= ' ' || secret[i] > '~')
			return error_set(err, -EINVAL,
					 "%s: byte %zu is not one of a token: printable ASCII, no "
					 "blanks",
					 path, i + 1);
	return 0;
}

int secret_file_read_bytes(const char *path, const char *what, char *bytes, size_t size_max,
			   size_t *ret_size, struct error *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t size = 0;
	ssize_t got = 0;

	if (fd < 0)
		return error_errno(err, -errno, "%s: cannot read the %s", path, what);
	while (size < size_max && (got = read(fd, bytes + size, size_max - size)) > 0)
		size += (size_t)got;
	if (got < 0)
		return error_errno(err, -errno, "%s: cannot read the %s", path, what);
	*ret_size = size;
	return 0;
}

int secret_file_read(const char *path, char ret_secret[SECRET_BYTES_MAX], struct error *err)
{
	char bytes[SECRET_BYTES_MAX + 1] = "";
	size_t size;
	int rc = secret_file_read_bytes(path, "token", bytes, SECRET_BYTES_MAX, &size, err);

	if (!rc && size == SECRET_BYTES_MAX)
		rc = error_set(err, -EINVAL, "%s: longer than %d bytes; a token is one line", path,
			       SECRET_BYTES_MAX - 1);
	if (!rc)
		rc = check(bytes, path, err);
	if (!rc)
		memcpy(ret_secret, bytes, SECRET_BYTES_MAX);
	secret_erase(bytes, sizeof(bytes));
	return rc;
}
