// SPDX-License-Identifier: Apache-2.0
#include "agent/relabel/meta_labels.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

void meta_labels_deinit(struct meta_labels *meta)
{
	buffer_deinit(&meta->pairs);
	*meta = (struct meta_labels){ 0 };
}

void meta_labels_name(const char *prefix, const char *name,
		      char ret_name[META_LABEL_NAME_BYTES_MAX + 1])
{
	snprintf(ret_name, META_LABEL_NAME_BYTES_MAX + 1, "%s%s", prefix, name);
	for (char *at = ret_name; *at; at++)
		if ((unsigned char)*at >= 0x80 || !isalnum((unsigned char)*at))
			*at = '_';
}

static int add(struct meta_labels *meta, const char *name, const char *value)
{
	size_t name_size = strlen(name) + 1, value_size = strlen(value) + 1;

	if (meta->count == META_LABELS_MAX ||
	    name_size + value_size > META_LABELS_BYTES_MAX - meta->pairs.size) {
		meta->dropped++;
		return 0;
	}
	char *pair = buffer_extend(&meta->pairs, name_size + value_size);
	if (!pair)
		return -ENOMEM;
	memcpy(pair, name, name_size);
	memcpy(pair + name_size, value, value_size);
	meta->count++;
	return 0;
}

int meta_labels_add(struct meta_labels *meta, const char *prefix, const char *name,
		    const char *value)
{
	char full_name[META_LABEL_NAME_BYTES_MAX + 1], clean[META_LABEL_VALUE_BYTES_MAX + 1];

	meta_labels_name(prefix, name, full_name);
	snprintf(clean, sizeof(clean), "%s", value);
	utf8_clean(clean);
	return clean[0] ? add(meta, full_name, clean) : 0;
}

int meta_labels_add_all(struct meta_labels *meta, const struct meta_labels *other)
{
	const char *name, *value;
	size_t at = 0;
	int rc = 0;

	while (!rc && meta_labels_next(other, &at, &name, &value))
		rc = add(meta, name, value);
	meta->dropped += other->dropped;
	return rc;
}

bool meta_labels_equal(const struct meta_labels *meta, const struct meta_labels *other)
{
	return meta->count == other->count && meta->pairs.size == other->pairs.size &&
	       (!meta->count ||
		memcmp(meta->pairs.bytes, other->pairs.bytes, meta->pairs.size) == 0);
}

bool meta_labels_next(const struct meta_labels *meta, size_t *at, const char **ret_name,
		      const char **ret_value)
{
	if (*at >= meta->pairs.size)
		return false;
	const char *name = (const char *)meta->pairs.bytes + *at;
	const char *value = name + strlen(name) + 1;

	*at += (size_t)(value - name) + strlen(value) + 1;
	*ret_name = name;
	*ret_value = value;
	return true;
}
