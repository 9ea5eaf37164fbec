// SPDX-License-Identifier: Apache-2.0
#include "collector/boost/boost_nodes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"

void boost_nodes_deinit(struct boost_nodes *nodes)
{
	free(nodes->nodes);
	*nodes = (struct boost_nodes){ 0 };
}

static int compare(const void *left, const void *right)
{
	return strcmp(((const struct boost_node *)left)->name,
		      ((const struct boost_node *)right)->name);
}

struct boost_node *boost_nodes_get(const struct boost_nodes *nodes, const char *name)
{
	struct boost_node key;

	if (strlen(name) >= sizeof(key.name) || !nodes->count)
		return NULL;
	strcpy(key.name, name);
	return bsearch(&key, nodes->nodes, nodes->count, sizeof(key), compare);
}

static bool has_tenant(const struct store_series *series, const char *tenant)
{
	const char *value = labels_get(&series->labels, LABEL_TENANT);

	return strcmp(value ? value : "", tenant) == 0;
}

// Has the list a service of this name?
static bool is_listed(const char *services, const char *service)
{
	size_t size = strlen(service);

	for (const char *at = services; (at = strstr(at, service)); at++) {
		if ((at == services || at[-1] == ',') && (at[size] == ',' || !at[size]))
			return true;
	}
	return false;
}

// A name that cannot stand in the list is left out.
static void add_service(struct boost_nodes *nodes, const struct store_series *series)
{
	const char *service = labels_get(&series->labels, LABEL_SERVICE);
	size_t used = strlen(nodes->services), size = service ? strlen(service) : 0;

	if (!size || strpbrk(service, ", \t\n") || used + size + 2 > BOOST_SERVICES_BYTES ||
	    strcmp(service, SERVICE_AGENT) == 0 || is_listed(nodes->services, service))
		return;
	if (used)
		nodes->services[used++] = ',';
	memcpy(nodes->services + used, service, size + 1);
}

/** Names of the nodes of all series, sorted, each once. */
static int collect(const struct store_selection *selection, const char *tenant,
		   struct boost_nodes *nodes, struct error *err)
{
	uint32_t kept = 0;

	nodes->nodes = calloc(selection->series_count + 1, sizeof(*nodes->nodes));
	if (!nodes->nodes)
		return error_set(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < selection->series_count; i++) {
		const struct store_series *series = &selection->series[i];
		const char *name = labels_get(&series->labels, LABEL_NODE);

		if (!name || strlen(name) >= BOOST_NODE_BYTES || !has_tenant(series, tenant))
			continue;
		strcpy(nodes->nodes[nodes->count++].name, name);
		add_service(nodes, series);
	}
	qsort(nodes->nodes, nodes->count, sizeof(*nodes->nodes), compare);
	for (uint32_t i = 0; i < nodes->count; i++) {
		if (!kept || strcmp(nodes->nodes[kept - 1].name, nodes->nodes[i].name) != 0)
			nodes->nodes[kept++] = nodes->nodes[i];
	}
	nodes->count = kept;
	if (kept > BOOST_NODES_MAX)
		return error_set(err, -E2BIG, "%u nodes match, at most %d can be boosted together",
				 kept, BOOST_NODES_MAX);
	struct boost_node *exact = realloc(nodes->nodes, (kept + 1) * sizeof(*exact));
	nodes->nodes = exact ? exact : nodes->nodes;
	return 0;
}

int boost_nodes_find(struct store *store, const struct boost_scan *scan,
		     struct boost_nodes *ret_nodes, struct error *err)
{
	// Clocks of nodes may be ahead.
	const struct time_range range = { ns_before(scan->now_ns, BOOST_SCAN_NS),
					  scan->now_ns + BOOST_SCAN_NS };
	_cleanup_(boost_nodes_deinit) struct boost_nodes nodes = { 0 };
	_cleanup_(selector_deinit) struct selector selector = { 0 };
	struct store_selection *selection;
	int rc = selector_parse(scan->query, scan->reader, &selector, err);

	if (rc)
		return rc;
	selector_set_deadline(&selector, scan->deadline);
	rc = store_select(store, &selector, NULL, range, &selection, err);
	if (rc)
		return rc;
	rc = collect(selection, scan->tenant, &nodes, err);
	store_selection_free(selection);
	if (rc)
		return rc;
	*ret_nodes = nodes;
	nodes = (struct boost_nodes){ 0 };
	return 0;
}
