// SPDX-License-Identifier: Apache-2.0
// What cairn needs of the machine, checked before anything is loaded, so that the user reads what is
// missing and how to get it instead of a refusal by the kernel.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/** All of the checks below, on this machine. Returns 0, or a negative errno and @err with the remedy. */
int machine_check(struct error *err);

/** Is @release (as uname -r prints it) new enough? 0, or -ENOSYS. */
int machine_check_release(const char *release, struct error *err);

/**
 * Are the capabilities there without which nothing works? @effective is the CapEff mask of
 * /proc/self/status. 0, or -EPERM naming those that are missing.
 */
int machine_check_capabilities(uint64_t effective, struct error *err);

/** Does this process have the capability, of linux/capability.h, in effect? */
bool machine_has_capability(int capability);

/** Does the kernel describe its types? @path NULL: /sys/kernel/btf/vmlinux. 0, or -ENOENT. */
int machine_check_btf(const char *path, struct error *err);

/**
 * Do the kernel's pids mean the same to us? @link is what /proc/self/ns/pid points to.
 * 0, or -EXDEV in a pid namespace of a container.
 */
int machine_check_pid_namespace(const char *link, struct error *err);
