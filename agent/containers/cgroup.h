// SPDX-License-Identifier: Apache-2.0
// The container, pod and systemd unit of a process, from the paths of its control groups, in the forms of the
// container runtimes and of the kubelet's two cgroup drivers. A path may begin anywhere, even with "/../..", as a container
// sees it.
//
// systemd lets users make groups of any name, and containers may, too: no name within counts as one of the system's. Within a pod or
// container there is no other, and what a user's groups say begins with the user's slice.
#pragma once

#include <stddef.h>

enum {
	CONTAINER_ID_BYTES =
		96, // 64 hex digits, of a user after "user-1000.slice/"; on ECS Fargate 32, '-' and a number
	POD_UID_BYTES = 40,      // a UUID; of static pods 32 hex digits
	CGROUP_UNIT_BYTES = 256, // systemd's UNIT_NAME_MAX
	CGROUP_FILE_BYTES_MAX = 64 << 10,
};

/** Each empty if there is none. */
struct cgroup {
	char container[CONTAINER_ID_BYTES];
	char pod_uid[POD_UID_BYTES];
	/* The innermost of systemd: "nginx.service", a user's "user-1000.slice/nginx.service"; in a container the container's. */
	char unit[CGROUP_UNIT_BYTES];
	/* Who pays for what the process costs: the outermost pod, container or user ("user-1000.slice"), else unit. */
	char payer[CGROUP_UNIT_BYTES];
};

/** Parse /proc/PID/cgroup (version 1, 2 or both), which may hold anything. */
void cgroup_parse(const char *text, size_t size, struct cgroup *ret_cgroup);
