// SPDX-License-Identifier: Apache-2.0
// BPF programs attached to places in a file, for all processes that map it now or later. Since Linux 6.6
// one uprobe_multi link has many places, and needs CAP_BPF and CAP_PERFMON only. Before, or where it is refused,
// each place is a perf event, which needs CAP_SYS_ADMIN. libbpf 1.1 does not know uprobe_multi, so the
// system calls are made here. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
	PROBE_PLACES_MAX = 512, // of one link; the table of calls has 200 rows
};

enum probe_way {
	PROBE_WAY_NONE,
	PROBE_WAY_MULTI, // BPF_TRACE_UPROBE_MULTI
	PROBE_WAY_PERF,
};

/** BPF_TRACE_UPROBE_MULTI of <linux/bpf.h> 6.6, which programs are loaded with; 0 for perf events. */
#define PROBE_ATTACH_TYPE_MULTI 48

struct probe_place {
	uint64_t offset; // in the file
	uint64_t cookie; // bpf_get_attach_cookie()
};

struct probe_link;

/** Try each way on a page of our own. PROBE_WAY_NONE, and why in @err (may be NULL), if none works. */
enum probe_way probe_link_choose(struct error *err);

/** The expected_attach_type that programs are loaded with. */
static inline uint32_t probe_way_attach_type(enum probe_way way)
{
	return way == PROBE_WAY_MULTI ? PROBE_ATTACH_TYPE_MULTI : 0;
}

/**
 * Run the program whenever a process hits one of @count places in the file @fd or, @at_return, when the
 * function entered there returns. @fd may be closed afterwards. Takes some 10 us for each place and process
 * that maps it. Returns 0; -E2BIG; -ENOMEM; the kernel's errno. On failure nothing is attached.
 */
int probe_link_attach(enum probe_way way, int program_fd, int fd, const struct probe_place *places,
		      uint32_t count, bool at_return, struct probe_link **ret_link);

/**
 * Detach in the background: a thread closes the link, which takes an RCU grace period of 20 to 100 ms, for perf
 * events one each. The program may run until probe_link_settle() returns. NULL is allowed.
 */
void probe_link_detach(struct probe_link *link);

/** Wait until all links are detached. probe_link_attach() of perf events does so first. */
void probe_link_settle(void);
/** Are all links detached? */
bool probe_link_is_settled(void);

/** Load a program that does nothing, to try ways and to measure. Returns its descriptor, owned by the caller, or -errno. */
int probe_link_load_empty(enum probe_way way);
