// SPDX-License-Identifier: Apache-2.0
// What a uprobe costs on this machine, whatever program runs at it: between kinds of hosts it differs
// by a factor of forty, so it is measured when the agent starts.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/probes/probe_link.h"

/** Nanoseconds a hit. */
struct probe_cost {
	uint32_t cheap_ns;   // at an instruction that the kernel emulates
	uint32_t stepped_ns; // at one that it steps through
	uint32_t return_ns;  // more, for seeing the same function return
	bool is_measured;    // else they are another machine's
};

/**
 * Measure, on a page of our own: some 50 ms, most of them waiting. What cannot be measured is taken
 * from a virtual machine of ours, which errs on the safe side.
 */
void probe_cost_measure(enum probe_way way, struct probe_cost *ret_cost);
