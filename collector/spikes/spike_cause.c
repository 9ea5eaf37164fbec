// SPDX-License-Identifier: Apache-2.0
#include "collector/spikes/spike_cause.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "base/contract/wait_classes.h"
#include "collector/query/query.h"
#include "collector/query/query_groups.h"
#include "collector/spikes/spike_code.h"
#include "collector/spikes/spike_selector.h"

#define BASELINE_S_MIN   60
#define BASELINE_LENGTHS 10  // of the spike
#define CARRIED_SHARE    0.9 // of the extra, by the values of a label that are named
#define MEANWHILE_CORES  0.1 // less explains no wait
#define NEIGHBOUR_CORES  0.3 // of another service,
#define NEIGHBOUR_FACTOR 1.5 // and over the service's own

/** A spike with what it is compared with. */
struct comparison {
	const struct query *query; // its range: all that may be read
	struct spike *spike;
	struct time_range usual;
	double factor; // how often the usual range goes into the spike's interval
	struct error *err;
};

/** The time before the spike: long against it, and not so long that the service was another. */
static struct comparison compare_with_before(const struct query *query, struct spike *spike,
					     struct error *err)
{
	uint64_t length_ns = spike->interval.to_ns - spike->interval.from_ns;
	uint64_t usual_ns = BASELINE_LENGTHS * length_ns;
	struct comparison comparison = { .query = query, .spike = spike, .err = err };

	if (usual_ns < BASELINE_S_MIN * NS_PER_SECOND)
		usual_ns = BASELINE_S_MIN * NS_PER_SECOND;
	if (usual_ns > SPIKE_BASELINE_S_MAX * NS_PER_SECOND)
		usual_ns = SPIKE_BASELINE_S_MAX * NS_PER_SECOND;
	comparison.usual.to_ns = spike->interval.from_ns;
	comparison.usual.from_ns = spike->interval.from_ns - query->range.from_ns > usual_ns
					   ? spike->interval.from_ns - usual_ns
					   : query->range.from_ns;
	uint64_t had_ns = comparison.usual.to_ns - comparison.usual.from_ns;

	comparison.factor = had_ns ? (double)length_ns / (double)had_ns : 0;
	return comparison;
}

static int read_tree(const struct comparison *comparison, const struct selector *selector,
		     const char *type, struct time_range range, struct flame_tree *ret_tree)
{
	struct query query = *comparison->query;

	query.selector = selector;
	query.type = type;
	query.range = range;
	query.group_by = NULL;
	return range.from_ns < range.to_ns ? query_flame_tree(&query, ret_tree, comparison->err)
					   : 0;
}

/** The code that carries what @selector's series of @type have over the usual. */
static int explain_code(const struct comparison *comparison, const struct selector *selector,
			const char *type, bool without_leaf, struct cause_code *ret_code,
			double *ret_extra)
{
	_cleanup_(flame_tree_deinit) struct flame_tree spike = { 0 }, usual = { 0 };
	int rc = read_tree(comparison, selector, type, comparison->spike->interval, &spike);

	if (!rc)
		rc = read_tree(comparison, selector, type, comparison->usual, &usual);
	if (rc)
		return rc;
	const struct weighted_tree weighted = { &usual, comparison->factor };

	return spike_code_find(&spike, &weighted, without_leaf, selector->deadline, ret_code,
			       ret_extra, comparison->err);
}

// ---- labels ---------------------------------------------------------------------------------

/** Series, with what each has over the usual. */
struct extras {
	struct store_selection *selection;
	struct store_selection *all; // of the service: what is quiet counts, too, in "1 of 38 pods"
	double *spike, *usual;       // by series
};

static void extras_deinit(struct extras *extras)
{
	store_selection_freep(&extras->selection);
	store_selection_freep(&extras->all);
	free(extras->spike);
	free(extras->usual);
}

static int read_sums(const struct comparison *comparison, const struct extras *extras,
		     struct time_range range, double factor, double *sums)
{
	uint32_t count = extras->selection->series_count;
	_cleanup_free_ uint32_t *rows = calloc(count + 1ULL, sizeof(*rows));
	_cleanup_free_ int64_t *values = calloc(count + 1ULL, sizeof(*values));

	if (!rows || !values)
		return error_set(comparison->err, -ENOMEM, "out of memory for %u series", count);
	for (uint32_t i = 0; i < count; i++)
		rows[i] = i;
	if (range.from_ns >= range.to_ns)
		return 0;
	int rc = store_activity(comparison->query->store, extras->selection, range,
				range.to_ns - range.from_ns, rows, values, comparison->err);
	for (uint32_t i = 0; i < count && !rc; i++)
		sums[i] = (double)values[i] * factor;
	return rc;
}

static int read_extras(const struct comparison *comparison, const struct selector *selector,
		       const char *type, struct extras *extras)
{
	struct query query = *comparison->query;

	query.selector = selector;
	query.type = type;
	query.range =
		(struct time_range){ comparison->usual.from_ns, comparison->spike->interval.to_ns };
	int rc = query_select(&query, &extras->selection, comparison->err);
	if (rc)
		return rc;
	uint32_t count = extras->selection->series_count;

	extras->spike = calloc(count + 1ULL, sizeof(*extras->spike));
	extras->usual = calloc(count + 1ULL, sizeof(*extras->usual));
	if (!extras->spike || !extras->usual)
		return error_set(comparison->err, -ENOMEM, "out of memory for %u series", count);
	if (!count)
		return 0;
	rc = read_sums(comparison, extras, comparison->spike->interval, 1, extras->spike);
	return rc ? rc
		  : read_sums(comparison, extras, comparison->usual, comparison->factor,
			      extras->usual);
}

/** One value of a label. */
struct value_sum {
	uint32_t group;
	double extra;
	bool has_any;
};

static int compare_values(const void *a, const void *b)
{
	const struct value_sum *x = a, *y = b;

	if (x->extra != y->extra)
		return x->extra < y->extra ? 1 : -1;
	return (x->group > y->group) - (x->group < y->group);
}

/** Sum @extras by the values of @name, sorted by falling extra. *ret_values has groups->count items. */
static int sum_values(const struct comparison *comparison, const struct extras *extras,
		      const char *name, struct query_groups *groups, struct value_sum **ret_values)
{
	int rc = query_groups_init(groups, extras->selection, &name, 1);
	if (rc)
		return error_set(comparison->err, rc, "too many values of %s", name);
	_cleanup_free_ struct value_sum *values = calloc(groups->count, sizeof(*values));
	if (!values)
		return error_set(comparison->err, -ENOMEM, "out of memory for %u values",
				 groups->count);
	for (uint32_t i = 0; i < groups->count; i++)
		values[i].group = i;
	for (uint32_t i = 0; i < extras->selection->series_count; i++) {
		struct value_sum *value = &values[groups->of_series[i]];

		value->extra += extras->spike[i] - extras->usual[i];
		value->has_any |= extras->spike[i] + extras->usual[i] > 0;
	}
	qsort(values, groups->count, sizeof(*values), compare_values);
	*ret_values = take(values);
	return 0;
}

/** How many values of @name the service has. */
static int count_all(const struct comparison *comparison, const struct extras *extras,
		     const char *name, uint32_t *ret_count)
{
	_cleanup_(query_groups_deinit) struct query_groups groups = { 0 };
	uint32_t none;
	int rc = query_groups_init(&groups, extras->all, &name, 1);

	if (rc)
		return error_set(comparison->err, rc, "too many values of %s", name);
	none = groups.count && groups.first_series[0] == UINT32_MAX; // key 0 is the absent value
	*ret_count = groups.count - none;
	return 0;
}

/** Name the values that carry nearly all, if they are few of many. False: they are not. */
static bool choose_values(const struct query_groups *groups, const struct value_sum *values,
			  const char *name, uint32_t all, struct cause_label *ret_label)
{
	struct cause_label label = { .name = name };
	double extra = 0, carried = 0;

	for (uint32_t i = 0; i < groups->count; i++) {
		label.of += values[i].has_any;
		extra += values[i].extra > 0 ? values[i].extra : 0;
	}
	for (uint32_t i = 0; i < groups->count && carried < CARRIED_SHARE * extra; i++) {
		if (!*string_table_get(&groups->keys, values[i].group))
			return false; // what carries it has no such label
		carried += values[i].extra;
		if (label.count < CAUSE_VALUES_MAX) {
			snprintf(label.values[label.count], CAUSE_VALUE_BYTES, "%s",
				 string_table_get(&groups->keys, values[i].group));
			label.shares[label.count] = values[i].extra / extra;
		}
		label.count++;
	}
	if (label.of < all)
		label.of = all;
	*ret_label = label;
	return label.count && label.of > 1 && (label.count == 1 || 2 * label.count <= label.of);
}

static int explain_labels(const struct comparison *comparison, const struct extras *extras)
{
	// From what one looks at first; of the places of a process the first that tells them apart.
	static const char *const names[] = {
		LABEL_VERSION, LABEL_POD,    LABEL_INSTANCE, LABEL_CONTAINER, LABEL_PROCESS,
		LABEL_NODE,    LABEL_THREAD, LABEL_GPU,      LABEL_RANK,
	};
	struct spike_cause *cause = &comparison->spike->cause;
	bool is_placed = false;
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names) && cause->label_count < CAUSE_LABELS_MAX && !rc;
	     i++) {
		_cleanup_(query_groups_deinit) struct query_groups groups = { 0 };
		_cleanup_free_ struct value_sum *values = NULL;
		bool is_place = i >= 1 && i <= 4;
		uint32_t all = 0;

		if (is_place && is_placed)
			continue;
		rc = sum_values(comparison, extras, names[i], &groups, &values);
		if (!rc)
			rc = count_all(comparison, extras, names[i], &all);
		if (!rc && choose_values(&groups, values, names[i], all,
					 &cause->labels[cause->label_count])) {
			cause->label_count++;
			is_placed |= is_place;
		}
	}
	return rc;
}

// ---- meanwhile ------------------------------------------------------------------------------

static bool is_throttled(const struct spike *spike)
{
	return strcmp(spike->type->type, PROFILE_TYPE_THROTTLED) == 0;
}

static bool is_effect(const struct spike *spike)
{
	enum wait_class wait = wait_class_find(spike->group);

	if (strcmp(spike->type->type, PROFILE_TYPE_OFF_CPU) == 0)
		return wait == WAIT_CLASS_LOCK || wait == WAIT_CLASS_GIL;
	return strcmp(spike->type->type, PROFILE_TYPE_SCHED_DELAY) == 0 || is_throttled(spike);
}

static double cores_of(const struct comparison *comparison, double ns)
{
	const struct time_range *interval = &comparison->spike->interval;

	return ns / (double)(interval->to_ns - interval->from_ns);
}

/** What took CPU time of the service itself: more than usual, or of what is throttled all that used its quota up. */
static int explain_own_cpu(const struct comparison *of_spike)
{
	struct comparison copy = *of_spike;
	const struct comparison *comparison = &copy;
	struct spike_cause *cause = &copy.spike->cause;
	double least = MEANWHILE_CORES;
	struct spike_selector narrowed;
	struct cause_code code;
	double extra = 0;

	if (is_throttled(copy.spike))
		copy.factor = least = 0;
	spike_selector_init(&narrowed, comparison->query->selector, false);
	spike_selector_add(&narrowed, LABEL_SERVICE, comparison->spike->service);
	int rc = explain_code(comparison, &narrowed.selector, PROFILE_TYPE_CPU, false, &code,
			      &extra);
	if (rc || cores_of(comparison, extra) < least)
		return rc;
	cause->meanwhile = code;
	cause->meanwhile_cores = cores_of(comparison, extra);
	return 0;
}

/** The one node that carries the spike; NULL: several do, or there is one only. */
static const char *node_of(const struct spike_cause *cause)
{
	for (uint32_t i = 0; i < cause->label_count; i++) {
		if (strcmp(cause->labels[i].name, LABEL_NODE) == 0 && cause->labels[i].count == 1)
			return cause->labels[i].values[0];
	}
	return NULL;
}

/** Who took CPU time, if others on the same nodes took more than the service itself. */
static int explain_neighbours(const struct comparison *comparison)
{
	struct spike_cause *cause = &comparison->spike->cause;
	_cleanup_(extras_deinit) struct extras extras = { 0 };
	_cleanup_(query_groups_deinit) struct query_groups groups = { 0 };
	_cleanup_free_ struct value_sum *values = NULL;
	struct spike_selector narrowed;
	double extra = 0;

	spike_selector_init(&narrowed, comparison->query->selector, true);
	if (node_of(cause))
		spike_selector_add(&narrowed, LABEL_NODE, node_of(cause));
	int rc = read_extras(comparison, &narrowed.selector, PROFILE_TYPE_CPU, &extras);
	if (!rc)
		rc = sum_values(comparison, &extras, LABEL_SERVICE, &groups, &values);
	if (rc)
		return rc;
	const char *first = string_table_get(&groups.keys, values[0].group);
	double cores = cores_of(comparison, values[0].extra);

	if (!*first || strcmp(first, comparison->spike->service) == 0 || cores < NEIGHBOUR_CORES ||
	    cores < NEIGHBOUR_FACTOR * cause->meanwhile_cores)
		return 0;
	snprintf(cause->meanwhile_service, CAUSE_VALUE_BYTES, "%s", first);
	spike_selector_add(&narrowed, LABEL_SERVICE, cause->meanwhile_service);
	cause->meanwhile_cores = cores;
	return explain_code(comparison, &narrowed.selector, PROFILE_TYPE_CPU, false,
			    &cause->meanwhile, &extra);
}

/** All series of the spike's service: of wall-clock time, or where agents have none of CPU time. */
static int select_all(const struct comparison *comparison, struct store_selection **ret_all)
{
	struct query query = *comparison->query;
	struct spike_selector narrowed;

	spike_selector_init(&narrowed, query.selector, false);
	spike_selector_add(&narrowed, LABEL_SERVICE, comparison->spike->service);
	query.selector = &narrowed.selector;
	query.type = PROFILE_TYPE_WALL;
	query.range =
		(struct time_range){ comparison->usual.from_ns, comparison->spike->interval.to_ns };
	int rc = query_select(&query, ret_all, comparison->err);
	if (rc || (*ret_all)->series_count)
		return rc;
	store_selection_freep(ret_all);
	*ret_all = NULL;
	query.type = PROFILE_TYPE_CPU;
	return query_select(&query, ret_all, comparison->err);
}

int spike_explain(const struct query *query, struct spike *spike, struct error *err)
{
	const struct comparison comparison = compare_with_before(query, spike, err);
	_cleanup_(extras_deinit) struct extras extras = { 0 };
	struct spike_selector narrowed;
	double extra;
	// That a wait for the GIL ends in a futex is no news.
	bool without_leaf = strcmp(spike->type->type, PROFILE_TYPE_OFF_CPU) == 0 &&
			    wait_class_find(spike->group) == WAIT_CLASS_GIL;
	int rc = 0;

	spike_selector_init(&narrowed, query->selector, false);
	spike_selector_add(&narrowed, LABEL_SERVICE, spike->service);
	if (spike->type->group_label)
		spike_selector_add(&narrowed, spike->type->group_label, spike->group);
	if (spike->type->has_stacks)
		rc = explain_code(&comparison, &narrowed.selector, spike->type->type, without_leaf,
				  &spike->cause.code, &extra);
	if (!rc)
		rc = read_extras(&comparison, &narrowed.selector, spike->type->type, &extras);
	if (!rc)
		rc = select_all(&comparison, &extras.all);
	if (!rc)
		rc = explain_labels(&comparison, &extras);
	if (!rc && is_effect(spike))
		rc = explain_own_cpu(&comparison);
	// Whoever holds a lock may be kept from running.
	if (!rc && is_effect(spike) && !is_throttled(spike))
		rc = explain_neighbours(&comparison);
	return rc;
}
