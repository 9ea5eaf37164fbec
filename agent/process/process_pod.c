// SPDX-License-Identifier: Apache-2.0
// What the pod of a process adds to its labels. The API server may describe a container a second after it runs: what was
// measured waits for it, and the labels are made again when it comes.
// Subject: agent/process/process_entry.h
#include "agent/process/process_entry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/process/process_labels.h"
#include "base/cleanup.h"
#include "base/clock.h"

/* Containers were named within a second or so where it was measured; then their series begins without the pod. */
#define POD_WAIT_NS (10 * NS_PER_SECOND)

/* ---- sets of labels ------------------------------------------------------------------------- */

void label_set_release(struct label_set *set)
{
	if (!set || --set->holders)
		return;
	labels_deinit(&set->labels);
	labels_deinit(&set->detected);
	free(set);
}

static void label_set_releasep(struct label_set **set)
{
	label_set_release(*set);
}

static bool is_contained(const struct label_set *set)
{
	return set->container[0] || set->pod_uid[0];
}

int label_set_place(struct label_set *set, const struct cgroup *cgroup, uint64_t now_ns,
		    const struct process_context *context)
{
	memcpy(set->container, cgroup->container, sizeof(set->container));
	memcpy(set->pod_uid, cgroup->pod_uid, sizeof(set->pod_uid));
	set->is_settled = !context->pods || !set->pod_uid[0];
	set->wait_ns = now_ns + POD_WAIT_NS;
	return context->pods && is_contained(set) ? labels_copy(&set->labels, &set->detected) : 0;
}

int label_set_place_as(struct label_set *set, const struct label_set *former)
{
	set->is_settled = true;
	if (!former || !is_contained(former))
		return 0;
	memcpy(set->container, former->container, sizeof(set->container));
	memcpy(set->pod_uid, former->pod_uid, sizeof(set->pod_uid));
	set->is_excluded = former->is_excluded;
	set->is_settled = former->is_settled;
	set->wait_ns = former->wait_ns;
	return labels_copy(&set->labels, &set->detected);
}

/* ---- the pod -------------------------------------------------------------------------------- */

/* Another set, of the same process. NULL when out of memory. */
static struct label_set *make_set(const struct label_set *before, const struct pod_match *pod,
				  const struct labels *extra)
{
	_cleanup_(label_set_releasep) struct label_set *set = malloc(sizeof(*set));

	if (!set)
		return NULL;
	*set = *before;
	set->holders = 1;
	set->labels = set->detected = (struct labels){ 0 };
	set->is_excluded = pod->is_excluded;
	set->is_settled = pod->has_container || !set->container[0] ||
			  process_labels_is_pause(&before->detected);
	set->pod_version = pod->version;
	if (labels_copy(&before->detected, &set->detected) ||
	    labels_copy(&before->detected, &set->labels) ||
	    process_labels_add_pod(&set->labels, pod, set->own_service, extra))
		return NULL;
	return take(set);
}

static void apply(struct process_entry *entry, const struct pod_match *pod,
		  struct process_context *context)
{
	struct label_set *set = make_set(entry->labels, pod, &context->extra_labels);

	if (!set)
		return; // with the next sample
	bool is_changed = !labels_equal(&set->labels, &entry->labels->labels);
	context->pods_late += entry->was_exported && is_changed;
	context->described += set->is_excluded != entry->labels->is_excluded;
	process_entry_use_labels(entry, set);
}

/* A pod that is no longer known leaves its labels behind. */
void process_entry_find_pod(struct process_entry *entry, struct process_context *context)
{
	uint64_t version = pod_table_version(context->pods);
	struct pod_match pod;

	if (entry->pods_version == version || !is_contained(entry->labels))
		return;
	int rc = pod_table_find(context->pods, entry->labels->pod_uid, entry->labels->container,
				entry->labels->pod_version, &pod);
	if (!rc) {
		apply(entry, &pod, context);
		pod_match_deinit(&pod);
	}
	if (rc != -ENOMEM)
		entry->pods_version = version;
}
