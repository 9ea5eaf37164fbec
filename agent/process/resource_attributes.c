// SPDX-License-Identifier: Apache-2.0
#include "agent/process/resource_attributes.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/contract/label_names.h"

/* OpenTelemetry's semantic conventions. A later row wins over an earlier one with the same label. */
static const struct {
	const char *attribute;
	const char *label;
} known[] = {
	{ "service.name", LABEL_SERVICE },
	{ "service.namespace", LABEL_NAMESPACE },
	{ "k8s.namespace.name", LABEL_NAMESPACE },
	{ "service.version", "version" },
	{ "service.instance.id", "instance" },
	{ "deployment.environment", "environment" },
	{ "deployment.environment.name", "environment" },
	{ "k8s.pod.name", LABEL_POD },
	{ "k8s.pod.uid", LABEL_POD_UID },
	{ "k8s.container.name", LABEL_CONTAINER },
	{ "container.id", LABEL_CONTAINER_ID },
	{ "k8s.deployment.name", "deployment" },
	{ "k8s.cluster.name", "cluster" },
	{ "cloud.region", "region" },
	{ "cloud.availability_zone", "zone" },
};

static const char *const left_out[] = {
	"telemetry.", "process.", "host.",       "os.",
	"k8s.node.",  LABEL_NODE, LABEL_PROCESS, LABEL_THREAD,
};

struct attribute {
	char name[LABEL_NAME_BYTES_MAX];
	char value[RESOURCE_ATTRIBUTE_VALUE_MAX];
	int rank; // row of known + 1; 0: not well-known
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

static bool is_left_out(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(left_out); i++) {
		size_t size = strlen(left_out[i]);
		bool is_family = left_out[i][size - 1] == '.';

		if (is_family ? strncmp(name, left_out[i], size) == 0
			      : strcmp(name, left_out[i]) == 0)
			return true;
	}
	return false;
}

/* Turn an attribute's name into a label's: [a-zA-Z_][a-zA-Z0-9_]*. */
static void name_label(struct attribute *attribute)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(attribute->name, known[i].attribute) == 0) {
			attribute->rank = (int)i + 1;
			snprintf(attribute->name, sizeof(attribute->name), "%s", known[i].label);
			return;
		}
	for (char *at = attribute->name; *at; at++)
		if (!isalnum((unsigned char)*at) || (unsigned char)*at >= 0x80)
			*at = '_';
	if (isdigit((unsigned char)attribute->name[0])) {
		memmove(attribute->name + 1, attribute->name, sizeof(attribute->name) - 2);
		attribute->name[0] = '_';
	}
}

static bool parse_attribute(const char *text, size_t size, struct attribute *ret_attribute)
{
	const char *equals = memchr(text, '=', size);

	if (!equals)
		return false;
	ret_attribute->rank = 0;
	decode(text, (size_t)(equals - text), ret_attribute->name, sizeof(ret_attribute->name));
	decode(equals + 1, size - (size_t)(equals + 1 - text), ret_attribute->value,
	       sizeof(ret_attribute->value));
	if (!ret_attribute->name[0] || !ret_attribute->value[0] || is_left_out(ret_attribute->name))
		return false;
	name_label(ret_attribute);
	return !is_left_out(ret_attribute->name);
}

/* Which row last set each label: the later row wins in any order of attributes. */
struct setting {
	struct labels *labels;
	uint32_t added;
	int ranks[ARRAY_SIZE(known)];
};

static int set_attribute(struct setting *setting, const struct attribute *attribute)
{
	int rank = attribute->rank;

	for (size_t i = 0; rank && i < ARRAY_SIZE(known); i++)
		if (strcmp(known[i].label, attribute->name) == 0 && setting->ranks[i] > rank)
			return 0;
	if (!rank && (setting->added >= RESOURCE_ATTRIBUTES_MAX ||
		      labels_get(setting->labels, attribute->name)))
		return 0;
	int rc = labels_set(setting->labels, attribute->name, attribute->value);
	if (rc == -ENOMEM)
		return rc;
	if (rank)
		setting->ranks[rank - 1] = rank;
	else
		setting->added++;
	return 0;
}

int resource_attributes_add(struct labels *labels, const char *text, size_t size)
{
	struct setting setting = { .labels = labels };

	while (size) {
		const char *comma = memchr(text, ',', size);
		size_t pair_size = comma ? (size_t)(comma - text) : size;
		struct attribute attribute;

		if (parse_attribute(text, pair_size, &attribute)) {
			int rc = set_attribute(&setting, &attribute);
			if (rc)
				return rc;
		}
		text += pair_size + !!comma;
		size -= pair_size + !!comma;
	}
	return 0;
}
