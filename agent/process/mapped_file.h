// SPDX-License-Identifier: Apache-2.0
// Opens the file behind another process's mapping, even if its path was deleted or replaced. Files that may lie on
// an unresponsive server are opened by slow_open(): -ETIMEDOUT and -EBUSY then.
#pragma once

#include <sys/stat.h>

#include "agent/process/mapping.h"

/**
 * The file's device, inode, mode, size, mtime and ctime, from /proc/PID/map_files: cheaper than opening it, and without
 * asking a server. @folder is the process's in /proc. Returns 0 or -errno.
 */
int mapped_file_stat(int folder, const struct mapping *mapping, struct stat *ret_status);

/**
 * Open it for reading: by /proc/PID/map_files, which has deleted and replaced files, too, else by its path below
 * the process's root, from which symbolic links do not escape. Only regular files are opened: opening a device
 * or a pipe could act on it, or block. Returns the descriptor (the caller's); -ESTALE if the path is another file by now; -errno.
 */
int mapped_file_open(int folder, const struct mapping_list *list, const struct mapping *mapping);

/** A copy of the agent's own vDSO, which is that of all processes. Returns the descriptor (the caller's) or -errno. */
int mapped_file_open_vdso(void);
