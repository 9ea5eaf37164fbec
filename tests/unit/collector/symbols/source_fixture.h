// SPDX-License-Identifier: Apache-2.0
// What tests of source files share: a folder for each test, and archives that are kept.
#pragma once

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/test.h"

#include "base/text.h"
#include "collector/symbols/source_files.h"

enum { ARCHIVE_BYTES = 4096, SOURCES_BYTES = 1 << 20 };

/** Folders "data" and "code" in one that is deleted at the end. */
struct source_fixture {
	char folder[40];
	struct source_files files;
	char id[2 * DIGEST_BYTES + 1]; // of the last archive
};

static inline void open_sources(struct source_fixture *fixture)
{
	struct error err = { 0 };
	char path[64];

	memset(fixture, 0, sizeof(*fixture));
	strcpy(fixture->folder, "/tmp/cairn-sources-XXXXXX");
	assert_non_null(mkdtemp(fixture->folder));
	snprintf(path, sizeof(path), "%s/code", fixture->folder);
	assert_int_equal(0, mkdir(path, 0700));
	snprintf(path, sizeof(path), "%s/data", fixture->folder);
	if (source_files_open(&fixture->files, path, SOURCES_BYTES, &err))
		fail_msg("%s", err.text);
}

static inline void close_sources(struct source_fixture *fixture)
{
	char command[64];

	source_files_close(&fixture->files);
	snprintf(command, sizeof(command), "rm -r %s", fixture->folder);
	assert_int_equal(0, system(command));
}

/** Write a file below "code", with the folders above it. */
static inline void write_code(const struct source_fixture *fixture, const char *path,
			      const char *text)
{
	char command[PATH_MAX], whole[256];

	snprintf(whole, sizeof(whole), "%s/code/%s", fixture->folder, path);
	snprintf(command, sizeof(command), "mkdir -p \"$(dirname %s)\"", whole);
	assert_int_equal(0, system(command));
	FILE *file = fopen(whole, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(0, fclose(file));
}

/** Send bytes as an upload of @who. */
static inline int keep_bytes(struct source_fixture *fixture, const void *bytes, size_t size,
			     const char *who, struct error *err)
{
	struct source_upload upload;
	struct debug_origin origin;
	int rc = source_files_begin(&fixture->files, size, &upload, err);

	if (rc)
		return rc;
	assert_int_equal(size, write(upload.file.fd, bytes, size));
	assert_int_equal(0, debug_origin_make(upload.file.fd, size, who, "", &origin));
	text_encode_hex(origin.digest, DIGEST_BYTES, fixture->id);
	rc = source_files_keep(&fixture->files, &upload, fixture->id, who, "10.0.0.7", err);
	source_files_drop(&fixture->files, &upload);
	return rc;
}

/** Send an archive of one file. */
static inline int keep_archive(struct source_fixture *fixture, const char *service,
			       const char *version, const char *path, const char *text,
			       struct error *err)
{
	struct buffer bytes = { 0 };

	source_archive_begin(&bytes, service, version);
	source_archive_add(&bytes, path, strlen(text));
	buffer_printf(&bytes, "\n%s", text);
	int rc = keep_bytes(fixture, bytes.bytes, bytes.size, "token:ci", err);
	buffer_deinit(&bytes);
	return rc;
}
