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
 * @effective: the CapEff mask of /proc/self/status. @is_root: the remedy is not sudo then. Returns 0, or -EPERM and the names of those missing.
 */
int machine_check_capabilities(uint64_t effective, bool is_root, struct error *err);

/** @capability: of linux/capability.h. */
bool machine_has_capability(int capability);

enum capability_use {
	CAPABILITY_NEEDED,  // else nothing is profiled
	CAPABILITY_NAMES,   // else something has no name
	CAPABILITY_OPTIONAL // its lack is noticed on a busy node only
};

/** A capability that the agent uses. */
struct capability {
	int number; // of linux/capability.h
	enum capability_use use;
	const char *name;    // "CAP_BPF"
	const char *without; // what does not work
};

/**
 * The next capability that the agent uses and that is not in @effective, the most needed first; NULL: no more.
 * @position: 0 at first.
 */
const struct capability *machine_next_missing(uint64_t effective, uint32_t *position);

/** The CapEff mask of this process. Returns 0 or a negative errno. */
int machine_read_capabilities(uint64_t *ret_effective, struct error *err);

/** Is there BTF? @path NULL: /sys/kernel/btf/vmlinux. Returns 0 or -ENOENT. */
int machine_check_btf(const char *path, struct error *err);

/**
 * Is this the root pid namespace, whose pids BPF programs see? @link: target of /proc/self/ns/pid. Returns 0
 * or -EXDEV.
 */
int machine_check_pid_namespace(const char *link, struct error *err);
