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
	meta_labels_deinit(&set->meta);
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

/* What the pod, the node or rules add is added to what was detected. */
static int keep_detected(struct label_set *set, const struct process_context *context)
{
	bool has_more = context->pods && (is_contained(set) || pod_table_has_node(context->pods));

	return context->rules || has_more ? labels_copy(&set->labels, &set->detected) : 0;
}

int label_set_place(struct label_set *set, const struct cgroup *cgroup, uint64_t now_ns,
		    const struct process_context *context)
{
	memcpy(set->container, cgroup->container, sizeof(set->container));
	memcpy(set->pod_uid, cgroup->pod_uid, sizeof(set->pod_uid));
	set->is_settled = !context->pods || !set->pod_uid[0];
	set->wait_ns = now_ns + POD_WAIT_NS;
	set->node_wait_ns = context->pods ? pod_table_node_wait_ns(context->pods) : 0;
	return keep_detected(set, context);
}

int label_set_place_as(struct label_set *set, const struct label_set *former,
		       const struct process_context *context)
{
	set->is_settled = true;
	if (former && is_contained(former)) {
		memcpy(set->container, former->container, sizeof(set->container));
		memcpy(set->pod_uid, former->pod_uid, sizeof(set->pod_uid));
		set->is_excluded = former->is_excluded;
		set->is_settled = former->is_settled;
		set->wait_ns = former->wait_ns;
	}
	set->node_wait_ns = context->pods ? pod_table_node_wait_ns(context->pods) : 0;
	return keep_detected(set, context);
}

/* ---- relabel rules --------------------------------------------------------------------------- */

int label_set_relabel(struct label_set *set, const struct pod_match *pod,
		      struct process_context *context)
{
	_cleanup_(meta_labels_deinit) struct meta_labels meta = { 0 };
	struct labels labels = { 0 };

	if (!context->rules)
		return 0;
	int rc = meta_labels_add_all(&meta, &set->meta);
	if (!rc && pod)
		rc = meta_labels_add_all(&meta, &pod->meta);
	if (!rc)
		rc = relabel_rules_apply(context->rules, &set->labels, &meta, &labels,
					 &set->is_dropped, &context->relabeled);
	if (rc)
		return rc;
	context->relabeled.labels_dropped += meta.dropped;
	labels_deinit(&set->labels);
	set->labels = labels;
	return 0;
}

/* Rules may ask for the pod: what they drop without it may be theirs to keep. */
void process_entry_apply_drop(struct process_entry *entry, struct process_context *context)
{
	if (!entry->labels || !entry->labels->is_dropped || entry->process.is_excluded ||
	    process_awaits_pod(&entry->process, clock_monotonic_ns()))
		return;
	entry->process.is_excluded = true;
	context->described++;
}

/* ---- the pod and the node --------------------------------------------------------------------- */

/* @pod NULL: it has none, or an unknown one. */
static int add_words(struct label_set *set, const struct label_set *before,
		     const struct pod_match *pod, struct process_context *context)
{
	_cleanup_(labels_deinit) struct labels node = { 0 };
	int rc = labels_copy(&before->detected, &set->detected);

	if (!rc)
		rc = labels_copy(&before->detected, &set->labels);
	if (!rc)
		rc = meta_labels_add_all(&set->meta, &before->meta);
	if (!rc)
		rc = pod_table_copy_node(context->pods, &node, &set->node_version);
	if (!rc)
		rc = process_labels_add_node(&set->labels, &node, &context->extra_labels);
	if (!rc && pod)
		rc = process_labels_add_pod(&set->labels, pod, set->own_service,
					    &context->extra_labels);
	return rc ? rc : label_set_relabel(set, pod, context);
}

/* Another set, of the same process. NULL when out of memory. */
static struct label_set *make_set(const struct label_set *before, const struct pod_match *pod,
				  struct process_context *context)
{
	_cleanup_(label_set_releasep) struct label_set *set = malloc(sizeof(*set));

	if (!set)
		return NULL;
	*set = *before;
	set->holders = 1;
	set->labels = set->detected = (struct labels){ 0 };
	set->meta = (struct meta_labels){ 0 };
	if (pod) {
		set->is_excluded = pod->is_excluded;
		set->is_settled = pod->has_container || !set->container[0] ||
				  process_labels_is_pause(&before->detected);
		set->pod_version = pod->version;
	}
	if (add_words(set, before, pod, context))
		return NULL;
	if (set->node_version)
		set->node_wait_ns = 0;
	return take(set);
}

/* Another word of the pod or the node than samples were shipped with; what the process says of itself does not count. */
static bool is_late(const struct label_set *set, const struct label_set *exported)
{
	return exported &&
	       (set->pod_version != exported->pod_version ||
		set->node_version != exported->node_version) &&
	       !labels_equal(&set->labels, &exported->labels);
}

static void apply(struct process_entry *entry, const struct pod_match *pod,
		  const struct label_set *exported, struct process_context *context)
{
	struct label_set *set = make_set(entry->labels, pod, context);

	if (!set)
		return; // with the next sample
	context->pods_late += is_late(set, exported);
	context->described += set->is_excluded != entry->labels->is_excluded;
	process_entry_use_labels(entry, set);
}

/* A pod that is no longer known leaves its labels behind. */
void process_entry_find_pod(struct process_entry *entry, const struct label_set *exported,
			    struct process_context *context)
{
	uint64_t version = pod_table_version(context->pods);
	const struct label_set *set = entry->labels;
	struct pod_match pod;
	int rc = -ENOENT;

	if (entry->pods_version == version)
		return;
	bool is_node_new = set->node_version != pod_table_node_version(context->pods);
	if (is_contained(set))
		rc = pod_table_find(context->pods, set->pod_uid, set->container,
				    is_node_new ? 0 : set->pod_version, &pod);
	if (!rc) {
		apply(entry, &pod, exported, context);
		pod_match_deinit(&pod);
	} else if (rc == -ENOENT && is_node_new && !set->pod_version) {
		apply(entry, NULL, exported, context);
	}
	if (rc != -ENOMEM)
		entry->pods_version = version;
}
