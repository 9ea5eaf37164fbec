// SPDX-License-Identifier: Apache-2.0
// Whose a process is: the labels of its series. Of a process's environment only
// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES are looked at; nothing else of it, nor its
// command line, leaves the node.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/labels.h"

enum {
	ENVIRON_BYTES_MAX = 256 << 10, // of /proc/PID/environ; the rest is not looked at
};

/** What is known of a process. Strings may be NULL or "". */
struct process_traits {
	const char *name;       // comm of its main thread
	const char *executable; // path
	const char *node;       // this machine's name
	const char *cgroup;     // text of /proc/PID/cgroup
	size_t cgroup_size;
	const char *environ_; // /proc/PID/environ: NAME=VALUE, each with its NUL
	size_t environ_size;
	bool kernel_thread;
};

/**
 * Labels of a process: "service" from the first of OTEL_SERVICE_NAME, the attribute service.name,
 * the systemd unit, the executable's name, the process's name; "process", "node"; "container" and
 * "unit" where it has them; the other resource attributes, named as cairn does ("namespace",
 * "version", "environment", "pod" ...). @extra (may be NULL) wins over all of them.
 * Returns 0 or -ENOMEM; attributes that cannot be labels are left out.
 */
int process_labels_detect(const struct process_traits *traits, const struct labels *extra,
			  struct labels *ret_labels);
