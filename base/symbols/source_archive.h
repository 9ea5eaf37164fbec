// SPDX-License-Identifier: Apache-2.0
// Source files as `cairn upload --sources` sends them and the collector keeps them: a head of text that lists the files, then
// their bytes, one after the other.
//
//     cairn sources 1
//     service checkout        of which series; nothing: of any
//     version 1.4             the label of the series that ran it; nothing: not known
//     1834 app/model.py       size and path of each file, by rising path (bytes)
//     72 app/run.py
//                             an empty line ends the head
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

enum {
	SOURCE_ARCHIVE_FILES_MAX = 1 << 16,
	SOURCE_ARCHIVE_HEAD_BYTES_MAX = 4 << 20, // 65536 paths of 60 bytes
	SOURCE_ARCHIVE_BYTES_MAX = 256 << 20,    // Linux' sources without drivers
	SOURCE_FILE_BYTES_MAX = 4 << 20,         // larger ones are generated
	SOURCE_NAME_BYTES_MAX = 255,             // of a service or a version
};

struct source_archive_file {
	const char *path;
	uint64_t bytes;
	uint64_t offset; // in the archive
};

/** Strings lie in head. */
struct source_archive {
	struct buffer head;
	const char *service, *version; // "": not said
	struct source_archive_file *files;
	uint32_t file_count, file_capacity;
};

/** Is it UTF-8 of at most SOURCE_NAME_BYTES_MAX bytes without control characters? */
bool source_name_is_sound(const char *name);

/** Write a head: this, each file by rising path, then "\n". */
void source_archive_begin(struct buffer *head, const char *service, const char *version);
void source_archive_add(struct buffer *head, const char *path, uint64_t bytes);

/**
 * Read the head of an archive, the first @bytes of @fd, which is hostile: files lie within it, and their paths are plain
 * (source_path.h). Returns 0; -EBADMSG (@err says what is wrong); -EFBIG (a limit); -ENOMEM; -errno.
 */
int source_archive_read(int fd, uint64_t bytes, struct source_archive *ret_archive,
			struct error *err);
void source_archive_deinit(struct source_archive *archive);

/** The file whose whole path is the longest end of @path, as a frame recorded it. NULL: none. */
const struct source_archive_file *source_archive_find(const struct source_archive *archive,
						      const char *path);
