// SPDX-License-Identifier: Apache-2.0
// The pods of this node, as the API server last described them: filled by the thread that watches it, asked by the
// profiler's. A pod that was deleted stays for a while, as samples of its processes may still come.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/containers/pod.h"

enum {
	PODS_MAX = 1024, // of a node, with deleted ones; the kubelet allows 110 by default
};

#define POD_KEPT_NS (120ULL * 1000000000) // after it was deleted

struct pod_table;

/** What a pod says of the processes of one of its containers. */
struct pod_match {
	struct labels labels; // namespace, pod, workload, container, version, chosen ones
	char *service;        // NULL: the pod has no name for it
	struct meta_labels meta;
	bool has_container; // the container's name is known
	bool is_excluded;
	uint64_t version; // of this description
};

#define NODE_WAIT_NS (10ULL * 1000000000) // what is measured waits for the node's labels

struct pod_table_stats {
	uint64_t pods;    // now
	uint64_t dropped; // more than PODS_MAX
};

/** NULL when out of memory. */
struct pod_table *pod_table_new(void);
/** NULL is allowed. */
void pod_table_free(struct pod_table *table);

/** The node's labels will be put. Before any thread. */
void pod_table_await_node(struct pod_table *table);

// ---- one thread: the watcher's --------------------------------------------------------------------

/** Add @pod, or replace what was known of it. It is the table's from now on. */
void pod_table_put(struct pod_table *table, struct pod *pod);
/** The API server's uid. */
void pod_table_remove(struct pod_table *table, const char *uid);

/** The node's chosen labels. The table's from now on; empty: it has none, or they may not be read. */
void pod_table_put_node(struct pod_table *table, struct labels *labels);

/** Between the two all pods are put: those that are not have been deleted. */
void pod_table_begin_list(struct pod_table *table);
void pod_table_end_list(struct pod_table *table);

// ---- any thread -----------------------------------------------------------------------------------

/** Changes when a search may have another result. */
uint64_t pod_table_version(const struct pod_table *table);

/**
 * The pod with @uid, as cgroup paths have it, else the one with the container @container; each may be "". Returns 0;
 * -ENOENT; -EALREADY: its description still has the version @known; -ENOMEM. @ret_match is to be deinited after 0.
 */
int pod_table_find(struct pod_table *table, const char *uid, const char *container, uint64_t known,
		   struct pod_match *ret_match);

/** Are the node's labels known, or awaited? */
bool pod_table_has_node(struct pod_table *table);
/** Changes with the node's labels; 0: they are not known. */
uint64_t pod_table_node_version(struct pod_table *table);
/** Until when what is measured waits for the node's labels; 0: they are known, or not awaited. */
uint64_t pod_table_node_wait_ns(struct pod_table *table);
/** Copy the node's labels into an empty @ret_labels. Returns 0 or -ENOMEM. */
int pod_table_copy_node(struct pod_table *table, struct labels *ret_labels, uint64_t *ret_version);

void pod_match_deinit(struct pod_match *match);

void pod_table_read_stats(struct pod_table *table, struct pod_table_stats *ret_stats);
