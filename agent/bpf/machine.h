// SPDX-License-Identifier: Apache-2.0
// What cairn needs of the machine. Checked first, so that the user reads what is missing and how to get it,
// not a refusal by the kernel.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/** All checks below. Returns 0, or a negative errno and @err with the remedy. */
int machine_check(struct error *err);

/** @release: as uname -r prints it. Returns 0 or -ENOSYS. */
int machine_check_release(const char *release, struct error *err);

/**
 * @effective: the CapEff mask of /proc/self/status. Returns 0, or -EPERM and the names of those missing.
 */
int machine_check_capabilities(uint64_t effective, struct error *err);

/** @capability: of linux/capability.h. */
bool machine_has_capability(int capability);

/** Is there BTF? @path NULL: /sys/kernel/btf/vmlinux. Returns 0 or -ENOENT. */
int machine_check_btf(const char *path, struct error *err);

/**
 * Is this the root pid namespace, whose pids BPF programs see? @link: target of /proc/self/ns/pid. Returns 0
 * or -EXDEV.
 */
int machine_check_pid_namespace(const char *link, struct error *err);
