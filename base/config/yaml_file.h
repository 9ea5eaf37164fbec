// SPDX-License-Identifier: Apache-2.0
// A YAML file, read event by event, so that nothing is built in memory and the first nesting where none belongs ends the
// reading. The only user of libyaml.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct yaml_file;

enum yaml_node {
	YAML_NODE_SCALAR,
	YAML_NODE_LIST,
	YAML_NODE_LIST_END,
	YAML_NODE_MAPPING,
	YAML_NODE_MAPPING_END,
	YAML_NODE_ALIAS, // "*name"
	YAML_NODE_END,   // of the file
};

/**
 * Read @path, of @bytes_max at most; @what it is begins errors: "configuration file". @path outlives the file. Returns 0;
 * -EFBIG; -ENOMEM; -errno.
 */
int yaml_file_open(const char *what, const char *path, size_t bytes_max,
		   struct yaml_file **ret_file, struct error *err);
/** NULL is allowed. */
void yaml_file_close(struct yaml_file *file);

static inline void yaml_file_closep(struct yaml_file **file)
{
	yaml_file_close(*file);
}

/** Go to the next node. Returns 0; -EINVAL: no YAML, or a second document, with the line; -ENOMEM. */
int yaml_file_next(struct yaml_file *file, struct error *err);

/** The current node. */
enum yaml_node yaml_file_node(const struct yaml_file *file);
/** Its line, from 1. */
uint32_t yaml_file_line(const struct yaml_file *file);
/** A scalar's text, and its size: it may hold NULs. Valid until yaml_file_next(). */
const char *yaml_file_text(const struct yaml_file *file, size_t *ret_size);
/** Is it a scalar in quotes, or a block? Without, an empty one, "~" and "null" are no text. */
bool yaml_file_is_quoted(const struct yaml_file *file);
