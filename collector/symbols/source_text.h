// SPDX-License-Identifier: Apache-2.0
// The text of source files that frames recorded: which upload or folder has it, how sure that is, and its lines.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "collector/symbols/source_files.h"
#include "collector/symbols/source_folders.h"

enum source_origin { SOURCE_NONE, SOURCE_UPLOAD, SOURCE_FOLDER };

/** What is asked for, and what was found. */
struct source_text {
	const char *path;              // as a frame recorded it
	const char *service, *version; // labels of its series; "": none

	enum source_origin origin;
	char found[SOURCE_PATH_BYTES_MAX + 1]; // its path below the folder
	uint64_t bytes;
	bool is_version; // the upload is of the version that ran
	uint32_t others; // that are as good: uploads, or folders

	// Of an upload.
	char id[2 * DIGEST_BYTES + 1];
	char of_service[SOURCE_NAME_BYTES_MAX + 1], of_version[SOURCE_NAME_BYTES_MAX + 1];
	struct debug_origin upload;
	uint64_t offset;

	// Of a folder.
	int fd;
	uint64_t modified_s; // Unix time
};

/**
 * Look for each of @texts in @files and, where they have none of its version, in the folders of @tenant: the version that ran
 * comes first, then the longest path, then the newest upload. Returns 0, -ENOMEM or -errno. source_text_deinit() each.
 */
int source_texts_find(const struct source_files *files, const struct source_folders *folders,
		      const char *tenant, struct source_text *texts, uint32_t count);
void source_text_deinit(struct source_text *text);

/** Append the whole file. Returns 0; -ENOENT: it is gone; -EBADMSG: it is larger than SOURCE_FILE_BYTES_MAX, or no text. */
int source_text_read(const struct source_files *files, const struct source_text *text,
		     struct buffer *bytes);

/** Does the text have the name of @function, as tables show it, as a word? True where it has no name: "<module>". */
bool source_text_names(const struct buffer *bytes, const char *function);

/** Walks forward over a text's lines. Begins as { bytes, bytes + size, 0 }. */
struct source_cursor {
	const char *at, *end;
	uint32_t number; // of the line before
};

/** Go to line @number, which is not before the last one. False: the text ends before it. The line has no end of line. */
bool source_cursor_seek(struct source_cursor *cursor, uint32_t number, const char **ret_line,
			uint32_t *ret_size);
