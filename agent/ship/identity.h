// SPDX-License-Identifier: Apache-2.0
// Who this agent is: an id that stays for the node, and one that is new for each start. With the
// sequence they make a batch countable once.
#pragma once

#include "base/error.h"
#include "base/id128.h"

/**
 * A hash of the machine id and the host's name. A container image may carry a machine id of its
 * own, equal on all nodes; the host's name tells these apart. Without both: random.
 * Returns 0; -errno if no random bytes can be had.
 */
int identity_of_node(struct id128 *ret_id, struct error *err);
/** Random. Returns 0 or -errno. */
int identity_of_start(struct id128 *ret_id, struct error *err);
