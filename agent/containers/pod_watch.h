// SPDX-License-Identifier: Apache-2.0
// Keeps a pod table current, in a thread of its own: lists the node's pods, then watches them, as the API server allows.
// While the server does not answer, what was known stays; if there is a kubelet to ask, it is asked instead.
#pragma once

#include <stdint.h>

#include "agent/containers/pod_json.h"
#include "agent/containers/pod_table.h"
#include "base/error.h"
#include "base/event_log.h"

enum {
	POD_LIST_BYTES_MAX = 256 << 20, // of one list: 1,024 pods of 256 KiB
	POD_PAGES_MAX = 256,            // of one list
};

struct pod_watch;

struct pod_watch_options {
	const char *server; // https://HOST:PORT; http:// only on this machine, without the token
	const char
		*kubelet; // https://HOST:PORT, asked while the server does not answer; NULL: none
	const char *node; // the node's name
	const char *credentials; // the folder with token and ca.crt
	struct pod_selection selection;
	const char *node_labels;  // patterns of the node's own labels; NULL: it is not asked for
	struct pod_table *table;  // outlives the watch
	struct event_log *events; // may be NULL
	uint64_t retry_min_ns;    // after a failure; 0: the default
};

struct pod_watch_stats {
	uint64_t lists;    // whole ones
	uint64_t events;   // of watches
	uint64_t failures; // requests that failed
	uint64_t dropped;  // pods and events that were too large, or not what they should be
};

/** Returns 0; -EINVAL: an address or a name that is none; -ENOENT: no libcurl; -ENOMEM; -errno. */
int pod_watch_start(const struct pod_watch_options *options, struct pod_watch **ret_watch,
		    struct error *err);
/** Ask the thread to end: within a second it does. NULL is allowed. */
void pod_watch_stop(struct pod_watch *watch);
/** Waits for the thread's end. NULL is allowed. */
void pod_watch_free(struct pod_watch *watch);

/** Any thread. */
void pod_watch_read_stats(const struct pod_watch *watch, struct pod_watch_stats *ret_stats);
