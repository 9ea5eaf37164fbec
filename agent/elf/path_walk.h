// SPDX-License-Identifier: Apache-2.0
// Opens a path part by part, so that it is known which file system hangs if one does.
#pragma once

#include <stdbool.h>

enum { PATH_LINKS_MAX = 40 }; // symbolic links in a path, as the kernel's

/** Before a part is looked up: the absolute path so far, without symbolic links. Not 0: fail with it. */
typedef int (*path_enter_fn)(void *context, const char *path);

/**
 * Open @path with O_PATH below the folder @root; symbolic links stay inside. @no_follow: the last part may be one, and
 * is opened itself. Returns a descriptor; -ELOOP; -ENAMETOOLONG; -errno; what @enter returned.
 */
int path_walk(int root, const char *path, bool no_follow, path_enter_fn enter, void *context);
