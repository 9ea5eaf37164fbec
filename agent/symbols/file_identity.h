// SPDX-License-Identifier: Apache-2.0
// What an executable file is known by: its build id, which is its own word, and what was read of it.
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "base/error.h"
#include "agent/elf/build_id.h"
#include "agent/elf/file_content.h"
#include "agent/elf/file_version.h"

enum {
	EXECUTABLE_KEY_BYTES = BUILD_ID_TEXT_BYTES + FILE_CONTENT_TEXT_BYTES, // with ':' and a NUL
};
/** An open file that is to be identified. */
struct opened_file {
	int fd;
	int folder; // in /proc of its process; -1: unknown
	const char *path;
	struct stat status;
	struct file_version version;
	struct stat root; // of its process, if that is neither the host's nor the agent's
	bool has_own_root;
	bool has_host_root; // the host's or the agent's; neither of the two: unknown
};

/** What a file is known by. */
struct file_identity {
	char id[BUILD_ID_TEXT_BYTES]; // its own word
	char content[FILE_CONTENT_TEXT_BYTES];
	char debug_content[FILE_CONTENT_TEXT_BYTES]; // of a debug file that only its container has
	char key[EXECUTABLE_KEY_BYTES];              // with its content
};

/** Whose root @file's process sees; where that is neither the host's nor the agent's, which folder it is. */
void opened_file_find_root(struct opened_file *file);

/** Set the key of an identity without a debug file. */
void file_identity_set_key(struct file_identity *identity);

/**
 * Read @file's identity. Its container's debug file belongs to it. Returns 0; -EAGAIN if the file was written
 * meanwhile; elf_read_headers()'s errors, with @err.
 */
int file_identity_read(const struct opened_file *file, struct file_identity *ret_identity,
		       struct error *err);
