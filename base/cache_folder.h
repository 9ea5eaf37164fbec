// SPDX-License-Identifier: Apache-2.0
// The folder of caches on disk. What lies there is believed, so nobody but its user may have written it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/error.h"

/**
 * Default folder: /var/cache/cairn for root, else cairn/ in $XDG_CACHE_HOME or ~/.cache. Returns 0; -ENOENT if there is
 * no home; -ENAMETOOLONG.
 */
int cache_folder_default(char *ret_folder, size_t size);

/**
 * Open @folder, which is created for this user only, and closed to all others. Returns a descriptor; -EPERM if it
 * belongs to another user; -errno; @err says for which cache: @what.
 */
int cache_folder_open(const char *folder, const char *what, struct error *err);

/** Is it a file that only this user could have written? */
bool cache_file_is_ours(const struct stat *status);
