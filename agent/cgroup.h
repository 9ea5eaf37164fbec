// SPDX-License-Identifier: Apache-2.0
// Which container or systemd unit a process belongs to, read from the text of /proc/PID/cgroup.
#pragma once

#include <stddef.h>

enum {
	CONTAINER_ID_BYTES = 65,     // 64 hex digits and the NUL
	UNIT_BYTES = 256,            // NAME_MAX and the NUL
	CGROUP_BYTES_MAX = 16 << 10, // of /proc/PID/cgroup; v1 has about a dozen lines
};

struct cgroup {
	char container[CONTAINER_ID_BYTES]; // "": none
	char unit[UNIT_BYTES];              // "nginx.service"; "": none
};

/**
 * Read all lines ("hierarchy:controllers:path"). The last component of a path decides: a container
 * engine's 64 hex digits with whatever prefix and ".scope" it wears (docker-, cri-containerd-,
 * libpod-, crio-), else the innermost systemd service. Paths of another cgroup namespace
 * ("/../../pod...") are fine. Bytes that make no sense are skipped.
 */
void cgroup_parse(const char *text, size_t size, struct cgroup *ret_cgroup);
