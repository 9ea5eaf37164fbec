// SPDX-License-Identifier: Apache-2.0
// The file behind a mapping of another process, whatever has become of its path since. Where a file
// may lie on a server that does not answer, it is opened by slow_open(): -ETIMEDOUT and -EBUSY then.
#pragma once

#include <sys/stat.h>

#include "agent/process/mapping.h"

/**
 * What the kernel knows of the mapped file by /proc/PID/map_files (device, inode, mode, size, time of
 * change): cheaper than opening it, and asks no server. @folder is the process's in /proc. Returns 0
 * or -errno.
 */
int mapped_file_stat(int folder, const struct mapping *mapping, struct stat *ret_status);

/**
 * Open it for reading: by /proc/PID/map_files, which reaches deleted and replaced files too, else
 * by its path below the process's root, with symbolic links kept inside that root. Only regular
 * files are opened: opening a device or a pipe could act on it, or wait. For "[vdso]" it is a copy of
 * our own, which is the same for all processes.
 * Returns the descriptor (the caller's); -ESTALE if the path leads to another file by now; -errno.
 */
int mapped_file_open(int folder, const struct mapping_list *list, const struct mapping *mapping);
