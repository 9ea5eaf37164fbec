// SPDX-License-Identifier: Apache-2.0
#include "base/labels.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"

void labels_deinit(struct labels *labels)
{
	for (uint32_t i = 0; i < labels->count; i++) {
		free(labels->pairs[i].name);
		free(labels->pairs[i].value);
	}
	free(labels->pairs);
	*labels = (struct labels){ 0 };
}

static bool is_name_character(char c, bool is_first)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       (c >= '0' && c <= '9' && !is_first);
}

static bool is_name(const char *name)
{
	size_t size = 0;

	for (; name[size]; size++) {
		if (size == LABEL_NAME_BYTES_MAX || !is_name_character(name[size], size == 0))
			return false;
	}
	return size > 0;
}

// The position of @name, or the one where it belongs.
static uint32_t position_of(const struct labels *labels, const char *name, bool *ret_found)
{
	uint32_t at = 0;
	int order = 1;

	while (at < labels->count && (order = strcmp(labels->pairs[at].name, name)) < 0)
		at++;
	*ret_found = at < labels->count && order == 0;
	return at;
}

static void remove_at(struct labels *labels, uint32_t at)
{
	free(labels->pairs[at].name);
	free(labels->pairs[at].value);
	labels->count--;
	memmove(&labels->pairs[at], &labels->pairs[at + 1],
		(labels->count - at) * sizeof(*labels->pairs));
}

static int insert_at(struct labels *labels, uint32_t at, const char *name, char *value)
{
	if (labels->count >= LABELS_MAX)
		return -E2BIG;

	_cleanup_free_ char *copy = strdup(name);
	struct label *pairs =
		reallocarray(labels->pairs, labels->count + 1, sizeof(*labels->pairs));
	if (pairs)
		labels->pairs = pairs;
	if (!pairs || !copy)
		return -ENOMEM;

	memmove(&pairs[at + 1], &pairs[at], (labels->count - at) * sizeof(*pairs));
	pairs[at] = (struct label){ .name = take(copy), .value = value };
	labels->count++;
	return 0;
}

static char *copy_value(const char *value)
{
	size_t size = strnlen(value, LABEL_VALUE_BYTES_MAX + 1);
	char *copy = strndup(value, utf8_cut(value, size, LABEL_VALUE_BYTES_MAX));

	if (copy)
		utf8_repair(copy, strlen(copy));
	return copy;
}

int labels_set(struct labels *labels, const char *name, const char *value)
{
	if (!is_name(name))
		return -EINVAL;

	bool found;
	uint32_t at = position_of(labels, name, &found);
	if (!*value) {
		if (found)
			remove_at(labels, at);
		return 0;
	}

	_cleanup_free_ char *copy = copy_value(value);
	if (!copy)
		return -ENOMEM;
	if (found) {
		free(labels->pairs[at].value);
		labels->pairs[at].value = take(copy);
		return 0;
	}

	int rc = insert_at(labels, at, name, copy);
	if (rc == 0)
		copy = NULL; // the labels own it now
	return rc;
}

const char *labels_get(const struct labels *labels, const char *name)
{
	bool found;
	uint32_t at = position_of(labels, name, &found);

	return found ? labels->pairs[at].value : NULL;
}

int labels_copy(const struct labels *labels, struct labels *ret_copy)
{
	_cleanup_(labels_deinit) struct labels copy = { 0 };

	if (labels->count == 0) {
		*ret_copy = copy;
		return 0;
	}
	copy.pairs = calloc(labels->count, sizeof(*copy.pairs));
	if (!copy.pairs)
		return -ENOMEM;
	for (uint32_t i = 0; i < labels->count; i++) {
		copy.count++;
		copy.pairs[i].name = strdup(labels->pairs[i].name);
		copy.pairs[i].value = strdup(labels->pairs[i].value);
		if (!copy.pairs[i].name || !copy.pairs[i].value)
			return -ENOMEM;
	}
	*ret_copy = copy;
	copy = (struct labels){ 0 };
	return 0;
}

bool labels_equal(const struct labels *labels, const struct labels *other)
{
	if (labels->count != other->count)
		return false;
	for (uint32_t i = 0; i < labels->count; i++)
		if (strcmp(labels->pairs[i].name, other->pairs[i].name) != 0 ||
		    strcmp(labels->pairs[i].value, other->pairs[i].value) != 0)
			return false;
	return true;
}

struct id128 labels_id(const struct labels *labels)
{
	// Each name and value is hashed alone, so that no concatenation is ambiguous.
	uint8_t ids[LABELS_MAX * 2 * ID128_BYTES];
	size_t size = 0;

	for (uint32_t i = 0; i < labels->count && i < LABELS_MAX; i++) {
		const struct label *pair = &labels->pairs[i];

		id128_encode(id128_of(pair->name, strlen(pair->name)), ids + size);
		size += ID128_BYTES;
		id128_encode(id128_of(pair->value, strlen(pair->value)), ids + size);
		size += ID128_BYTES;
	}
	return id128_of(ids, size);
}

int labels_parse_pair(struct labels *labels, const char *pair, struct error *err)
{
	const char *equals = strchr(pair, '=');

	if (!equals)
		return error_set(err, -EINVAL, "label \"%.80s\": write it as name=value", pair);
	if (equals - pair > LABEL_NAME_BYTES_MAX)
		return error_set(err, -EINVAL, "label \"%.80s\": the name is longer than %d bytes",
				 pair, LABEL_NAME_BYTES_MAX);

	char name[LABEL_NAME_BYTES_MAX + 1] = { 0 };
	memcpy(name, pair, (size_t)(equals - pair));
	int rc = labels_set(labels, name, equals + 1);
	if (rc == -EINVAL)
		return error_set(err, rc,
				 "label \"%.80s\": the name must be letters, digits and '_', "
				 "and not begin with a digit",
				 pair);
	if (rc == -E2BIG)
		return error_set(err, rc,
				 "label \"%.80s\": there are %d labels already, which is "
				 "the limit",
				 pair, LABELS_MAX);
	return rc < 0 ? error_errno(err, rc, "label \"%.80s\"", pair) : 0;
}
