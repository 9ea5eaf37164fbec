// SPDX-License-Identifier: Apache-2.0
#include "agent/containers/pod.h"

#include <stdlib.h>
#include <string.h>

void pod_free(struct pod *pod)
{
	if (!pod)
		return;
	for (uint32_t i = 0; i < pod->container_count; i++) {
		free(pod->containers[i].name);
		free(pod->containers[i].version);
		meta_labels_deinit(&pod->containers[i].meta);
	}
	free(pod->containers);
	free(pod->service);
	meta_labels_deinit(&pod->meta);
	labels_deinit(&pod->labels);
	free(pod);
}

static bool texts_equal(const char *text, const char *other)
{
	return text && other ? strcmp(text, other) == 0 : text == other;
}

static bool containers_equal(const struct pod_container *container,
			     const struct pod_container *other)
{
	return texts_equal(container->name, other->name) &&
	       texts_equal(container->version, other->version) &&
	       texts_equal(container->id, other->id) &&
	       meta_labels_equal(&container->meta, &other->meta);
}

bool pod_equals(const struct pod *pod, const struct pod *other)
{
	if (!texts_equal(pod->uid, other->uid) ||
	    !texts_equal(pod->cgroup_uid, other->cgroup_uid) ||
	    !texts_equal(pod->service, other->service) || pod->is_excluded != other->is_excluded ||
	    pod->container_count != other->container_count ||
	    !labels_equal(&pod->labels, &other->labels) ||
	    !meta_labels_equal(&pod->meta, &other->meta))
		return false;
	for (uint32_t i = 0; i < pod->container_count; i++)
		if (!containers_equal(&pod->containers[i], &other->containers[i]))
			return false;
	return true;
}

const struct pod_container *pod_find_container(const struct pod *pod, const char *id)
{
	for (uint32_t i = 0; id[0] && i < pod->container_count; i++)
		if (strcmp(pod->containers[i].id, id) == 0)
			return &pod->containers[i];
	return NULL;
}
