// SPDX-License-Identifier: Apache-2.0
// Which file on a disk, and which of its contents, as far as the kernel says without reading it. The change time counts
// beside the modification time, which anybody sets as they like.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

/** Compared and hashed as bytes: no padding. */
struct file_version {
	uint64_t device;
	uint64_t inode;
	uint64_t size;
	int64_t modified_seconds, modified_ns;
	int64_t changed_seconds, changed_ns;
};

static inline struct file_version file_version_of(const struct stat *status)
{
	return (struct file_version){
		.device = status->st_dev,
		.inode = status->st_ino,
		.size = (uint64_t)status->st_size,
		.modified_seconds = status->st_mtim.tv_sec,
		.modified_ns = status->st_mtim.tv_nsec,
		.changed_seconds = status->st_ctim.tv_sec,
		.changed_ns = status->st_ctim.tv_nsec,
	};
}

/** Is the open file @fd still this one? */
static inline bool file_version_is_of(const struct file_version *version, int fd)
{
	struct file_version now;
	struct stat status;

	if (fstat(fd, &status))
		return false;
	now = file_version_of(&status);
	return memcmp(&now, version, sizeof(now)) == 0;
}

static inline bool file_only_root_writes(const struct stat *status)
{
	return status->st_uid == 0 && !(status->st_mode & (S_IWGRP | S_IWOTH));
}
