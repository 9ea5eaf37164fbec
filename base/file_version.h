// SPDX-License-Identifier: Apache-2.0
// Whether a file is another one than when it was read: credentials are read again without a restart.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/** A zeroed one is that of a file that cannot be read. */
struct file_version {
	uint64_t device, inode, size, changed_ns;
};

/** Symbolic links are followed: Kubernetes replaces a secret's files by moving a link. */
static inline struct file_version file_version_of(const char *path)
{
	struct stat status;

	if (!path || stat(path, &status))
		return (struct file_version){ 0 };
	return (struct file_version){
		.device = status.st_dev,
		.inode = status.st_ino,
		.size = (uint64_t)status.st_size,
		.changed_ns = (uint64_t)status.st_ctim.tv_sec * 1000000000U +
			      (uint64_t)status.st_ctim.tv_nsec,
	};
}

static inline bool file_version_equal(struct file_version a, struct file_version b)
{
	return a.device == b.device && a.inode == b.inode && a.size == b.size &&
	       a.changed_ns == b.changed_ns;
}
