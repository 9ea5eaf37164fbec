// SPDX-License-Identifier: Apache-2.0
#include "base/contract/resource_names.h"

#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/label_patterns.h"

#define PROCESS RESOURCE_OF_PROCESS
#define SENDER  RESOURCE_OF_SENDER
#define LABEL   RESOURCE_OF_LABEL

static const char allowed[] = "service.*,deployment.*";

// `namespace`, `pod` and `container` are reserved: they are the process's word only where the operator allows
// Kubernetes' attributes.
static const struct resource_name names[] = {
	{ "service.name", LABEL_SERVICE, PROCESS | SENDER | LABEL, NULL },
	{ "service.version", LABEL_VERSION, PROCESS | SENDER | LABEL, NULL },
	{ "service.instance.id", "instance", PROCESS | SENDER | LABEL, NULL },
	{ "deployment.environment", "environment", PROCESS | SENDER, NULL },
	{ "deployment.environment.name", "environment", PROCESS | SENDER | LABEL, NULL },
	{ "host.name", LABEL_NODE, SENDER | LABEL, NULL },
	{ "k8s.node.name", LABEL_NODE, SENDER, NULL },
	{ "k8s.namespace.name", LABEL_NAMESPACE, PROCESS | SENDER | LABEL, NULL },
	{ "k8s.pod.name", LABEL_POD, PROCESS | SENDER | LABEL, NULL },
	{ "k8s.pod.uid", LABEL_POD_UID, SENDER | LABEL, NULL },
	{ "container.name", LABEL_CONTAINER, SENDER | LABEL, NULL },
	{ "k8s.container.name", LABEL_CONTAINER, PROCESS | SENDER, NULL },
	{ "k8s.deployment.name", "deployment", PROCESS, NULL },
	{ "k8s.deployment.name", LABEL_WORKLOAD, SENDER | LABEL, "deployment" },
	{ "k8s.statefulset.name", LABEL_WORKLOAD, SENDER | LABEL, "statefulset" },
	{ "k8s.daemonset.name", LABEL_WORKLOAD, SENDER | LABEL, "daemonset" },
	{ "k8s.cronjob.name", LABEL_WORKLOAD, SENDER | LABEL, "cronjob" },
	{ "k8s.job.name", LABEL_WORKLOAD, SENDER | LABEL, "job" },
	{ "k8s.cluster.name", "cluster", PROCESS | SENDER | LABEL, NULL },
	{ "cloud.region", "region", PROCESS | SENDER | LABEL, NULL },
	{ "cloud.availability_zone", "zone", PROCESS | SENDER | LABEL, NULL },
	{ "container.id", LABEL_CONTAINER_ID, SENDER | LABEL, NULL },
	{ "process.executable.name", LABEL_PROCESS, SENDER | LABEL, NULL },
	{ "thread.name", LABEL_THREAD, SENDER, NULL },
};

// A mask of rows has a bit for each (agent/process/resource_attributes.c).
_Static_assert(ARRAY_SIZE(names) <= 64, "rows of names");

const struct resource_name *resource_names(uint32_t *ret_count)
{
	*ret_count = ARRAY_SIZE(names);
	return names;
}

const struct resource_name *resource_name_find(const char *attribute, enum resource_use use)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if ((names[i].uses & use) && strcmp(names[i].attribute, attribute) == 0)
			return &names[i];
	return NULL;
}

bool resource_name_is_allowed(const char *attribute)
{
	return label_patterns_match(allowed, attribute);
}

const char *resource_name_of_label(const char *label, const char *workload_kind)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *kind = names[i].workload_kind;

		if (!(names[i].uses & RESOURCE_OF_LABEL) || strcmp(names[i].label, label) != 0)
			continue;
		if (!kind || (workload_kind && strcmp(kind, workload_kind) == 0))
			return names[i].attribute;
	}
	return NULL;
}
