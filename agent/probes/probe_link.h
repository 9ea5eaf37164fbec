// SPDX-License-Identifier: Apache-2.0
// Kernel programs attached to places in a file, for all processes that map it now or later. One
// link of the kernel has many places since 6.6, and asks for BPF and PERFMON only; before that, or
// where it is refused, each place is a perf event of its own, which asks for CAP_SYS_ADMIN. libbpf
// 1.1 has neither the one nor its name, so the system calls are made here. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
	PROBE_PLACES_MAX = 512, // of one link: the driver has some 100 functions with variants
};

enum probe_way {
	PROBE_WAY_NONE,
	PROBE_WAY_MULTI, // BPF_TRACE_UPROBE_MULTI
	PROBE_WAY_PERF,
};

/** BPF_TRACE_UPROBE_MULTI of <linux/bpf.h> 6.6; programs are loaded for it, or for 0 (perf). */
#define PROBE_ATTACH_TYPE_MULTI 48

struct probe_place {
	uint64_t offset; // in the file
	uint64_t cookie; // bpf_get_attach_cookie()
};

struct probe_link;

/**
 * Which way works here: each is tried on a page of our own. PROBE_WAY_NONE, and why in @err (may be
 * NULL), where none does.
 */
enum probe_way probe_link_choose(struct error *err);

/** What a program is to be loaded with: expected_attach_type. */
static inline uint32_t probe_way_attach_type(enum probe_way way)
{
	return way == PROBE_WAY_MULTI ? PROBE_ATTACH_TYPE_MULTI : 0;
}

/**
 * Run the program whenever a process comes by one of @count places in the file @fd, or when the
 * function returns that was entered there. @fd is not needed afterwards. Takes some 10 us for each
 * place and process that maps it. Returns 0; -E2BIG; -ENOMEM; or what the kernel says: nothing is
 * attached then.
 */
int probe_link_attach(enum probe_way way, int program_fd, int fd, const struct probe_place *places,
		      uint32_t count, bool at_return, struct probe_link **ret_link);

/**
 * The program runs no more for it, soon: another thread closes it, which takes a grace period of 20 to 100 ms
 * for a link, and for each perf event. When probe_link_settle() returns it is over. NULL is allowed.
 */
void probe_link_detach(struct probe_link *link);

/** Wait for what is still being detached. probe_link_attach() of perf events does so, too. */
void probe_link_settle(void);
/** Is nothing being detached any more? */
bool probe_link_is_settled(void);

/** A program that does nothing, for tries. Returns its descriptor, the caller's, or a negative errno. */
int probe_link_load_empty(enum probe_way way);
