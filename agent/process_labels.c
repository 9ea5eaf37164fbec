// SPDX-License-Identifier: Apache-2.0
#include "process_labels.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cgroup.h"

enum { ATTRIBUTES_MAX = 64 }; // more pairs than this in one variable are not looked at

/** OpenTelemetry's resource attributes that have a name of ours. */
static const struct {
	const char *attribute;
	const char *label;
} known_attributes[] = {
	{ "service.name", LABEL_SERVICE },
	{ "service.namespace", "namespace" },
	{ "service.version", "version" },
	{ "deployment.environment", "environment" },
	{ "deployment.environment.name", "environment" },
	{ "k8s.namespace.name", "namespace" },
	{ "k8s.pod.name", "pod" },
	{ "k8s.node.name", LABEL_NODE },
	{ "host.name", LABEL_NODE },
	{ "container.id", "container" },
};

/** The value of NAME= in an environment block, or NULL. Values without a NUL (cut) are not taken. */
static const char *find_variable(const char *block, size_t size, const char *name)
{
	size_t name_size = strlen(name);
	const char *end = block + size;

	while (block < end) {
		const char *nul = memchr(block, '\0', end - block);
		if (!nul)
			return NULL;
		if ((size_t)(nul - block) > name_size && !memcmp(block, name, name_size) &&
		    block[name_size] == '=')
			return block + name_size + 1;
		block = nul + 1;
	}
	return NULL;
}

static int hex_digit(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

/** Percent-decode in place, as W3C Baggage values are written. A stray '%' stays; "%00" is dropped. */
static void percent_decode(char *text)
{
	char *to = text;

	for (const char *from = text; *from; from++) {
		char c = *from;
		if (c == '%' && isxdigit((unsigned char)from[1]) &&
		    isxdigit((unsigned char)from[2])) {
			c = hex_digit(from[1]) << 4 | hex_digit(from[2]);
			from += 2;
			if (!c)
				continue;
		}
		*to++ = c;
	}
	*to = '\0';
}

/** Our name for an attribute: from the table, else with '_' for what a label name cannot have. */
static void label_name(const char *attribute, char *ret_name, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(known_attributes); i++) {
		if (!strcmp(attribute, known_attributes[i].attribute))
			attribute = known_attributes[i].label;
	}
	size_t at = 0;
	if (isdigit((unsigned char)attribute[0]))
		ret_name[at++] = '_';
	for (; *attribute && at + 1 < size; attribute++)
		ret_name[at++] = isalnum((unsigned char)*attribute) ? *attribute : '_';
	ret_name[at] = '\0';
}

static char *trim(char *text)
{
	while (isspace((unsigned char)*text))
		text++;
	size_t size = strlen(text);
	while (size && isspace((unsigned char)text[size - 1]))
		text[--size] = '\0';
	return text;
}

/** One label more; a name or value that cannot be one is left out, only memory can fail. */
static int set_label(struct labels *labels, const char *name, const char *value)
{
	return value && labels_set(labels, name, value) == -ENOMEM ? -ENOMEM : 0;
}

/** "key1=value1,key2=value2" (OTEL_RESOURCE_ATTRIBUTES, OpenTelemetry specification, Resource SDK). */
static int set_attributes(struct labels *labels, const char *attributes)
{
	_cleanup_free_ char *copy = strdup(attributes);
	char *rest = copy, *pair;

	if (!copy)
		return -ENOMEM;
	for (int i = 0; i < ATTRIBUTES_MAX && (pair = strsep(&rest, ",")); i++) {
		char *equals = strchr(pair, '=');
		char name[LABEL_NAME_BYTES_MAX + 1];

		if (!equals)
			continue;
		*equals = '\0';
		label_name(trim(pair), name, sizeof(name));
		char *value = trim(equals + 1);
		percent_decode(value);
		int rc = set_label(labels, name, value);
		if (rc)
			return rc;
	}
	return 0;
}

static int set_environ(struct labels *labels, const struct process_traits *traits)
{
	const char *attributes =
		find_variable(traits->environ_, traits->environ_size, "OTEL_RESOURCE_ATTRIBUTES");
	const char *service =
		find_variable(traits->environ_, traits->environ_size, "OTEL_SERVICE_NAME");
	int rc = attributes ? set_attributes(labels, attributes) : 0;

	if (!rc && service && *service)
		rc = set_label(labels, LABEL_SERVICE, service);
	return rc;
}

/** "nginx.service" is shown as the service "nginx". */
static int set_service_of_unit(struct labels *labels, const char *unit)
{
	char name[UNIT_BYTES];
	size_t size = strlen(unit) - strlen(".service");

	memcpy(name, unit, size);
	name[size] = '\0';
	return set_label(labels, LABEL_SERVICE, name);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/** What the service is called when nobody said: executable, else process. */
static const char *fallback_service(const struct process_traits *traits)
{
	if (traits->kernel_thread)
		return "kernel";
	if (traits->executable && *traits->executable)
		return base_name(traits->executable);
	return traits->name && *traits->name ? traits->name : "unknown";
}

static int set_detected(struct labels *labels, const struct process_traits *traits)
{
	struct cgroup cgroup;

	cgroup_parse(traits->cgroup, traits->cgroup ? traits->cgroup_size : 0, &cgroup);
	int rc = set_label(labels, LABEL_SERVICE, fallback_service(traits));
	if (!rc && cgroup.unit[0] && !cgroup.container[0])
		rc = set_service_of_unit(labels, cgroup.unit);
	if (!rc)
		rc = set_label(labels, LABEL_NODE, traits->node);
	if (!rc)
		rc = set_label(labels, "container", cgroup.container);
	if (!rc)
		rc = set_label(labels, "unit", cgroup.unit);
	if (!rc && traits->environ_)
		rc = set_environ(labels, traits);
	if (!rc)
		rc = set_label(labels, LABEL_PROCESS, traits->name);
	return rc;
}

int process_labels_detect(const struct process_traits *traits, const struct labels *extra,
			  struct labels *ret_labels)
{
	struct labels labels = { 0 };
	int rc = set_detected(&labels, traits);

	for (uint32_t i = 0; !rc && extra && i < extra->count; i++)
		rc = set_label(&labels, extra->pairs[i].name, extra->pairs[i].value);
	if (rc) {
		labels_deinit(&labels);
		return rc;
	}
	*ret_labels = labels;
	return 0;
}
