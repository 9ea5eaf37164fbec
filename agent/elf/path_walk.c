// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/path_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"

struct walk {
	int root;
	char done[PATH_MAX]; // without symbolic links; "": the root
	char rest[PATH_MAX]; // begins with a part or a slash
	int links;
};

/* Take the next part of the rest. False: there is none. */
static bool next_part(struct walk *walk, char ret_part[NAME_MAX + 1], int *ret_rc)
{
	const char *at = walk->rest + strspn(walk->rest, "/");
	size_t size = strcspn(at, "/");

	*ret_rc = size > NAME_MAX ? -ENAMETOOLONG : 0;
	if (!size || *ret_rc)
		return false;
	memcpy(ret_part, at, size);
	ret_part[size] = '\0';
	memmove(walk->rest, at + size, strlen(at + size) + 1);
	return true;
}

static bool has_more(const struct walk *walk)
{
	return walk->rest[strspn(walk->rest, "/")] != '\0';
}

static void step_up(struct walk *walk)
{
	char *slash = strrchr(walk->done, '/');

	if (slash)
		*slash = '\0';
}

static int open_done(const struct walk *walk)
{
	struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	int fd = (int)syscall(SYS_openat2, walk->root, *walk->done ? walk->done : "/", &how,
			      sizeof(how));

	return fd < 0 ? -errno : fd;
}

/* Links of procfs may lead anywhere, whatever their text is (RESOLVE_NO_MAGICLINKS of openat2(2)). */
static bool is_magic(int fd)
{
	struct statfs known;

	return fstatfs(fd, &known) || known.f_type == PROC_SUPER_MAGIC;
}

/* The path goes on where the link @fd, the last part of `done`, points to. */
static int follow(struct walk *walk, int fd)
{
	char target[2 * PATH_MAX];

	if (is_magic(fd))
		return -ELOOP;
	ssize_t size = readlinkat(fd, "", target, PATH_MAX - 1);
	if (size < 0)
		return -errno;
	if (++walk->links > PATH_LINKS_MAX)
		return -ELOOP;
	int added = snprintf(target + size, sizeof(target) - (size_t)size, "/%s", walk->rest);
	if ((size_t)size + (size_t)added >= sizeof(walk->rest))
		return -ENAMETOOLONG;
	memcpy(walk->rest, target, (size_t)size + (size_t)added + 1);
	if (target[0] == '/')
		walk->done[0] = '\0';
	else
		step_up(walk);
	return 0;
}

static bool is_link(int fd)
{
	struct statx known;

	return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &known) == 0 &&
	       S_ISLNK(known.stx_mode);
}

static int add_part(struct walk *walk, const char *part)
{
	size_t size = strlen(walk->done);
	int added = snprintf(walk->done + size, sizeof(walk->done) - size, "/%s", part);

	return (size_t)added >= sizeof(walk->done) - size ? -ENAMETOOLONG : 0;
}

int path_walk(int root, const char *path, bool no_follow, path_enter_fn enter, void *context)
{
	struct walk walk = { .root = root };
	_cleanup_close_ int fd = -1;
	char part[NAME_MAX + 1];
	int rc;

	if (strlen(path) >= sizeof(walk.rest))
		return -ENAMETOOLONG;
	strcpy(walk.rest, path);
	while (next_part(&walk, part, &rc)) {
		if (strcmp(part, ".") == 0)
			continue;
		if (strcmp(part, "..") == 0) {
			step_up(&walk);
			continue;
		}
		rc = add_part(&walk, part);
		if (!rc)
			rc = enter(context, walk.done);
		if (rc)
			return rc;
		cleanup_closep(&fd);
		fd = open_done(&walk);
		if (fd < 0)
			return fd;
		if (!is_link(fd) || (no_follow && !has_more(&walk)))
			continue;
		rc = follow(&walk, fd);
		if (rc)
			return rc;
	}
	if (rc)
		return rc;
	// After ".." or a link to the root the descriptor is of another place.
	cleanup_closep(&fd);
	fd = -1;
	return open_done(&walk);
}
