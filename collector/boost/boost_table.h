// SPDX-License-Identifier: Apache-2.0
// The active boosts: who asked for what, which nodes they are about, and what their agents made of
// them. In memory, bounded. Thread-safe.
#pragma once

#include <stdint.h>

#include "base/contract/boosts.h"
#include "base/error.h"
#include "collector/access/identity.h"
#include "collector/boost/boost_nodes.h"
#include "collector/metrics/metrics.h"
#include "collector/store/store.h"

enum {
	BOOSTS_MAX = 32,          // 22 MB of nodes, if each has all that it may have
	BOOSTS_OF_TENANT_MAX = 8, // so that no tenant takes all
	BOOST_QUERY_BYTES = SELECTOR_BYTES_MAX + 1,
};

/** Between two scans for the nodes that a boost is about. */
#define BOOST_SCAN_EVERY_NS (15 * NS_PER_SECOND)

struct boost_table;

/** @store and @metrics are borrowed. @clock: NULL: the system's. NULL when out of memory. */
struct boost_table *boost_table_new(struct store *store, struct metrics *metrics,
				    const struct store_clock *clock);
/** NULL is allowed. */
void boost_table_free(struct boost_table *table);

struct boost_request {
	const char *query;
	const char *reader; // tenant for selector_parse(); NULL: may see all
	const char *tenant; // whose nodes are boosted; "": those of none
	const char *who;    // identity.key
	struct boost boost; // without id; services are found
	struct deadline *deadline;
};

/** An active boost, as it is shown. */
struct boost_view {
	struct boost boost; // left_ms as of now
	char query[BOOST_QUERY_BYTES];
	char tenant[ACCESS_TENANT_BYTES];
	char who[ACCESS_KEY_BYTES];
	struct boost_nodes nodes;
};
void boost_view_deinit(struct boost_view *view);

/**
 * Begin a boost: each agent on its nodes gets it with the answer to its next batch. Returns 0; -EINVAL: what is asked for makes no
 * sense, or no node has such series; -EAGAIN: too many are active; as boost_nodes_find().
 */
int boost_table_add(struct boost_table *table, const struct boost_request *request,
		    struct boost_view *ret_view, struct error *err);
/** End one of @tenant (ACCESS_ALL_TENANTS: any). Returns 0 or -ENOENT. */
int boost_table_end(struct boost_table *table, uint32_t id, const char *tenant);
/** Those of @tenant (as above), the oldest first; each is to be deinitialized, and the array freed. Returns 0 or -ENOMEM. */
int boost_table_list(struct boost_table *table, const char *tenant, struct boost_view **ret_views,
		     uint32_t *ret_count);

/** An agent of @tenant on @node has reported: which boosts apply to it now? Returns how many, the oldest first. */
uint32_t boost_table_exchange(struct boost_table *table, const char *tenant, const char *node,
			      const struct boost_report *report,
			      struct boost ret_boosts[BOOSTS_OF_AGENT_MAX]);

/** Scan again for the nodes that one boost is about, if that is due. Call it about once a second, on one thread. */
void boost_table_maintain(struct boost_table *table);
