// SPDX-License-Identifier: Apache-2.0
// A file that is written as NAME.partial and renamed when it is complete; or standard output, which gets it complete.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

/** A zeroed struct is closed. */
struct output_file {
	char *path;
	char *partial_path;
	int fd;           // of the partial file; valid while partial_path is set
	bool is_standard; // output: nothing of the above is set
};

/** The path of standard output, where a command has it. */
#define OUTPUT_STANDARD "-"

bool output_is_standard(const char *path);

/** Is @path a name to write to, and not standard output ("-", "/dev/stdout")? Returns 0 or -EINVAL. */
int output_file_check_name(const char *path, struct error *err);

/**
 * Create @path's partial file now, so that a path that cannot be written fails before the work. Returns 0, or a negative errno and @err naming the file and the remedy.
 */
int output_file_open(const char *path, struct output_file *ret_file, struct error *err);

/** Is there a file of this name, which finishing would replace? */
bool output_file_replaces(const struct output_file *file);

/** Write @content, flush it to the disk and give the file its name. Closes @file. */
int output_file_finish(struct output_file *file, const struct buffer *content, struct error *err);

/** Remove an unfinished file. */
void output_file_discard(struct output_file *file);
