// SPDX-License-Identifier: Apache-2.0
// Wall-clock time by stack. It is measured exactly by thread, without stacks; CPU time, GPU busy-wait, off-CPU time and
// run-queue latency have the stacks of its three states.
#pragma once

#include "base/profile/profile.h"

/** Is this series' type one of those with the stacks? */
bool wall_stacks_need(const char *type);
/** The type number @number, from 0, of those with the stacks; NULL: there are no more. */
const char *wall_stacks_type(uint32_t number);

/**
 * Give the wall-clock time in @profile the stacks of the other types: what a thread did in one state is divided among
 * the stacks that it had meanwhile, by their values; blocked time has their wait class, too. Time in a state without a stack stays without one. The other
 * types' samples are used up. Returns 0 or -ENOMEM.
 */
int wall_stacks_compose(struct profile *profile);
