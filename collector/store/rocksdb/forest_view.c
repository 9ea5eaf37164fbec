// SPDX-License-Identifier: Apache-2.0
#include "collector/store/rocksdb/forest_view.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static void *copy_array(const void *array, size_t count, size_t item_size)
{
	void *copy = malloc(count * item_size + 1); // NULL only when out of memory

	if (copy && count)
		memcpy(copy, array, count * item_size);
	return copy;
}

static int copy_strings(const struct string_table *strings, struct string_table *ret_copy)
{
	ret_copy->bytes = copy_array(strings->bytes, strings->bytes_size, 1);
	ret_copy->offsets = copy_array(strings->offsets, strings->count, sizeof(uint32_t));
	ret_copy->bytes_size = ret_copy->bytes_capacity = strings->bytes_size;
	ret_copy->count = ret_copy->capacity = strings->count;
	return ret_copy->bytes && ret_copy->offsets ? 0 : -1;
}

static struct profile *copy_locations(const struct profile *profile)
{
	_cleanup_(profile_freep) struct profile *copy = calloc(1, sizeof(*copy));

	if (!copy || copy_strings(&profile->strings, &copy->strings) < 0)
		return NULL;
	copy->slot_ns = profile->slot_ns;
	copy->locations =
		copy_array(profile->locations, profile->location_count, sizeof(*copy->locations));
	copy->lines = copy_array(profile->lines, profile->line_count, sizeof(*copy->lines));
	if (!copy->locations || !copy->lines)
		return NULL;
	copy->location_count = copy->location_capacity = profile->location_count;
	copy->line_count = copy->line_capacity = profile->line_count;
	return take(copy);
}

static void finish_view(struct forest_view *view, uint32_t node_count)
{
	const struct profile *locations = view->locations;

	atomic_init(&view->refs, 1);
	view->forest = (struct store_forest){ .node_count = node_count,
					      .parents = view->parents,
					      .frames = view->frames,
					      .locations = locations };
	view->memory = sizeof(*view) + 8ULL * node_count +
		       (uint64_t)locations->location_capacity * sizeof(*locations->locations) +
		       (uint64_t)locations->line_capacity * sizeof(*locations->lines) +
		       locations->strings.bytes_capacity + 4ULL * locations->strings.capacity;
}

static void free_view(struct forest_view *view)
{
	profile_free(view->locations);
	free(view->parents);
	free(view->frames);
	free(view);
}

struct forest_view *forest_view_copy(const struct forest *forest)
{
	struct forest_view *view = calloc(1, sizeof(*view));

	if (!view)
		return NULL;
	view->parents = copy_array(forest->parents, forest->node_count, sizeof(uint32_t));
	view->frames = copy_array(forest->frames, forest->node_count, sizeof(uint32_t));
	view->locations = copy_locations(forest->locations);
	if (!view->parents || !view->frames || !view->locations) {
		free_view(view);
		return NULL;
	}
	finish_view(view, forest->node_count);
	return view;
}

struct forest_view *forest_view_take(struct forest *forest)
{
	struct forest_view *view = calloc(1, sizeof(*view));

	if (view) {
		view->parents = take(forest->parents);
		view->frames = take(forest->frames);
		view->locations = take(forest->locations);
		hash_table_deinit(&view->locations->location_index);
		hash_table_deinit(&view->locations->strings.index);
		finish_view(view, forest->node_count);
	}
	forest_free(forest);
	return view;
}

struct forest_view *forest_view_ref(struct forest_view *view)
{
	atomic_fetch_add(&view->refs, 1);
	return view;
}

void forest_view_unref(struct forest_view *view)
{
	if (view && atomic_fetch_sub(&view->refs, 1) == 1)
		free_view(view);
}

bool forest_view_is_stale(const struct forest_view *view, const struct forest *forest)
{
	const struct profile *now = forest->locations;

	return view->forest.node_count != forest->node_count ||
	       view->locations->location_count != now->location_count ||
	       view->locations->line_count != now->line_count;
}
