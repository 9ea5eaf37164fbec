// SPDX-License-Identifier: Apache-2.0
// Packs the source files of a folder into an archive for the collector (base/symbols/source_archive.h).
#pragma once

#include <stdint.h>

#include "base/error.h"

struct source_pack_options {
	const char *folder;
	const char *at;                // where it lies where the code runs; NULL: not known
	const char *service, *version; // "": not said
};

struct source_pack {
	int fd; // a file without a name
	uint64_t bytes;
	char id[65]; // SHA-256 in hexadecimal
	uint32_t file_count;
	uint32_t too_large; // files left out
};

/**
 * Pack the folder's source code. Links are not followed; hidden files and folders and other file systems are left out. Returns
 * 0; -EINVAL, -ENOENT (there is none), -EFBIG, -ENOMEM, -errno with @err.
 */
int source_pack(const struct source_pack_options *options, struct source_pack *ret_pack,
		struct error *err);
