// SPDX-License-Identifier: Apache-2.0
// A pod of Kubernetes, as far as it names its processes.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/containers/cgroup.h"
#include "agent/relabel/meta_labels.h"
#include "base/labels.h"

enum {
	POD_CONTAINERS_MAX = 64, // with init and ephemeral ones; more stay without a name
	POD_LABELS_MAX = 8,      // chosen labels and annotations; LABELS_MAX bounds all labels
};

struct pod_container {
	char *name;
	char *version;               // the image's tag, or the begin of its digest; NULL: neither
	char id[CONTAINER_ID_BYTES]; // "": it has none yet
	struct meta_labels meta;
};

struct pod {
	char uid[POD_UID_BYTES];        // the API server's
	char cgroup_uid[POD_UID_BYTES]; // the one in cgroup paths: another for static pods
	struct labels labels;           // namespace, pod, workload, chosen ones
	char *service;                  // by label or workload; NULL: the container's name
	struct meta_labels meta;        // that relabel rules read
	struct pod_container *containers;
	uint32_t container_count;
	bool is_excluded; // it is not to be profiled
};

/** NULL is allowed. */
void pod_free(struct pod *pod);

static inline void pod_freep(struct pod **pod)
{
	pod_free(*pod);
}

/** Do they name their processes alike? */
bool pod_equals(const struct pod *pod, const struct pod *other);

/** The container with @id, or NULL. */
const struct pod_container *pod_find_container(const struct pod *pod, const char *id);
