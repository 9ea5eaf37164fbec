// SPDX-License-Identifier: Apache-2.0
#include "collector/boost/boost_table.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/clock.h"

struct boost_entry {
	struct boost boost; // left_ms is not used
	char *query;
	char tenant[ACCESS_TENANT_BYTES];
	char who[ACCESS_KEY_BYTES];
	bool all_tenants;              // who asked for it may see all
	uint64_t until_ns, scanned_ns; // monotonic
	struct boost_nodes nodes;
};

struct boost_table {
	struct store *store;
	struct metrics *metrics;
	struct store_clock clock;
	pthread_mutex_t lock; // guards the fields below; not held while the store is read
	struct boost_entry entries[BOOSTS_MAX]; // the oldest first
	uint32_t count;
};

struct boost_table *boost_table_new(struct store *store, struct metrics *metrics,
				    const struct store_clock *clock)
{
	struct boost_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->store = store;
	table->metrics = metrics;
	table->clock =
		clock ? *clock : (struct store_clock){ clock_realtime_ns, clock_monotonic_ns };
	pthread_mutex_init(&table->lock, NULL);
	return table;
}

static void entry_deinit(struct boost_entry *entry)
{
	free(entry->query);
	boost_nodes_deinit(&entry->nodes);
	*entry = (struct boost_entry){ 0 };
}

void boost_table_free(struct boost_table *table)
{
	if (!table)
		return;
	for (uint32_t i = 0; i < table->count; i++)
		entry_deinit(&table->entries[i]);
	pthread_mutex_destroy(&table->lock);
	free(table);
}

// With the lock, as all that follows.
static void remove_entry(struct boost_table *table, uint32_t at)
{
	entry_deinit(&table->entries[at]);
	table->count--;
	memmove(&table->entries[at], &table->entries[at + 1],
		(table->count - at) * sizeof(table->entries[0]));
}

static void remove_over(struct boost_table *table)
{
	uint64_t now_ns = table->count ? table->clock.monotonic_ns() : 0;

	for (uint32_t i = table->count; i-- > 0;) {
		if (table->entries[i].until_ns <= now_ns)
			remove_entry(table, i);
	}
}

static struct boost_entry *find(struct boost_table *table, uint32_t id)
{
	for (uint32_t i = 0; i < table->count; i++) {
		if (table->entries[i].boost.id == id)
			return &table->entries[i];
	}
	return NULL;
}

static bool is_of(const struct boost_entry *entry, const char *tenant)
{
	return strcmp(tenant, ACCESS_ALL_TENANTS) == 0 || strcmp(tenant, entry->tenant) == 0;
}

static uint32_t left_ms(const struct boost_entry *entry, uint64_t now_ns)
{
	uint64_t ms = ns_between(now_ns, entry->until_ns) / NS_PER_MS;

	return ms ? (uint32_t)ms : 1;
}

// ---- views ----------------------------------------------------------------------------------

void boost_view_deinit(struct boost_view *view)
{
	boost_nodes_deinit(&view->nodes);
}

static int view(const struct boost_entry *entry, uint64_t now_ns, struct boost_view *ret_view)
{
	size_t size = entry->nodes.count * sizeof(*entry->nodes.nodes);
	struct boost_node *nodes = malloc(size + 1);

	if (!nodes)
		return -ENOMEM;
	memcpy(nodes, entry->nodes.nodes, size);
	*ret_view = (struct boost_view){ .boost = entry->boost, .nodes = entry->nodes };
	ret_view->nodes.nodes = nodes;
	ret_view->boost.left_ms = left_ms(entry, now_ns);
	snprintf(ret_view->query, sizeof(ret_view->query), "%s", entry->query);
	memcpy(ret_view->tenant, entry->tenant, sizeof(ret_view->tenant));
	memcpy(ret_view->who, entry->who, sizeof(ret_view->who));
	return 0;
}

int boost_table_list(struct boost_table *table, const char *tenant, struct boost_view **ret_views,
		     uint32_t *ret_count)
{
	struct boost_view *views;
	uint32_t count = 0;
	int rc = 0;

	pthread_mutex_lock(&table->lock);
	remove_over(table);
	views = calloc(table->count + 1, sizeof(*views));
	rc = views ? 0 : -ENOMEM;
	for (uint32_t i = 0; i < table->count && !rc; i++) {
		if (!is_of(&table->entries[i], tenant))
			continue;
		rc = view(&table->entries[i], table->clock.monotonic_ns(), &views[count]);
		count += !rc;
	}
	pthread_mutex_unlock(&table->lock);
	if (!rc) {
		*ret_views = views;
		*ret_count = count;
		return 0;
	}
	for (uint32_t i = 0; i < count; i++)
		boost_view_deinit(&views[i]);
	free(views);
	return rc;
}

// ---- begin and end --------------------------------------------------------------------------

static int check(const struct boost *boost, struct error *err)
{
	if (!boost->hz && !boost->profiles && !boost->stop)
		return error_set(err, -EINVAL,
				 "asks for nothing: give a rate, profiles to add, or stop");
	if (boost->stop && (boost->hz || boost->profiles))
		return error_set(err, -EINVAL, "stop does not go with a rate or profiles");
	if (boost->hz > BOOST_HZ_MAX)
		return error_set(err, -EINVAL, "%u Hz is more than %d", boost->hz, BOOST_HZ_MAX);
	if (!boost->left_ms || boost->left_ms > BOOST_SECONDS_MAX * 1000U)
		return error_set(err, -EINVAL, "the time is not from 1 ms to %d s",
				 BOOST_SECONDS_MAX);
	return 0;
}

static int check_room(const struct boost_table *table, const char *tenant, struct error *err)
{
	uint32_t of_tenant = 0;

	for (uint32_t i = 0; i < table->count; i++)
		of_tenant += strcmp(table->entries[i].tenant, tenant) == 0;
	if (of_tenant == BOOSTS_OF_TENANT_MAX || table->count == BOOSTS_MAX)
		return error_set(
			err, -EAGAIN, "too many boosts are active (%u, limit %d): end one, or wait",
			of_tenant == BOOSTS_OF_TENANT_MAX ? of_tenant : table->count,
			of_tenant == BOOSTS_OF_TENANT_MAX ? BOOSTS_OF_TENANT_MAX : BOOSTS_MAX);
	return 0;
}

// Random, so that an agent never takes a boost of a restarted collector for the one before.
static int new_id(struct boost_table *table, uint32_t *ret_id)
{
	uint32_t id;

	do {
		if (getrandom(&id, sizeof(id), 0) != sizeof(id))
			return -EIO;
	} while (!id || find(table, id));
	*ret_id = id;
	return 0;
}

static int add_entry(struct boost_table *table, const struct boost_request *request,
		     struct boost_nodes *nodes, struct boost_view *ret_view, struct error *err)
{
	struct boost_entry entry = { .boost = request->boost,
				     .query = strdup(request->query),
				     .all_tenants = !request->reader };
	uint64_t now_ns = table->clock.monotonic_ns();
	int rc = entry.query ? check_room(table, request->tenant, err) : -ENOMEM;

	if (!rc)
		rc = new_id(table, &entry.boost.id);
	snprintf(entry.tenant, sizeof(entry.tenant), "%s", request->tenant);
	snprintf(entry.who, sizeof(entry.who), "%s", request->who);
	memcpy(entry.boost.services, nodes->services, sizeof(entry.boost.services));
	entry.until_ns = now_ns + request->boost.left_ms * NS_PER_MS;
	entry.scanned_ns = now_ns;
	entry.nodes = *nodes;
	if (!rc)
		rc = view(&entry, now_ns, ret_view);
	if (rc) {
		free(entry.query);
		return rc == -EAGAIN ? rc : error_errno(err, rc, "begin a boost");
	}
	*nodes = (struct boost_nodes){ 0 }; // the entry's
	table->entries[table->count++] = entry;
	return 0;
}

int boost_table_add(struct boost_table *table, const struct boost_request *request,
		    struct boost_view *ret_view, struct error *err)
{
	const struct boost_scan scan = {
		.query = request->query,
		.reader = request->reader,
		.tenant = request->tenant,
		.now_ns = table->clock.realtime_ns(),
		.deadline = request->deadline,
	};
	_cleanup_(boost_nodes_deinit) struct boost_nodes nodes = { 0 };
	int rc = check(&request->boost, err);

	if (!rc)
		rc = boost_nodes_find(table->store, &scan, &nodes, err);
	if (!rc && !nodes.count)
		rc = error_set(err, -EINVAL,
			       "no node has series that match, of the last %d minutes",
			       (int)(BOOST_SCAN_NS / NS_PER_SECOND / 60));
	if (rc)
		return rc;
	pthread_mutex_lock(&table->lock);
	remove_over(table);
	rc = add_entry(table, request, &nodes, ret_view, err);
	pthread_mutex_unlock(&table->lock);
	if (!rc)
		metrics_add(table->metrics, METRIC_BOOSTS, 1);
	return rc;
}

int boost_table_end(struct boost_table *table, uint32_t id, const char *tenant)
{
	int rc = -ENOENT;

	pthread_mutex_lock(&table->lock);
	remove_over(table);
	struct boost_entry *entry = find(table, id);
	if (entry && is_of(entry, tenant)) {
		remove_entry(table, (uint32_t)(entry - table->entries));
		rc = 0;
	}
	pthread_mutex_unlock(&table->lock);
	return rc;
}

// ---- agents ---------------------------------------------------------------------------------

static void note(struct boost_node *node, uint32_t id, const struct boost_report *report)
{
	for (uint32_t i = 0; i < report->count; i++) {
		if (report->states[i].id != id)
			continue;
		node->state = report->states[i];
		node->has_reported = true;
	}
}

uint32_t boost_table_exchange(struct boost_table *table, const char *tenant, const char *node,
			      const struct boost_report *report,
			      struct boost ret_boosts[BOOSTS_OF_AGENT_MAX])
{
	uint32_t count = 0;

	pthread_mutex_lock(&table->lock);
	remove_over(table);
	for (uint32_t i = 0; i < table->count && count < BOOSTS_OF_AGENT_MAX; i++) {
		struct boost_entry *entry = &table->entries[i];
		struct boost_node *known = strcmp(entry->tenant, tenant) == 0
						   ? boost_nodes_get(&entry->nodes, node)
						   : NULL;

		if (!known)
			continue;
		note(known, entry->boost.id, report);
		ret_boosts[count] = entry->boost;
		ret_boosts[count++].left_ms = left_ms(entry, table->clock.monotonic_ns());
	}
	pthread_mutex_unlock(&table->lock);
	return count;
}

// ---- maintenance ----------------------------------------------------------------------------

/* A scan for a boost's nodes, without the lock. */
struct due_scan {
	uint32_t id; // 0: none is due
	bool all_tenants;
	char *query;
	char tenant[ACCESS_TENANT_BYTES];
};

static void take_due(struct boost_table *table, struct due_scan *ret_scan)
{
	uint64_t now_ns = table->clock.monotonic_ns();

	for (uint32_t i = 0; i < table->count && !ret_scan->id; i++) {
		struct boost_entry *entry = &table->entries[i];

		// A node that has stopped has no series: those of the first scan stay.
		if (entry->boost.stop ||
		    ns_between(entry->scanned_ns, now_ns) < BOOST_SCAN_EVERY_NS)
			continue;
		entry->scanned_ns = now_ns;
		ret_scan->query = strdup(entry->query);
		if (!ret_scan->query)
			return;
		ret_scan->id = entry->boost.id;
		ret_scan->all_tenants = entry->all_tenants;
		memcpy(ret_scan->tenant, entry->tenant, sizeof(ret_scan->tenant));
	}
}

// What nodes have reported stays known of those that stay.
static void replace_nodes(struct boost_entry *entry, struct boost_nodes *nodes)
{
	for (uint32_t i = 0; i < nodes->count; i++) {
		const struct boost_node *before =
			boost_nodes_get(&entry->nodes, nodes->nodes[i].name);

		if (before)
			nodes->nodes[i] = *before;
	}
	boost_nodes_deinit(&entry->nodes);
	entry->nodes = *nodes;
	memcpy(entry->boost.services, nodes->services, sizeof(entry->boost.services));
	*nodes = (struct boost_nodes){ 0 };
}

void boost_table_maintain(struct boost_table *table)
{
	_cleanup_(boost_nodes_deinit) struct boost_nodes nodes = { 0 };
	struct deadline deadline = { .at_ns =
					     clock_monotonic_ns() + BOOST_SCAN_MS_MAX * NS_PER_MS };
	struct due_scan due = { 0 };

	pthread_mutex_lock(&table->lock);
	remove_over(table);
	take_due(table, &due);
	pthread_mutex_unlock(&table->lock);
	if (!due.id)
		return;
	const struct boost_scan scan = { .query = due.query,
					 .reader = due.all_tenants ? SELECTOR_ALL_TENANTS
								   : due.tenant,
					 .tenant = due.tenant,
					 .now_ns = table->clock.realtime_ns(),
					 .deadline = &deadline };
	if (boost_nodes_find(table->store, &scan, &nodes, NULL) == 0) {
		pthread_mutex_lock(&table->lock);
		struct boost_entry *entry = find(table, due.id);
		if (entry)
			replace_nodes(entry, &nodes);
		pthread_mutex_unlock(&table->lock);
	} else {
		metrics_add(table->metrics, METRIC_BOOST_SCANS_FAILED, 1);
	}
	free(due.query);
}
