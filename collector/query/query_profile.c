// SPDX-License-Identifier: Apache-2.0
// Merges a query's samples into a profile for the exporters: one sample per stack and process.
#include "collector/query/query.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "collector/query/query_gauge.h"
#include "collector/query/query_sums.h"
#include "collector/symbols/symbolizer.h"
#include "base/contract/label_names.h"

struct profile_builder {
	struct profile *profile;
	const struct query *query;
	const struct store_selection *selection;
	const struct query_groups *groups;
	struct error *err;
	uint64_t symbolizer_ns; // the symbolizer's time left
	uint32_t *
		location_of; // of the partition: its location to the profile's, UINT32_MAX: not yet
};

static void builder_deinit(struct profile_builder *builder)
{
	free(builder->location_of);
}

static int fail(struct profile_builder *builder, int rc)
{
	if (rc == -E2BIG)
		return error_set(builder->err, rc,
				 "the answer has too many distinct stacks for one file; choose a "
				 "shorter range or fewer series");
	return error_set(builder->err, rc, "out of memory for an exported profile");
}

static int on_partition(void *context, const struct store_forest *forest)
{
	struct profile_builder *builder = context;
	size_t count = forest->locations->location_count;

	free(builder->location_of);
	builder->location_of = malloc((count + 1) * sizeof(*builder->location_of));
	if (!builder->location_of)
		return fail(builder, -ENOMEM);
	memset(builder->location_of, 0xff, count * sizeof(*builder->location_of));
	return 0;
}

static int copy_string(struct profile *into, const struct profile *from, uint32_t number,
		       uint32_t *ret_number)
{
	return profile_add_string(into, profile_string(from, number), ret_number);
}

/** A location being copied, and its lines. */
struct copying {
	struct profile *into;
	struct line lines[LOCATION_LINES_MAX];
	uint32_t count;
};

static int copy_lines(struct copying *copying, const struct profile *from,
		      const struct location *location)
{
	int rc = 0;

	for (uint32_t i = 0; !rc && i < location->line_count; i++) {
		const struct line *line = &from->lines[location->first_line + i];

		copying->lines[i].number = line->number;
		rc = copy_string(copying->into, from, line->name, &copying->lines[i].name);
		if (!rc)
			rc = copy_string(copying->into, from, line->file, &copying->lines[i].file);
	}
	copying->count = location->line_count;
	return rc;
}

_Static_assert((int)SOURCE_LINES_MAX <= (int)LOCATION_LINES_MAX, "all source lines fit a location");

static int copy_found_lines(void *context, const struct source_lines *lines)
{
	struct copying *copying = context;
	int rc = 0;

	for (uint32_t i = 0; !rc && i < lines->count; i++) {
		struct line *line = &copying->lines[i];

		line->number = lines->lines[i].number;
		rc = profile_add_string(copying->into, lines->lines[i].name, &line->name);
		if (!rc)
			rc = profile_add_string(copying->into, lines->lines[i].file, &line->file);
	}
	copying->count = lines->count;
	return rc;
}

static int copy_location(struct profile_builder *builder, const struct profile *from,
			 uint32_t number, uint32_t *ret_number)
{
	const struct location *old = &from->locations[number];
	struct location location = { .id = old->id, .kind = old->kind, .offset = old->offset };
	struct copying copying = { .into = builder->profile };

	if (old->line_count > LOCATION_LINES_MAX)
		return -E2BIG;
	int rc = copy_string(copying.into, from, old->module, &location.module);
	if (!rc)
		rc = copy_string(copying.into, from, old->build_id, &location.build_id);
	if (!rc)
		rc = copy_lines(&copying, from, old);
	if (!rc && !old->line_count && builder->query->symbolizer) {
		rc = symbolizer_find(builder->query->symbolizer, from, old, &builder->symbolizer_ns,
				     copy_found_lines, &copying);
		rc = rc == -ENOENT ? 0 : rc;
	}
	return rc ? rc
		  : profile_add_location(copying.into, &location, copying.lines, copying.count,
					 ret_number);
}

/** Add the stack that ends in forest node @node. */
static int add_stack(struct profile_builder *builder, const struct store_forest *forest,
		     uint32_t node, uint32_t *ret_stack)
{
	uint32_t locations[STACK_FRAMES_MAX];
	enum stack_end end = STACK_END_COMPLETE;
	uint32_t count = 0;

	for (; node; node = forest->parents[node]) {
		uint32_t frame = forest->frames[node];

		if (frame >= FOREST_FRAME_END) {
			end = (enum stack_end)(frame - FOREST_FRAME_END);
			continue;
		}
		if (frame >= forest->locations->location_count || count == STACK_FRAMES_MAX)
			return error_set(builder->err, -EIO, "store: a stack is damaged");
		if (builder->location_of[frame] == UINT32_MAX) {
			int rc = copy_location(builder, forest->locations, frame,
					       &builder->location_of[frame]);
			if (rc)
				return fail(builder, rc);
		}
		locations[count++] = builder->location_of[frame];
	}
	int rc = profile_add_stack(builder->profile, locations, count, end, ret_stack);
	return rc ? fail(builder, rc) : 0;
}

/** Add a group's series, with the labels it is grouped by. */
static int add_series(struct profile_builder *builder, uint32_t group, uint32_t *ret_series)
{
	const struct store_series *first =
		&builder->selection->series[builder->groups->first_series[group]];
	const char *const names[] = { LABEL_PROCESS, builder->query->group_by };
	_cleanup_(labels_deinit) struct labels labels = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *value = names[i] ? labels_get(&first->labels, names[i]) : NULL;
		int rc = value ? labels_set(&labels, names[i], value) : 0;

		if (rc)
			return fail(builder, rc);
	}
	int rc = profile_add_series(builder->profile, &labels, first->type, ret_series);
	return rc ? fail(builder, rc) : 0;
}

static int on_sums(void *context, const struct forest_sums *sums)
{
	struct profile_builder *builder = context;
	uint32_t series;

	int rc = add_series(builder, sums->group, &series);
	for (uint32_t i = 0; !rc && i < sums->live_count; i++) {
		uint32_t node = sums->live[i];
		uint32_t stack;

		if (!sums->self[node])
			continue;
		rc = add_stack(builder, sums->forest, node, &stack);
		if (rc)
			return rc;
		rc = profile_add_sample(builder->profile, series, stack, 0, sums->self[node]);
		if (rc)
			return fail(builder, rc);
	}
	return rc;
}

static int build_profile(struct profile_builder *builder)
{
	const struct query *query = builder->query;
	const struct sums_reader reader = {
		.context = builder,
		.partition = on_partition,
		.sums = on_sums,
	};
	uint64_t rows;

	builder->profile->from_ns = query->range.from_ns;
	builder->profile->to_ns = query->range.to_ns;
	if (!builder->selection->series_count)
		return 0;

	int rc =
		query_sum(query, builder->selection, builder->groups, &reader, &rows, builder->err);
	if (rc)
		return rc;

	// The same stack may have come from several partitions.
	profile_sort_samples(builder->profile);
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

	_cleanup_(builder_deinit) struct profile_builder builder = {
		.profile = profile,
		.query = query,
		.selection = selection,
		.groups = &groups,
		.err = err,
		.symbolizer_ns = SYMBOLIZER_NS_MAX,
	};
	rc = build_profile(&builder);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < profile->sample_count; i++)
		profile->samples[i].value = query_gauge_mean(profile->samples[i].value, seconds);

	*ret_profile = take(profile);
	return 0;
}
