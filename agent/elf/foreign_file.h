// SPDX-License-Identifier: Apache-2.0
// Opens files of other processes by paths below a process's root. The file server may not answer: slow_open() opens
// them and returns -ETIMEDOUT then, and -EBUSY for other files of that file system.
#pragma once

#include <stdint.h>
#include <sys/stat.h>

/** What the kernel has of a file (device, inode, mode, owner, size, mtime, ctime), without asking a server. Returns 0 or -errno. */
int foreign_file_stat(int folder, const char *path, int flags, struct stat *ret_status);

/**
 * Open @path for reading, below the root of the process with /proc folder @folder; symbolic links stay inside. Regular
 * files only: opening a device or a pipe could act on it, or block. Returns a descriptor owned by the caller; -ENOEXEC
 * for other files; -ESTALE if the inode is not @inode (0: any); -errno.
 */
int foreign_file_open(int folder, const char *path, uint64_t inode);

/** The same for any file; -ENOEXEC if the last part is a symbolic link. */
int foreign_file_open_no_link(int folder, const char *path);

/** Open the file of the O_PATH descriptor @path_fd. Returns a descriptor or -errno. */
int foreign_file_reopen(int path_fd);
