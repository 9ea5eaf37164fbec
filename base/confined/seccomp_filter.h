// SPDX-License-Identifier: Apache-2.0
// A seccomp filter from a table of system calls. Calls of another architecture (of x32, too) are always refused with EPERM.
#pragma once

#include <stdint.h>

#include "base/error.h"

enum { SECCOMP_RULES_MAX = 128 }; // a filter has 4096 instructions at most, a rule 9

/** A call by number, if its argument fits: (argument & mask) == value. Mask 0: in any case. */
struct seccomp_rule {
	uint32_t number;
	uint32_t argument; // 0..5
	uint64_t mask, value;
	uint32_t action; // SECCOMP_RET_...; 0: the filter's
};

struct seccomp_filter {
	const struct seccomp_rule *rules; // the first that fits decides
	uint32_t count;
	uint32_t fits;      // SECCOMP_RET_...: of calls with a rule that has no action of its own
	uint32_t otherwise; // of all others
	uint32_t flags;     // SECCOMP_FILTER_FLAG_...
};

/**
 * Install the filter for the calling thread and those it starts from now on; sets no_new_privs. Returns 0, or the
 * listener's descriptor with SECCOMP_FILTER_FLAG_NEW_LISTENER; -errno: the kernel or the container refuses.
 */
int seccomp_filter_install(const struct seccomp_filter *filter, struct error *err);
