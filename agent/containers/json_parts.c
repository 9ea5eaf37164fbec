// SPDX-License-Identifier: Apache-2.0
#include "agent/containers/json_parts.h"

#include <errno.h>
#include <string.h>

enum { PART_BYTES_KEPT = 64 << 10 }; // of memory between two parts

void json_parts_init(struct json_parts *parts, enum json_shape shape)
{
	*parts = (struct json_parts){ .shape = shape, .part.size_max = JSON_PART_BYTES_MAX };
}

void json_parts_deinit(struct json_parts *parts)
{
	buffer_deinit(&parts->part);
}

static bool has_key(const struct json_parts *parts, const char *key)
{
	return parts->key_size == strlen(key) && memcmp(parts->key, key, parts->key_size) == 0;
}

/* Does an object that begins here count? A list's keys are those of its outermost object. */
static bool begins_part(const struct json_parts *parts, enum json_part *ret_kind)
{
	if (parts->shape == JSON_EVENTS)
		*ret_kind = JSON_PART_EVENT;
	else
		*ret_kind = parts->is_in_items ? JSON_PART_ITEM : JSON_PART_METADATA;
	switch (*ret_kind) {
	case JSON_PART_EVENT:
		return parts->depth == 0;
	case JSON_PART_METADATA:
		return parts->depth == 1 && has_key(parts, "metadata");
	case JSON_PART_ITEM:
		return parts->depth == 2;
	}
	return false;
}

static int open_bracket(struct json_parts *parts, char bracket)
{
	if (parts->depth == JSON_DEPTH_MAX || (!parts->depth && bracket == '['))
		return -EBADMSG;
	if (!parts->is_in_part && bracket == '{' && begins_part(parts, &parts->kind)) {
		parts->is_in_part = true;
		parts->part_depth = parts->depth;
	}
	if (parts->shape == JSON_LIST && parts->depth == 1 && bracket == '[')
		parts->is_in_items = has_key(parts, "items");
	parts->depth++;
	return 0;
}

/* The part is whole. */
static int end_part(struct json_parts *parts, json_part_fn *fn, void *context)
{
	bool is_whole = !parts->part.rc;
	int rc = 0;

	const char *text = buffer_string(&parts->part);
	if (is_whole && !parts->part.rc)
		rc = fn(context, parts->kind, text, parts->part.size);
	else
		parts->dropped++;
	parts->is_in_part = false;
	if (parts->part.capacity > PART_BYTES_KEPT)
		json_parts_deinit(parts);
	buffer_clear(&parts->part);
	return rc;
}

static void read_string(struct json_parts *parts, char c)
{
	if (parts->is_escaped)
		parts->is_escaped = false;
	else if (c == '\\')
		parts->is_escaped = true;
	else if (c == '"')
		parts->is_in_string = false;
	if (!parts->is_in_string || parts->depth != 1 || parts->shape == JSON_EVENTS)
		return;
	// A longer one is none of ours.
	if (parts->key_size < JSON_KEY_BYTES_MAX)
		parts->key[parts->key_size++] = c;
}

/* Returns 1 if a part ends with this byte. */
static int read_byte(struct json_parts *parts, char c)
{
	if (parts->is_in_string) {
		read_string(parts, c);
		return 0;
	}
	switch (c) {
	case '"':
		parts->is_in_string = true;
		if (parts->depth == 1)
			parts->key_size = 0;
		return 0;
	case '{':
	case '[':
		return open_bracket(parts, c);
	case '}':
	case ']':
		if (!parts->depth)
			return -EBADMSG;
		parts->depth--;
		if (parts->depth == 1)
			parts->is_in_items = false;
		return parts->is_in_part && parts->depth == parts->part_depth;
	default:
		return 0;
	}
}

int json_parts_feed(struct json_parts *parts, const char *bytes, size_t size, json_part_fn *fn,
		    void *context)
{
	size_t begin = 0; // of what is in the part and not yet copied

	for (size_t i = 0; i < size; i++) {
		bool was_in_part = parts->is_in_part;
		int rc = read_byte(parts, bytes[i]);

		if (rc < 0)
			return rc;
		if (!was_in_part)
			begin = i;
		if (!rc)
			continue;
		buffer_append(&parts->part, bytes + begin, i + 1 - begin);
		rc = end_part(parts, fn, context);
		if (rc)
			return rc;
	}
	if (parts->is_in_part)
		buffer_append(&parts->part, bytes + begin, size - begin);
	return 0;
}

int json_parts_end(const struct json_parts *parts)
{
	return parts->depth || parts->is_in_string ? -EBADMSG : 0;
}
