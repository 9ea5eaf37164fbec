// SPDX-License-Identifier: Apache-2.0
#include "mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { LINK_BYTES = 64 };

static void map_files_name(const struct mapping *mapping, char ret_name[LINK_BYTES])
{
	snprintf(ret_name, LINK_BYTES, "map_files/%" PRIx64 "-%" PRIx64, mapping->start,
		 mapping->limit);
}

int mapped_file_stat(int folder, const struct mapping *mapping, struct stat *ret_status)
{
	char name[LINK_BYTES];

	map_files_name(mapping, name);
	return fstatat(folder, name, ret_status, 0) ? -errno : 0;
}

/*
 * Turn a descriptor that only names a file (O_PATH) into one to read it by. A hostile FUSE file
 * cannot keep us waiting: without allow_other those mounts refuse all users but their own.
 */
static int reopen_regular(int path_fd, uint64_t inode)
{
	char self[LINK_BYTES];
	struct stat status;

	if (fstat(path_fd, &status))
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -ENOEXEC;
	// The device cannot be compared: on overlayfs and btrfs maps shows another one than stat().
	if (inode && status.st_ino != inode)
		return -ESTALE;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", path_fd);
	int fd = open(self, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_in_root(int folder, const char *path, uint64_t flags, uint64_t inode)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | flags,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	_cleanup_close_ int root = openat(folder, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return -errno;
	_cleanup_close_ int path_fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	return path_fd < 0 ? -errno : reopen_regular(path_fd, inode);
}

int mapped_file_open_in_root(int folder, const char *path, uint64_t inode)
{
	return open_in_root(folder, path, 0, inode);
}

int mapped_file_open_no_link(int folder, const char *path)
{
	return open_in_root(folder, path, O_NOFOLLOW, 0);
}

/* The page or two of code that the kernel gives every process; complete with ELF header and symbols. */
static int open_vdso(void)
{
	const uint8_t *vdso = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
	_cleanup_close_ int self = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	struct mapping_list *list;

	if (!vdso)
		return -ENOENT;
	if (self < 0)
		return -errno;
	int rc = mapping_list_read(self, &list);
	if (rc)
		return rc;
	const struct mapping *mapping = mapping_list_find(list, (uintptr_t)vdso);
	size_t size = mapping ? mapping->limit - mapping->start : 0;
	mapping_list_release(list);
	if (!size)
		return -ENOENT;

	_cleanup_close_ int fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t written = write(fd, vdso, size);
	if (written != (ssize_t)size)
		return written < 0 ? -errno : -EIO;
	return take_fd(fd);
}

int mapped_file_open(int folder, const struct mapping_list *list, const struct mapping *mapping)
{
	const char *path = mapping_path(list, mapping);
	char name[LINK_BYTES];

	if (strcmp(path, "[vdso]") == 0)
		return open_vdso();
	map_files_name(mapping, name);
	_cleanup_close_ int path_fd = openat(folder, name, O_PATH | O_CLOEXEC);
	if (path_fd >= 0)
		return reopen_regular(path_fd, 0);
	if (path[0] != '/')
		return -errno;
	return mapped_file_open_in_root(folder, path, mapping->inode);
}
