// SPDX-License-Identifier: Apache-2.0
#include "base/contract/label_names.h"

#include <string.h>

#include "base/cleanup.h"

static const struct label_spec labels[] = {
	{ LABEL_TENANT, "who owns the series: the tenant of the agent's credential" },
	{ LABEL_SERVICE,
	  "the service: OTEL_SERVICE_NAME, the pod's name label or workload, the systemd "
	  "unit, or the executable" },
	{ LABEL_NODE, "the machine's host name" },
	{ LABEL_PROCESS, "the process's comm" },
	{ LABEL_THREAD, "the thread's comm" },
	{ LABEL_CONTAINER, "the container's name, or its id where no name is known" },
	{ LABEL_CONTAINER_ID, "the container's id" },
	{ LABEL_POD, "the Kubernetes pod's name" },
	{ LABEL_POD_UID, "the Kubernetes pod's uid" },
	{ LABEL_NAMESPACE, "the Kubernetes namespace" },
	{ LABEL_WORKLOAD,
	  "what the Kubernetes pod is a part of: the Deployment's name, or other owner's" },
	{ LABEL_WORKLOAD_KIND, "deployment, statefulset, daemonset, job, cronjob, static ..." },
	{ LABEL_VERSION,
	  "the service's version: service.version, or the tag of the container's image" },
	{ LABEL_UNIT, "the systemd unit; a user's after user-1000.slice/" },
	{ LABEL_WAIT, "what a blocked thread waits for" },
	{ LABEL_STATE, "what a thread does: running, in the run queue, blocked" },
	{ LABEL_DIRECTION, "where a GPU copy goes" },
	{ LABEL_MEMORY, "the host memory of a GPU copy: pinned, pageable or unknown" },
	{ LABEL_GRID, "blocks of a GPU kernel's grid, by powers of two: 1, 2-3, 4-7 ..." },
	{ LABEL_COLLECTIVE, "the NCCL operation: all_reduce, broadcast ..." },
	{ LABEL_COMMUNICATOR, "the NCCL communicator, the same in all its ranks" },
	{ LABEL_RANK, "the rank in the communicator" },
	{ LABEL_RANKS, "the communicator's number of ranks" },
	{ LABEL_GPU, "the GPU's index on its machine" },
	{ LABEL_GPU_UUID, "the UUID of the GPU or MIG instance" },
	{ LABEL_GPU_MODEL, "the GPU's product name" },
	{ LABEL_GPU_INSTANCE, "the MIG instance's id" },
	{ LABEL_REASON, "why a GPU's clocks are throttled" },
	{ LABEL_PROGRAM, "a BPF program by name, or a part of the agent" },
	{ LABEL_COUNTER, "a counter of the agent or its BPF programs" },
	{ LABEL_KNOB, "what load shedding turns down" },
	{ LABEL_STEP, "how far: 1/16, 19Hz, off ..." },
	{ LABEL_PID, "the process that a knob is about" },
	{ LABEL_COMM, "that process's comm" },
	{ LABEL_OTHER, "the quota of series that was reached: process, service, node, tenant or "
		       "collector; labels "
		       "that made the excess are missing" },
};

const struct label_spec *label_specs(uint32_t *ret_count)
{
	*ret_count = ARRAY_SIZE(labels);
	return labels;
}

bool label_is_reserved(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(labels); i++)
		if (strcmp(labels[i].name, name) == 0)
			return true;
	return false;
}
