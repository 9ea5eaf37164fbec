// SPDX-License-Identifier: Apache-2.0
#include "agent/process/resource_attributes.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/label_patterns.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/contract/label_names.h"
#include "base/contract/resource_names.h"

struct attribute {
	char name[LABEL_NAME_BYTES_MAX];
	char value[RESOURCE_ATTRIBUTE_VALUE_MAX];
	uint32_t rank; // row of resource_names() + 1; 0: not well-known
};

/* Copy without surrounding blanks, with %XX decoded, cut to @ret_size. */
static void decode(const char *text, size_t size, char *ret_text, size_t ret_size)
{
	size_t length = 0;

	while (size && (*text == ' ' || *text == '\t'))
		text++, size--;
	while (size && (text[size - 1] == ' ' || text[size - 1] == '\t'))
		size--;
	for (size_t i = 0; i < size && length < ret_size - 1; i++) {
		int high = text[i] == '%' && size - i > 2 ? text_hex_digit(text[i + 1]) : -1;
		int low = high >= 0 ? text_hex_digit(text[i + 2]) : -1;

		if (low >= 0 && (high || low)) { // %00 would end the string: kept as it is
			ret_text[length++] = (char)(high << 4 | low);
			i += 2;
		} else {
			ret_text[length++] = text[i];
		}
	}
	ret_text[length] = '\0';
	utf8_clean(ret_text);
}

/* Turn an attribute's name into a label's: [a-zA-Z_][a-zA-Z0-9_]*. False: the label is reserved. */
static bool name_label(struct attribute *attribute)
{
	const struct resource_name *name = resource_name_find(attribute->name, RESOURCE_OF_PROCESS);
	uint32_t count;

	if (name) {
		attribute->rank = (uint32_t)(name - resource_names(&count)) + 1;
		snprintf(attribute->name, sizeof(attribute->name), "%s", name->label);
		return true;
	}
	label_name_from(attribute->name, sizeof(attribute->name));
	return !label_is_reserved(attribute->name);
}

/* False: it says nothing. */
static bool parse_attribute(const char *text, size_t size, struct attribute *ret_attribute)
{
	const char *equals = memchr(text, '=', size);

	if (!equals)
		return false;
	ret_attribute->rank = 0;
	decode(text, (size_t)(equals - text), ret_attribute->name, sizeof(ret_attribute->name));
	decode(equals + 1, size - (size_t)(equals + 1 - text), ret_attribute->value,
	       sizeof(ret_attribute->value));
	return ret_attribute->name[0] && ret_attribute->value[0];
}

static bool is_allowed(struct attribute *attribute, const char *patterns)
{
	return (resource_name_is_allowed(attribute->name) ||
		label_patterns_match(patterns, attribute->name)) &&
	       name_label(attribute);
}

/* Which row last set each label: the later row wins in any order of attributes. */
struct setting {
	struct labels *labels;
	uint32_t added;
	uint64_t ranks; // rows that set theirs: one bit each
};

/* Did a later row set the label of row @rank? */
static bool is_outranked(const struct setting *setting, uint32_t rank)
{
	uint32_t count;
	const struct resource_name *names = resource_names(&count);

	for (uint32_t i = rank; i < count; i++)
		if ((setting->ranks >> i & 1) && strcmp(names[i].label, names[rank - 1].label) == 0)
			return true;
	return false;
}

/* Returns 1 if there is room for no more, or -ENOMEM. */
static int set_attribute(struct setting *setting, const struct attribute *attribute)
{
	uint32_t rank = attribute->rank;

	if (rank ? is_outranked(setting, rank)
		 : labels_get(setting->labels, attribute->name) != NULL)
		return 0;
	if (!rank && setting->added >= RESOURCE_ATTRIBUTES_MAX)
		return 1;
	int rc = labels_set(setting->labels, attribute->name, attribute->value);
	if (rc)
		return rc == -ENOMEM ? rc : 1;
	if (rank)
		setting->ranks |= 1ULL << (rank - 1);
	else
		setting->added++;
	return 0;
}

int resource_attributes_add(struct labels *labels, const char *patterns, const char *text,
			    size_t size, uint64_t *refused)
{
	struct setting setting = { .labels = labels };

	for (uint32_t count = 0; size; count++) {
		const char *comma = memchr(text, ',', size);
		size_t pair_size = comma ? (size_t)(comma - text) : size;
		struct attribute attribute;
		int rc = 0;

		if (count == RESOURCE_ATTRIBUTES_READ_MAX) {
			*refused += 1;
			return 0;
		}
		if (parse_attribute(text, pair_size, &attribute))
			rc = is_allowed(&attribute, patterns) ? set_attribute(&setting, &attribute)
							      : 1;
		if (rc < 0)
			return rc;
		*refused += (uint64_t)rc;
		text += pair_size + !!comma;
		size -= pair_size + !!comma;
	}
	return 0;
}
