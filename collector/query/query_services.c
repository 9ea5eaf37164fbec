// SPDX-License-Identifier: Apache-2.0
// Services by their value, with how many nodes, pods and instances each runs on.
#include "collector/query/query.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "collector/query/query_gauge.h"
#include "collector/query/query_groups.h"

void query_service_set_deinit(struct query_service_set *set)
{
	for (uint32_t i = 0; i < set->count; i++)
		free(set->services[i].name);
	free(set->services);
	*set = (struct query_service_set){ 0 };
}

/** Count the values of @label that each service's series have: @counts by service's group. */
static int count_values(const struct store_selection *selection,
			const struct query_groups *services, const char *label, uint32_t *counts)
{
	const char *const names[] = { LABEL_SERVICE, label };
	_cleanup_(query_groups_deinit) struct query_groups pairs = { 0 };
	int rc = query_groups_init(&pairs, selection, names, 2);

	if (rc)
		return rc;
	for (uint32_t pair = 0; pair < pairs.count; pair++) {
		uint32_t series = pairs.first_series[pair];

		if (series != UINT32_MAX && labels_get(&selection->series[series].labels, label))
			counts[services->of_series[series]]++;
	}
	return 0;
}

static int compare_services(const void *a, const void *b)
{
	const struct query_service *x = a, *y = b;

	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return strcmp(x->name, y->name);
}

static int fill_set(const struct query_groups *groups, const int64_t *totals, const uint32_t *nodes,
		    const uint32_t *pods, const uint32_t *instances, struct query_service_set *set)
{
	set->services = calloc(groups->count + 1ULL, sizeof(*set->services));
	if (!set->services)
		return -ENOMEM;
	for (uint32_t group = 0; group < groups->count; group++) {
		if (groups->first_series[group] == UINT32_MAX)
			continue;
		char *name = strdup(string_table_get(&groups->keys, group));
		if (!name)
			return -ENOMEM;
		set->services[set->count++] = (struct query_service){
			.name = name,
			.total = totals[group],
			.node_count = nodes[group],
			.pod_count = pods[group],
			.instance_count = instances[group],
		};
		set->total = (int64_t)((uint64_t)set->total + (uint64_t)totals[group]);
	}
	qsort(set->services, set->count, sizeof(*set->services), compare_services);
	return 0;
}

int query_services(const struct query *query, struct query_service_set *ret_set, struct error *err)
{
	static const char *const by_service[] = { LABEL_SERVICE };
	_cleanup_(store_selection_freep) struct store_selection *selection = NULL;
	_cleanup_(query_service_set_deinit) struct query_service_set set = { 0 };
	_cleanup_(query_groups_deinit) struct query_groups groups = { 0 };

	int rc = query_refuse_gauge(query, "cost", err);
	if (!rc)
		rc = query_select(query, &selection, err);
	if (rc)
		return rc;
	rc = query_groups_init(&groups, selection, by_service, 1);
	if (rc)
		return error_set(err, rc, "too many services");

	_cleanup_free_ int64_t *totals = calloc(groups.count, sizeof(*totals));
	_cleanup_free_ uint32_t *nodes = calloc(groups.count, sizeof(*nodes));
	_cleanup_free_ uint32_t *pods = calloc(groups.count, sizeof(*pods));
	_cleanup_free_ uint32_t *instances = calloc(groups.count, sizeof(*instances));
	if (!totals || !nodes || !pods || !instances)
		return error_set(err, -ENOMEM, "out of memory for %u services", groups.count);
	if (selection->series_count)
		rc = store_activity(query->store, selection, query->range,
				    query->range.to_ns - query->range.from_ns, groups.of_series,
				    totals, err);
	if (rc)
		return rc;
	rc = count_values(selection, &groups, LABEL_NODE, nodes);
	if (!rc)
		rc = count_values(selection, &groups, LABEL_POD, pods);
	if (!rc)
		rc = count_values(selection, &groups, LABEL_INSTANCE, instances);
	if (!rc)
		rc = fill_set(&groups, totals, nodes, pods, instances, &set);
	if (rc)
		return error_set(err, rc, "out of memory for %u services", groups.count);

	*ret_set = set;
	set = (struct query_service_set){ 0 };
	return 0;
}
