// SPDX-License-Identifier: Apache-2.0
// Merges a query's samples into a profile for the exporters: one sample per stack and process.
#include "collector/query/query.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "collector/query/profile_builder.h"
#include "collector/query/query_gauge.h"
#include "collector/query/query_sums.h"
#include "collector/symbols/symbolizer.h"

struct profile_sums {
	struct profile_builder builder;
	const struct store_selection *selection;
	const struct query_groups *groups;
};

/** Add a group's series, with the labels it is grouped by. */
static int add_series(struct profile_sums *summing, uint32_t group, uint32_t *ret_series)
{
	const struct store_series *first =
		&summing->selection->series[summing->groups->first_series[group]];
	const char *const names[] = { LABEL_PROCESS, summing->builder.query->group_by };
	_cleanup_(labels_deinit) struct labels labels = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *value = names[i] ? labels_get(&first->labels, names[i]) : NULL;
		int rc = value ? labels_set(&labels, names[i], value) : 0;

		if (rc)
			return profile_builder_fail(&summing->builder, rc);
	}
	int rc = profile_add_series(summing->builder.profile, &labels, first->type, ret_series);
	return rc ? profile_builder_fail(&summing->builder, rc) : 0;
}

static int on_sums(void *context, const struct forest_sums *sums)
{
	struct profile_sums *summing = context;
	uint32_t series;

	int rc = add_series(summing, sums->group, &series);
	for (uint32_t i = 0; !rc && i < sums->live_count; i++) {
		uint32_t node = sums->live[i];
		uint32_t stack;

		if (!sums->self[node])
			continue;
		rc = profile_builder_add_stack(&summing->builder, sums->forest, node, &stack);
		if (rc)
			return rc;
		rc = profile_add_sample(summing->builder.profile, series, stack, 0,
					sums->self[node]);
		if (rc)
			return profile_builder_fail(&summing->builder, rc);
	}
	return rc;
}

static int on_partition(void *context, const struct store_forest *forest)
{
	struct profile_sums *summing = context;

	return profile_builder_begin(&summing->builder, forest);
}

static int build_profile(struct profile_sums *summing)
{
	const struct query *query = summing->builder.query;
	const struct sums_reader reader = {
		.context = summing,
		.partition = on_partition,
		.sums = on_sums,
	};
	uint64_t rows;

	summing->builder.profile->from_ns = query->range.from_ns;
	summing->builder.profile->to_ns = query->range.to_ns;
	if (!summing->selection->series_count)
		return 0;

	int rc = query_sum(query, summing->selection, summing->groups, &reader, &rows,
			   summing->builder.err);
	if (rc)
		return rc;

	// The same stack may have come from several partitions.
	profile_sort_samples(summing->builder.profile);
	return 0;
}

int query_profile(const struct query *asked, struct profile **ret_profile, struct error *err)
{
	const char *const labels[] = { LABEL_PROCESS, asked->group_by };
	_cleanup_(store_selection_freep) struct store_selection *selection = NULL;
	_cleanup_(query_groups_deinit) struct query_groups groups = { 0 };
	_cleanup_(profile_freep) struct profile *profile = profile_new(1);

	struct query whole = *asked, *query = &whole;
	int64_t seconds = 1;

	if (!profile)
		return error_set(err, -ENOMEM, "out of memory for an exported profile");
	query_widen_gauge(query);
	int rc = query_select(query, &selection, err);
	if (!rc)
		rc = query_gauge_seconds(query, selection, &seconds, err);
	if (rc)
		return rc;
	rc = query_groups_init(&groups, selection, labels, query->group_by ? 2 : 1);
	if (rc)
		return error_set(err, rc, "the answer has too many distinct process names");

	struct profile_sums sums = {
		.builder = { .profile = profile,
			     .query = query,
			     .err = err,
			     .symbolizer_ns = SYMBOLIZER_NS_MAX },
		.selection = selection,
		.groups = &groups,
	};
	rc = build_profile(&sums);
	profile_builder_deinit(&sums.builder);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < profile->sample_count; i++)
		profile->samples[i].value = query_gauge_mean(profile->samples[i].value, seconds);

	*ret_profile = take(profile);
	return 0;
}
