// SPDX-License-Identifier: Apache-2.0
// Cuts a stream of JSON from the API server into the objects that are wanted, without keeping the rest: each event of a
// watch, or the metadata and each item of a list. A list of a node's pods is megabytes, one pod some ten kilobytes.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

enum {
	JSON_PART_BYTES_MAX = 2 << 20, // of one object; etcd holds no object of more than 1.5 MiB
	JSON_DEPTH_MAX = 64,           // of objects in objects; a pod has some 12
	JSON_KEY_BYTES_MAX = 16,
};

enum json_shape { JSON_EVENTS, JSON_LIST };

enum json_part { JSON_PART_EVENT, JSON_PART_METADATA, JSON_PART_ITEM };

/** @text ends in a NUL that @size does not count. Not 0: go no further. */
typedef int json_part_fn(void *context, enum json_part part, const char *text, size_t size);

struct json_parts {
	enum json_shape shape;
	uint32_t depth, part_depth;
	bool is_in_string, is_escaped, is_in_items, is_in_part;
	enum json_part kind; // of the part that is being read
	char key[JSON_KEY_BYTES_MAX];
	uint32_t key_size;
	struct buffer part;
	uint64_t dropped; // parts of more than JSON_PART_BYTES_MAX, or without memory
};

void json_parts_init(struct json_parts *parts, enum json_shape shape);
void json_parts_deinit(struct json_parts *parts);

/** The next bytes, cut anywhere. Returns 0; -EBADMSG: no JSON; or what @fn returned. */
int json_parts_feed(struct json_parts *parts, const char *bytes, size_t size, json_part_fn *fn,
		    void *context);

/** Did the stream end where a document does? Returns 0 or -EBADMSG. */
int json_parts_end(const struct json_parts *parts);
