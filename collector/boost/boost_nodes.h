// SPDX-License-Identifier: Apache-2.0
// Which nodes a selector is about: those that have series that match it, in the last minutes.
#pragma once

#include <stdint.h>

#include "base/contract/boosts.h"
#include "base/error.h"
#include "collector/store/deadline.h"
#include "collector/store/store.h"

enum {
	BOOST_NODE_BYTES = 128,   // of a node's name; a longer one is left out
	BOOST_NODES_MAX = 4096,   // of a boost: as many agents as the collector's table has
	BOOST_SCAN_MS_MAX = 2000, // then the nodes of the last scan stay
};

/** Series of so long ago count. */
#define BOOST_SCAN_NS (300 * NS_PER_SECOND)

struct boost_node {
	char name[BOOST_NODE_BYTES];
	bool has_reported;
	struct boost_state state; // as reported
};

struct boost_nodes {
	struct boost_node *nodes; // sorted by name
	uint32_t count;
	char services[BOOST_SERVICES_BYTES]; // of the series, separated by commas: as many as fit
};

/** What is scanned for. */
struct boost_scan {
	const char *query;
	const char *reader; // tenant for selector_parse(); NULL: may see all
	const char *tenant; // of the nodes; "": none
	uint64_t now_ns;    // Unix time
	struct deadline *deadline;
};

/** Returns 0; what selector_parse() and store_select() return; -E2BIG above BOOST_NODES_MAX. */
int boost_nodes_find(struct store *store, const struct boost_scan *scan,
		     struct boost_nodes *ret_nodes, struct error *err);
void boost_nodes_deinit(struct boost_nodes *nodes);
/** NULL: it has none of this name. */
struct boost_node *boost_nodes_get(const struct boost_nodes *nodes, const char *name);
