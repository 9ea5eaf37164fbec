// SPDX-License-Identifier: Apache-2.0
// Paths of source files: which files are source code, and which path below a folder a recorded path may stand for.
#pragma once

#include <stdbool.h>

enum { SOURCE_PATH_BYTES_MAX = 1024 }; // below a folder, without the NUL

/**
 * Is it the path of source code below a folder? It is relative, has plain names only (no "..", none that begins with a dot,
 * no control character), and ends in the suffix of a programming language: keys, settings and data are none.
 */
bool source_path_is_plain(const char *path);

/**
 * The longest end of @path, as a frame recorded it, that is plain: "/build/../srv/app/model.py" gives "srv/app/model.py". NULL:
 * none is. It lies in @path.
 */
const char *source_path_longest(const char *path);
/** The next shorter one, "app/model.py", or NULL. */
const char *source_path_shorter(const char *path);
