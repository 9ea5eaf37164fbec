// SPDX-License-Identifier: Apache-2.0
// The agent's pods: whether there is an API server to ask, and the table that its answers fill.
#pragma once

#include "agent/containers/pod_table.h"
#include "agent/containers/pod_watch.h"
#include "agent/options.h"
#include "base/error.h"
#include "base/event_log.h"

/** All NULL where there is no API server. */
struct pods {
	struct pod_table *table;
	struct pod_watch *watch;
};

/**
 * Begin to watch this node's pods, if the settings or the environment of a pod name an API server. What is missing in a
 * pod is an event. What @rules (NULL: none) read of pods is kept; they outlive the pods. Returns 0; -EINVAL: a setting is wrong; -ENOMEM.
 */
int pods_open(const struct options *options, const struct relabel_rules *rules,
	      struct event_log *events, struct pods *ret_pods, struct error *err);
/** The table's readers have ended. */
void pods_close(struct pods *pods);
