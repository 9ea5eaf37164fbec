// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/mount_device.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"

struct mount {
	unsigned int major, minor;
	char point[PATH_MAX];
};

/* The kernel writes blanks, newlines and backslashes as \ooo. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from; to++) {
		unsigned int code;

		if (from[0] == '\\' && sscanf(from + 1, "%3o", &code) == 1) {
			*to = (char)code;
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = '\0';
}

/* 36 35 98:0 /root /mnt/point options ... */
static bool parse(const char *line, struct mount *ret_mount)
{
	if (sscanf(line, "%*u %*u %u:%u %*s %4095s", &ret_mount->major, &ret_mount->minor,
		   ret_mount->point) != 3)
		return false;
	unescape(ret_mount->point);
	return true;
}

static bool lies_below(const char *path, const char *point)
{
	size_t size = strlen(point);

	while (size && point[size - 1] == '/')
		size--;
	return strncmp(path, point, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

int mount_device_find(int folder, const char *path, dev_t *ret_device)
{
	_cleanup_close_ int fd = openat(folder, "mountinfo", O_RDONLY | O_CLOEXEC);
	_cleanup_fclose_ FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	_cleanup_free_ char *line = NULL;
	struct mount mount;
	size_t capacity = 0, longest = 0;
	bool found = false;

	if (!file)
		return -errno;
	fd = -1; // the stream's
	while (getline(&line, &capacity, file) > 0) {
		if (!parse(line, &mount) || !lies_below(path, mount.point) ||
		    strlen(mount.point) < longest)
			continue;
		// Of two at one place the later covers the earlier.
		longest = strlen(mount.point);
		*ret_device = makedev(mount.major, mount.minor);
		found = true;
	}
	return found ? 0 : -ENOENT;
}
