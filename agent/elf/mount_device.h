// SPDX-License-Identifier: Apache-2.0
// Which file system a path is on, without asking it.
#pragma once

#include <sys/types.h>

/**
 * The device of the file system that is mounted at the absolute @path or nearest above it, below the root of the process
 * with /proc folder @folder. The path has no symbolic links. Returns 0; -ENOENT; -errno.
 */
int mount_device_find(int folder, const char *path, dev_t *ret_device);
