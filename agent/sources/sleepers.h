// SPDX-License-Identifier: Apache-2.0
// Stacks of threads that sleep for long, taken again where they are cut or not there
// (bpf/switch/sleepers.bpf.c): of pools that blocked before the agent began, and of threads that blocked before
// their process's unwind tables were there. Uses libbpf, as switches.c does. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/bpf/loader.h"
#include "base/clock.h"
#include "base/error.h"

/** What a pass may take: some 50 stacks. The rest is left to the next one. */
#define SLEEPERS_PASS_NS (3 * NS_PER_MS)

struct sleepers;

struct sleepers_options {
	uint64_t slot_ns;
	enum loader_level level; // what of the unwinder the kernel has taken elsewhere
	int threads_fd;          // of the map that has what is known of threads
	bool can_find_tasks;     // Linux 6.2: without, there are no Python frames
};

/** Load the program. @loader outlives it. Returns 0 or a negative errno. */
int sleepers_open(const struct loader *loader, const struct sleepers_options *options,
		  struct sleepers **ret_sleepers, struct error *err);
/** NULL is allowed. */
void sleepers_close(struct sleepers *sleepers);

/**
 * A pass over all threads, if somebody is due: the rest of their waits is told with the stacks that are
 * taken. @truncated_stacks says how many cut ones were taken so far. Returns 0 or a negative errno.
 */
int sleepers_look(struct sleepers *sleepers, uint64_t truncated_stacks);
