// SPDX-License-Identifier: Apache-2.0
// The cost of a uprobe on this machine, without its program. Kinds of hosts differ by a factor of forty, so
// the agent measures it before it attaches any.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/probes/probe_link.h"

/** Nanoseconds per hit. */
struct probe_cost {
	uint32_t cheap_ns;   // at an instruction that the kernel emulates
	uint32_t stepped_ns; // at one that it single-steps
	uint32_t return_ns;  // in addition, for the return probe of the function
	bool is_measured;    // false: figures of a slow virtual machine
};

/**
 * Measure on a page of our own (probe_page.h): some 50 ms, most of it sleeping. Where that fails, the figures of a
 * virtual machine overestimate the cost of most hosts.
 */
void probe_cost_measure(enum probe_way way, struct probe_cost *ret_cost);
