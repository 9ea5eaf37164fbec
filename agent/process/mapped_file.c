// SPDX-License-Identifier: Apache-2.0
#include "agent/process/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "agent/elf/foreign_file.h"

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
	return foreign_file_stat(folder, name, 0, ret_status);
}

int mapped_file_open(int folder, const struct mapping_list *list, const struct mapping *mapping)
{
	const char *path = mapping_path(list, mapping);
	char name[LINK_BYTES];

	map_files_name(mapping, name);
	_cleanup_close_ int path_fd = openat(folder, name, O_PATH | O_CLOEXEC);
	if (path_fd >= 0)
		return foreign_file_reopen(path_fd);
	if (path[0] != '/')
		return -errno;
	return foreign_file_open(folder, path, mapping->inode);
}

int mapped_file_open_vdso(void)
{
	// A whole ELF file.
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
