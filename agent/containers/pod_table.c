// SPDX-License-Identifier: Apache-2.0
#include "agent/containers/pod_table.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/hash_table.h"
#include "base/id128.h"

struct entry {
	struct pod *pod;     // NULL: free
	uint64_t version;    // of the table, when this pod last changed
	uint64_t deleted_ns; // 0: it exists
	bool is_listed;      // since pod_table_begin_list()
};

struct pod_table {
	atomic_uint_fast64_t version;
	pthread_mutex_t lock; // of all that follows
	struct entry entries[PODS_MAX];
	uint32_t entry_count;    // with free ones
	struct hash_table index; // by uid in cgroup paths
	uint64_t pods, dropped;
	struct labels node;
	uint64_t node_version; // 0: not known
	uint64_t node_wait_ns; // 0: not awaited
};

struct pod_table *pod_table_new(void)
{
	struct pod_table *table = calloc(1, sizeof(*table));

	if (table)
		pthread_mutex_init(&table->lock, NULL);
	return table;
}

void pod_table_free(struct pod_table *table)
{
	if (!table)
		return;
	for (uint32_t i = 0; i < table->entry_count; i++)
		pod_free(table->entries[i].pod);
	labels_deinit(&table->node);
	hash_table_deinit(&table->index);
	pthread_mutex_destroy(&table->lock);
	free(table);
}

void pod_table_await_node(struct pod_table *table)
{
	table->node_wait_ns = clock_monotonic_ns() + NODE_WAIT_NS;
}

/* ---- entries, under the lock ---------------------------------------------------------------- */

static uint64_t hash_of(const char *uid)
{
	return hash64_of(uid, strlen(uid));
}

static bool uid_equals(const void *context, uint32_t item, const void *uid)
{
	const struct pod_table *table = context;

	return strcmp(table->entries[item].pod->cgroup_uid, uid) == 0;
}

static struct entry *find_uid(struct pod_table *table, const char *uid)
{
	uint32_t item =
		uid[0] ? hash_table_find(&table->index, hash_of(uid), uid_equals, table, uid)
		       : HASH_TABLE_NONE;

	return item == HASH_TABLE_NONE ? NULL : &table->entries[item];
}

/* Rare: a cgroup path without a pod, as a container of the agent's own pod has it in a private namespace. */
static struct entry *find_container(struct pod_table *table, const char *container)
{
	for (uint32_t i = 0; i < table->entry_count; i++)
		if (table->entries[i].pod && pod_find_container(table->entries[i].pod, container))
			return &table->entries[i];
	return NULL;
}

static void evict(struct pod_table *table, struct entry *entry)
{
	hash_table_remove(&table->index, hash_of(entry->pod->cgroup_uid),
			  (uint32_t)(entry - table->entries));
	pod_free(entry->pod);
	*entry = (struct entry){ 0 };
}

static void evict_deleted(struct pod_table *table, uint64_t now_ns, uint64_t age_ns)
{
	for (uint32_t i = 0; i < table->entry_count; i++) {
		struct entry *entry = &table->entries[i];

		if (entry->deleted_ns && ns_between(entry->deleted_ns, now_ns) >= age_ns)
			evict(table, entry);
	}
}

/* NULL: table full. */
static struct entry *find_free(struct pod_table *table)
{
	for (uint32_t i = 0; i < table->entry_count; i++)
		if (!table->entries[i].pod)
			return &table->entries[i];
	return table->entry_count < PODS_MAX ? &table->entries[table->entry_count++] : NULL;
}

static void change(struct pod_table *table, struct entry *entry)
{
	entry->version = atomic_fetch_add(&table->version, 1) + 1;
}

static void mark_deleted(struct pod_table *table, struct entry *entry, uint64_t now_ns)
{
	if (entry->deleted_ns)
		return;
	entry->deleted_ns = now_ns ? now_ns : 1;
	table->pods--;
}

/* Takes the pod, whatever comes of it. */
static void add(struct pod_table *table, struct pod *pod, uint64_t now_ns)
{
	struct entry *entry = find_free(table);

	if (!entry) {
		evict_deleted(table, now_ns, 0);
		entry = find_free(table);
	}
	if (!entry || hash_table_add(&table->index, hash_of(pod->cgroup_uid),
				     (uint32_t)(entry - table->entries))) {
		table->dropped++;
		pod_free(pod);
		return;
	}
	*entry = (struct entry){ .pod = pod, .is_listed = true };
	table->pods++;
	change(table, entry);
}

static void replace(struct pod_table *table, struct entry *entry, struct pod *pod)
{
	bool is_equal = pod_equals(entry->pod, pod);

	table->pods += entry->deleted_ns != 0;
	entry->deleted_ns = 0;
	entry->is_listed = true;
	if (is_equal) { // most events are about a pod's conditions
		pod_free(pod);
		return;
	}
	pod_free(entry->pod);
	entry->pod = pod;
	change(table, entry);
}

/* ---- the watcher's -------------------------------------------------------------------------- */

void pod_table_put(struct pod_table *table, struct pod *pod)
{
	uint64_t now_ns = clock_monotonic_ns();

	pthread_mutex_lock(&table->lock);
	evict_deleted(table, now_ns, POD_KEPT_NS);
	struct entry *entry = find_uid(table, pod->cgroup_uid);
	if (entry)
		replace(table, entry, pod);
	else
		add(table, pod, now_ns);
	pthread_mutex_unlock(&table->lock);
}

void pod_table_remove(struct pod_table *table, const char *uid)
{
	pthread_mutex_lock(&table->lock);
	for (uint32_t i = 0; i < table->entry_count; i++) {
		struct entry *entry = &table->entries[i];

		if (entry->pod && strcmp(entry->pod->uid, uid) == 0)
			mark_deleted(table, entry, clock_monotonic_ns());
	}
	pthread_mutex_unlock(&table->lock);
}

void pod_table_put_node(struct pod_table *table, struct labels *labels)
{
	pthread_mutex_lock(&table->lock);
	if (!table->node_version || !labels_equal(&table->node, labels)) {
		labels_deinit(&table->node);
		table->node = *labels;
		*labels = (struct labels){ 0 };
		table->node_version++;
		table->node_wait_ns = 0;
		atomic_fetch_add(&table->version, 1);
	}
	labels_deinit(labels);
	pthread_mutex_unlock(&table->lock);
}

void pod_table_begin_list(struct pod_table *table)
{
	pthread_mutex_lock(&table->lock);
	for (uint32_t i = 0; i < table->entry_count; i++)
		table->entries[i].is_listed = false;
	pthread_mutex_unlock(&table->lock);
}

void pod_table_end_list(struct pod_table *table)
{
	pthread_mutex_lock(&table->lock);
	for (uint32_t i = 0; i < table->entry_count; i++)
		if (table->entries[i].pod && !table->entries[i].is_listed)
			mark_deleted(table, &table->entries[i], clock_monotonic_ns());
	pthread_mutex_unlock(&table->lock);
}

/* ---- any thread's --------------------------------------------------------------------------- */

uint64_t pod_table_version(const struct pod_table *table)
{
	return atomic_load_explicit(&table->version, memory_order_acquire);
}

/* -E2BIG is no failure: a process with that many labels does without this one. */
static int set_label(struct labels *labels, const char *name, const char *value)
{
	return value && labels_set(labels, name, value) == -ENOMEM ? -ENOMEM : 0;
}

static int describe(const struct entry *entry, const char *container_id,
		    struct pod_match *ret_match)
{
	const struct pod *pod = entry->pod;
	const struct pod_container *container = pod_find_container(pod, container_id);
	const char *service = pod->service ? pod->service : container ? container->name : NULL;
	struct pod_match match = { .has_container = container != NULL,
				   .is_excluded = pod->is_excluded,
				   .version = entry->version };
	int rc = labels_copy(&pod->labels, &match.labels);

	if (!rc && container)
		rc = set_label(&match.labels, LABEL_CONTAINER, container->name);
	if (!rc && container)
		rc = set_label(&match.labels, LABEL_VERSION, container->version);
	if (!rc && service && !(match.service = strdup(service)))
		rc = -ENOMEM;
	if (!rc)
		rc = meta_labels_add_all(&match.meta, &pod->meta);
	if (!rc && container)
		rc = meta_labels_add_all(&match.meta, &container->meta);
	if (rc)
		pod_match_deinit(&match);
	else
		*ret_match = match;
	return rc;
}

int pod_table_find(struct pod_table *table, const char *uid, const char *container, uint64_t known,
		   struct pod_match *ret_match)
{
	int rc = -ENOENT;

	pthread_mutex_lock(&table->lock);
	const struct entry *entry = find_uid(table, uid);
	if (!entry && container[0])
		entry = find_container(table, container);
	if (entry)
		rc = entry->version == known ? -EALREADY : describe(entry, container, ret_match);
	pthread_mutex_unlock(&table->lock);
	return rc;
}

uint64_t pod_table_node_version(struct pod_table *table)
{
	pthread_mutex_lock(&table->lock);
	uint64_t version = table->node_version;
	pthread_mutex_unlock(&table->lock);
	return version;
}

uint64_t pod_table_node_wait_ns(struct pod_table *table)
{
	pthread_mutex_lock(&table->lock);
	uint64_t wait_ns = table->node_wait_ns;
	pthread_mutex_unlock(&table->lock);
	return wait_ns;
}

bool pod_table_has_node(struct pod_table *table)
{
	return pod_table_node_version(table) || pod_table_node_wait_ns(table);
}

int pod_table_copy_node(struct pod_table *table, struct labels *ret_labels, uint64_t *ret_version)
{
	pthread_mutex_lock(&table->lock);
	int rc = labels_copy(&table->node, ret_labels);
	*ret_version = table->node_version;
	pthread_mutex_unlock(&table->lock);
	return rc;
}

void pod_match_deinit(struct pod_match *match)
{
	labels_deinit(&match->labels);
	free(match->service);
	meta_labels_deinit(&match->meta);
	*match = (struct pod_match){ 0 };
}

void pod_table_read_stats(struct pod_table *table, struct pod_table_stats *ret_stats)
{
	pthread_mutex_lock(&table->lock);
	*ret_stats = (struct pod_table_stats){ .pods = table->pods, .dropped = table->dropped };
	pthread_mutex_unlock(&table->lock);
}
