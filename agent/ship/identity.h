// SPDX-License-Identifier: Apache-2.0
// The agent's ids: one for the node, one for each start. With the sequence number they identify a batch.
#pragma once

#include "base/error.h"
#include "base/id128.h"

/**
 * A hash of the machine id and the node's name: a container image may have a machine id that is the same on all
 * nodes. @node is Kubernetes' name; NULL: the host name, which in a pod is the pod's, another one after each rollout. Without
 * both: random. Returns 0 or -errno.
 */
int identity_of_node(const char *node, struct id128 *ret_id, struct error *err);
/** Random. Returns 0 or -errno. */
int identity_of_start(struct id128 *ret_id, struct error *err);
