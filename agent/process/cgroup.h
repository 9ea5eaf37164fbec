// SPDX-License-Identifier: Apache-2.0
// The container, pod and systemd unit of a process, from the paths of its control groups, in the forms of the
// container runtimes and of the kubelet's two cgroup drivers. Only the last components of a path count: a
// container's own view begins anywhere, even with "/../..".
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
	char unit[CGROUP_UNIT_BYTES]; // systemd's: "nginx.service"; in a container the container's
};

/** Parse /proc/PID/cgroup (version 1, 2 or both), which may hold anything. */
void cgroup_parse(const char *text, size_t size, struct cgroup *ret_cgroup);

/** What a process shares with those that it was started with: its pod, else container, else unit; or empty. */
const char *cgroup_shared(const struct cgroup *cgroup);
