// SPDX-License-Identifier: Apache-2.0
#include "base/import/otlp_labels.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/import/importer.h"
#include "base/label_patterns.h"

static const char patterns[] = "service.*,deployment.*";

// OpenTelemetry's semantic conventions under our names. `workload` has the kind of its attribute.
static const struct {
	const char *attribute, *label, *workload_kind;
} known[] = {
	{ "service.name", LABEL_SERVICE, NULL },
	{ "service.version", LABEL_VERSION, NULL },
	{ "service.instance.id", "instance", NULL },
	{ "deployment.environment", "environment", NULL },
	{ "deployment.environment.name", "environment", NULL },
	{ "host.name", LABEL_NODE, NULL },
	{ "k8s.node.name", LABEL_NODE, NULL },
	{ "k8s.namespace.name", LABEL_NAMESPACE, NULL },
	{ "k8s.pod.name", LABEL_POD, NULL },
	{ "k8s.pod.uid", LABEL_POD_UID, NULL },
	{ "k8s.container.name", LABEL_CONTAINER, NULL },
	{ "k8s.deployment.name", LABEL_WORKLOAD, "deployment" },
	{ "k8s.statefulset.name", LABEL_WORKLOAD, "statefulset" },
	{ "k8s.daemonset.name", LABEL_WORKLOAD, "daemonset" },
	{ "k8s.cronjob.name", LABEL_WORKLOAD, "cronjob" },
	{ "k8s.job.name", LABEL_WORKLOAD, "job" },
	{ "k8s.cluster.name", "cluster", NULL },
	{ "cloud.region", "region", NULL },
	{ "cloud.availability_zone", "zone", NULL },
	{ "container.id", LABEL_CONTAINER_ID, NULL },
	{ "container.name", LABEL_CONTAINER, NULL },
	{ "process.executable.name", LABEL_PROCESS, NULL },
	{ "thread.name", LABEL_THREAD, NULL },
};

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
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (strcmp(text, known[i].attribute) != 0)
			continue;
		if (known[i].workload_kind)
			set_label(labels, LABEL_WORKLOAD_KIND, known[i].workload_kind,
				  strlen(known[i].workload_kind));
		return set_label(labels, known[i].label, value, value_size);
	}
	if (!label_patterns_match(patterns, text))
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
