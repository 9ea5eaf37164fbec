// SPDX-License-Identifier: Apache-2.0
// The labels of a process's series, from what /proc has of it.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "agent/containers/container_record.h"
#include "agent/containers/pod_table.h"
#include "base/labels.h"

enum { ENVIRON_BYTES_MAX = 256 << 10 }; // that are read; a service has a few KiB

/** What was read from /proc. Anything may be missing (NULL, 0). */
struct process_traits {
	const char *name;       // comm of its main thread
	const char *executable; // target of /proc/PID/exe
	const char
		*command; // first word of /proc/PID/cmdline, of a program in memory; NULL: not read
	const char *environ_; // /proc/PID/environ: NAME=value, each ended by a NUL
	size_t environ_size;
	const char *cgroup; // /proc/PID/cgroup
	size_t cgroup_size;
	const struct container_record
		*container; // Docker's or Podman's, outside of pods; NULL: none
	const char *node;
	const char *attribute_patterns; // --resource-attributes: resource_attributes.h
	bool kernel_thread;
};

/**
 * The labels that the process itself gives. Its service is OTEL_SERVICE_NAME, else service.name of
 * OTEL_RESOURCE_ATTRIBUTES, else Compose's or the container's name, else the systemd service, else the executable's
 * name (of a file in memory: the command's), else the process's; "kernel" for kernel threads. What comes after
 * service.name gives way to the pod (process_labels_add_pod()); relabel rules come last (label_set_relabel()).
 *
 * Also set: process, node, container (its name; the id where no name is known), container_id, version,
 * compose_project, pod_uid, unit, and the labels of allowed attributes. Nothing else of the environment is read.
 * @extra win over all. *ret_labels must be empty. *ret_own_service: the process itself or @extra name the service, or
 * it is the kernel. Adds to *refused the attributes that became no label. Returns 0 or -ENOMEM.
 */
int process_labels_detect(const struct process_traits *traits, const struct labels *extra,
			  struct labels *ret_labels, bool *ret_own_service, uint64_t *refused);

/**
 * Add to detected labels what its pod says. The server's word on namespace, pod and container wins over the process's,
 * the process's on its service (@own_service) and version over the pod's, and @extra over all. Returns 0 or -ENOMEM.
 */
int process_labels_add_pod(struct labels *labels, const struct pod_match *pod, bool own_service,
			   const struct labels *extra);

/** Add what the cluster says of the node: it wins over the process, and @extra over it. Returns 0 or -ENOMEM. */
int process_labels_add_node(struct labels *labels, const struct labels *node,
			    const struct labels *extra);

/** A pod's first process, which only holds its namespaces: no list of the pod's containers has it. */
bool process_labels_is_pause(const struct labels *detected);

/** Is @executable, a target of /proc/PID/exe, a file in memory? */
bool process_labels_is_in_memory(const char *executable);
