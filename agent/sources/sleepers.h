// SPDX-License-Identifier: Apache-2.0
// Stacks of long sleeping threads, captured again where they are truncated or missing
// (bpf/switch/sleepers.bpf.c): those of threads that blocked before the agent started, or before their process's
// unwind tables were loaded. Uses libbpf, as switches.c does. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/bpf/loader.h"
#include "base/clock.h"
#include "base/error.h"

/** Of a pass, at most: some 50 stacks. The next one does the rest. */
#define SLEEPERS_PASS_NS (3 * NS_PER_MS)

struct sleepers;

struct sleepers_options {
	uint64_t slot_ns;
	enum loader_level level; // of the other programs' unwinder
	int threads_fd;          // switches_threads_fd()
	bool can_find_tasks;     // Linux 6.2; before, there are no Python frames
};

/** Load the program. @loader outlives it. Returns 0 or a negative errno. */
int sleepers_open(const struct loader *loader, const struct sleepers_options *options,
		  struct sleepers **ret_sleepers, struct error *err);
/** NULL is allowed. */
void sleepers_close(struct sleepers *sleepers);

/**
 * A pass over all threads, if any is due: the rest of their off-CPU time gets the stack captured now.
 * @truncated_stacks: captured so far. Returns 0 or a negative errno.
 */
int sleepers_look(struct sleepers *sleepers, uint64_t truncated_stacks);
