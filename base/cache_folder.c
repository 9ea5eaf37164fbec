// SPDX-License-Identifier: Apache-2.0
#include "base/cache_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

int cache_folder_default(char *ret_folder, size_t size)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int length;

	if (geteuid() == 0)
		length = snprintf(ret_folder, size, "/var/cache/cairn");
	else if (cache && cache[0] == '/') // others are ignored (XDG Base Directory)
		length = snprintf(ret_folder, size, "%s/cairn", cache);
	else if (home && home[0] == '/')
		length = snprintf(ret_folder, size, "%s/.cache/cairn", home);
	else
		return -ENOENT;
	return length < 0 || (size_t)length >= size ? -ENAMETOOLONG : 0;
}

/* Creates missing folders; the last one for this user only. */
static int make_folders(const char *folder)
{
	_cleanup_free_ char *path = strdup(folder);

	if (!path)
		return -ENOMEM;
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(path, 0755) && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return mkdir(path, 0700) && errno != EEXIST ? -errno : 0;
}

int cache_folder_open(const char *folder, const char *what, struct error *err)
{
	struct stat status;
	int rc = make_folders(folder);

	if (rc)
		return error_errno(err, rc, "%s: make %s", what, folder);
	_cleanup_close_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, -errno, "%s: open %s", what, folder);
	if (fstat(fd, &status))
		return error_errno(err, -errno, "%s: stat %s", what, folder);
	if (status.st_uid != geteuid())
		return error_set(err, -EPERM, "%s: %s belongs to user %u", what, folder,
				 status.st_uid);
	if ((status.st_mode & 077) && fchmod(fd, 0700))
		return error_errno(err, -errno, "%s: chmod %s", what, folder);
	return take_fd(fd);
}

bool cache_file_is_ours(const struct stat *status)
{
	return S_ISREG(status->st_mode) && status->st_uid == geteuid() && status->st_nlink == 1 &&
	       !(status->st_mode & 022);
}
