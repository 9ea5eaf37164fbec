// SPDX-License-Identifier: Apache-2.0
// Files of other processes, opened by paths below a process's root. A file may lie on a server that
// does not answer: it is opened by slow_open(), which returns -ETIMEDOUT and -EBUSY then.
#pragma once

#include <stdint.h>
#include <sys/stat.h>

/**
 * What the kernel knows of a file (device, inode, mode, size, time of change) without asking a
 * server. @flags are statx()'s. Returns 0 or -errno.
 */
int foreign_file_stat(int folder, const char *path, int flags, struct stat *ret_status);

/**
 * Open @path below the root of the process whose folder in /proc @folder is, for reading; symbolic
 * links stay inside that root. Only regular files are opened: opening a device or a pipe could act
 * on it, or block. Returns the descriptor (the caller's); -ENOEXEC if it is no regular file; -ESTALE
 * if its inode is another one than @inode (0: any); -errno.
 */
int foreign_file_open(int folder, const char *path, uint64_t inode);

/** The same of any file, unless the path's last part is a symbolic link: -ENOEXEC. */
int foreign_file_open_no_link(int folder, const char *path);

/** Open the file that the descriptor @path_fd (O_PATH) names. Returns the descriptor or -errno. */
int foreign_file_reopen(int path_fd);
