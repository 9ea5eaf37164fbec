// SPDX-License-Identifier: Apache-2.0
// Folders of this machine whose source code is shown, as a checkout of what runs: each of one tenant. Nothing outside of them is
// ever opened, and of them source code alone (source_path.h).
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/symbols/source_path.h"

enum { SOURCE_FOLDERS_MAX = 16 };

struct source_folder {
	char *tenant; // "": of those without one
	char *path;
};

struct source_folders {
	struct source_folder at[SOURCE_FOLDERS_MAX];
	uint32_t count;
};

/**
 * "[TENANT=]PATH", several with commas between; each is a folder that is there. Returns 0; -EINVAL, -ENOMEM, -errno with @err.
 */
int source_folders_parse(const char *text, struct source_folders *ret_folders, struct error *err);
void source_folders_deinit(struct source_folders *folders);

/** A file that was found. */
struct source_folder_file {
	int fd; // the caller's
	uint64_t bytes;
	uint64_t modified_s;                  // Unix time
	char path[SOURCE_PATH_BYTES_MAX + 1]; // below its folder
	uint32_t others;                      // in other folders, at the same path
};

/**
 * Open the file below a folder of @tenant whose whole path is the longest end of @path, as a frame recorded it; links are not
 * followed. Returns 0 or -ENOENT.
 */
int source_folders_find(const struct source_folders *folders, const char *tenant, const char *path,
			struct source_folder_file *ret_file);
