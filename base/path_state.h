// SPDX-License-Identifier: Apache-2.0
// What a path leads to: another file, or another content, than when it was read? Credentials are read again without a restart.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/** A zeroed one is that of a path that leads to nothing that can be read. */
struct path_state {
	uint64_t device, inode, size, changed_ns;
};

/** Symbolic links are followed: Kubernetes replaces a secret's files by moving a link. */
static inline struct path_state path_state_of(const char *path)
{
	struct stat status;

	if (!path || stat(path, &status))
		return (struct path_state){ 0 };
	return (struct path_state){
		.device = status.st_dev,
		.inode = status.st_ino,
		.size = (uint64_t)status.st_size,
		.changed_ns = (uint64_t)status.st_ctim.tv_sec * 1000000000U +
			      (uint64_t)status.st_ctim.tv_nsec,
	};
}

static inline bool path_state_equal(struct path_state a, struct path_state b)
{
	return a.device == b.device && a.inode == b.inode && a.size == b.size &&
	       a.changed_ns == b.changed_ns;
}
