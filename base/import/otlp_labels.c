// SPDX-License-Identifier: Apache-2.0
#include "base/import/otlp_labels.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/contract/resource_names.h"
#include "base/import/importer.h"
#include "base/label_patterns.h"

static bool set_label(struct labels *labels, const char *name, const char *value, size_t value_size)
{
	return import_label(labels, name, strlen(name), value, value_size);
}

bool otlp_label_set(struct labels *labels, const char *name, size_t name_size, const char *value,
		    size_t value_size)
{
	char text[LABEL_NAME_BYTES_MAX + 1];

	if (name_size >= sizeof(text))
		return false;
	snprintf(text, sizeof(text), "%.*s", (int)name_size, name);
	const struct resource_name *known = resource_name_find(text, RESOURCE_OF_SENDER);
	if (known) {
		if (known->workload_kind)
			set_label(labels, LABEL_WORKLOAD_KIND, known->workload_kind,
				  strlen(known->workload_kind));
		return set_label(labels, known->label, value, value_size);
	}
	if (!resource_name_is_allowed(text))
		return false;
	label_name_from(text, sizeof(text));
	return !label_is_reserved(text) && set_label(labels, text, value, value_size);
}

int otlp_labels_finish(struct labels *labels)
{
	static const char *const names[] = { LABEL_WORKLOAD, LABEL_CONTAINER, LABEL_PROCESS };
	const char *service = labels_get(labels, LABEL_SERVICE);
	char text[LABEL_VALUE_BYTES_MAX + 1];

	for (size_t i = 0; i < ARRAY_SIZE(names) && !service; i++)
		service = labels_get(labels, names[i]);
	snprintf(text, sizeof(text), "%s", service ? service : IMPORT_SERVICE);
	int rc = labels_set(labels, LABEL_SERVICE, text);
	return rc ? rc : import_finish_labels(labels);
}
