// SPDX-License-Identifier: Apache-2.0
// Whose a process is: the labels of its series, from what /proc tells about it.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/labels.h"

enum { ENVIRON_BYTES_MAX = 256 << 10 }; // more is not read; services' are a few KiB

/** What was read about a process. Everything may be missing (NULL, 0). */
struct process_traits {
	const char *name;       // comm of its main thread
	const char *executable; // where /proc/PID/exe leads
	const char *environ_;   // /proc/PID/environ: NAME=value, each ended by a NUL
	size_t environ_size;
	const char *cgroup; // /proc/PID/cgroup
	size_t cgroup_size;
	const char *node;
	bool kernel_thread;
};

/**
 * service: OTEL_SERVICE_NAME, else service.name of OTEL_RESOURCE_ATTRIBUTES, else the systemd
 * service, else the executable's name, else the process's ("kernel" for kernel threads). Also process, node, container
 * (id, unless the attributes name it; the id is container_id then), pod_uid, unit, and the
 * attributes' own labels. Of the environment nothing else is looked at.
 * @extra win over all. @ret_labels must be empty. Returns 0 or -ENOMEM.
 */
int process_labels_detect(const struct process_traits *traits, const struct labels *extra,
			  struct labels *ret_labels);
