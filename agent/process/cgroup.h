// SPDX-License-Identifier: Apache-2.0
// Which container, pod or service a process is in, told from the paths of its control groups. The
// forms are those of the runtimes and of the kubelet's two drivers; only the last components of a
// path count, because a container's own view begins anywhere (it may even start with "/../..").
#pragma once

#include <stddef.h>

enum {
	CONTAINER_ID_BYTES = 80, // 64 hex digits; on ECS Fargate 32, '-' and a number
	POD_UID_BYTES = 40,      // a UUID; of static pods 32 hex digits
	CGROUP_UNIT_BYTES = 256, // systemd's UNIT_NAME_MAX
	CGROUP_FILE_BYTES_MAX = 64 << 10,
};

/** Each empty if there is none. */
struct cgroup {
	char container[CONTAINER_ID_BYTES];
	char pod_uid[POD_UID_BYTES];
	char unit
		[CGROUP_UNIT_BYTES]; // systemd's: "nginx.service"; within a container that container's
};

/** Read the content of /proc/PID/cgroup (versions 1, 2 or both), which may be anything. */
void cgroup_parse(const char *text, size_t size, struct cgroup *ret_cgroup);
