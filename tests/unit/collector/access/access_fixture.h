// SPDX-License-Identifier: Apache-2.0
// An access file in a folder of its own.
#pragma once

#include <errno.h>
#include <unistd.h>

#include "collector/access/access.h"
#include "collector/access/access_file.h"
#include "tests/test.h"

struct access_folder {
	char folder[32];
	char path[64];
};

static inline void access_folder_open(struct access_folder *f)
{
	strcpy(f->folder, "/tmp/cairn-access-XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	snprintf(f->path, sizeof(f->path), "%s/access", f->folder);
}

static inline void access_folder_close(struct access_folder *f)
{
	unlink(f->path);
	assert_int_equal(0, rmdir(f->folder));
}

/** Replace the file, as an editor does: by moving a new one over it. */
static inline void access_folder_write(struct access_folder *f, const char *text)
{
	char other[80];

	snprintf(other, sizeof(other), "%s.new", f->path);
	FILE *file = fopen(other, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	assert_int_equal(0, rename(other, f->path));
}

/** A token, and its line with a newline. */
struct made_token {
	char token[ACCESS_TOKEN_BYTES];
	char line[ACCESS_LINE_BYTES + 1];
	char authorization[ACCESS_TOKEN_BYTES + 8];
};

static inline struct made_token make_token(const char *name, const char *roles, const char *tenant)
{
	struct made_token made = { 0 };
	struct error err = { 0 };

	if (access_token_new(name, roles, tenant, made.token, made.line, &err))
		fail_msg("%s", err.text);
	strcat(made.line, "\n");
	snprintf(made.authorization, sizeof(made.authorization), "Bearer %s", made.token);
	return made;
}
