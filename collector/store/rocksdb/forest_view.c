// SPDX-License-Identifier: Apache-2.0
#include "collector/store/rocksdb/forest_view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { ROOM_SHARE = 8, ROOM_MIN = 64 }; // a forest grows a little while it is copied

struct forest_extent forest_extent_of(const struct forest *forest)
{
	const struct profile *locations = forest->locations;

	return (struct forest_extent){
		.nodes = forest->node_count,
		.locations = locations->location_count,
		.lines = locations->line_count,
		.strings = locations->strings.count,
		.renames = forest->renames,
		.string_bytes = locations->strings.bytes_size,
	};
}

/** What queries see of the view. */
static void set_extent(struct forest_view *view)
{
	const struct forest_extent *extent = &view->extent;
	struct profile *locations = view->locations;

	locations->location_count = extent->locations;
	locations->line_count = extent->lines;
	locations->strings.count = extent->strings;
	locations->strings.bytes_size = extent->string_bytes;
	view->forest = (struct store_forest){ .node_count = extent->nodes,
					      .parents = view->parents,
					      .frames = view->frames,
					      .locations = locations };
}

static uint64_t memory_of(const struct forest_extent *room)
{
	return sizeof(struct forest_view) + 8ULL * room->nodes +
	       (uint64_t)room->locations * sizeof(struct location) +
	       (uint64_t)room->lines * sizeof(struct line) + room->string_bytes +
	       4ULL * room->strings;
}

static void free_view(struct forest_view *view)
{
	profile_free(view->locations);
	free(view->parents);
	free(view->frames);
	free(view);
}

static uint32_t with_room(uint32_t count)
{
	return count + count / ROOM_SHARE + ROOM_MIN;
}

static int allocate(struct forest_view *view)
{
	const struct forest_extent *room = &view->room;
	struct profile *locations = view->locations = calloc(1, sizeof(*locations));

	view->parents = malloc(room->nodes * sizeof(*view->parents));
	view->frames = malloc(room->nodes * sizeof(*view->frames));
	if (!locations || !view->parents || !view->frames)
		return -ENOMEM;
	locations->locations = malloc(room->locations * sizeof(*locations->locations));
	locations->lines = malloc(room->lines * sizeof(*locations->lines));
	locations->strings.bytes = malloc(room->string_bytes);
	locations->strings.offsets = malloc(room->strings * sizeof(*locations->strings.offsets));
	locations->slot_ns = 1; // as the forest's
	locations->location_capacity = room->locations;
	locations->line_capacity = room->lines;
	locations->strings.bytes_capacity = room->string_bytes;
	locations->strings.capacity = room->strings;
	return locations->locations && locations->lines && locations->strings.bytes &&
			       locations->strings.offsets
		       ? 0
		       : -ENOMEM;
}

/** Copy items [*count, wanted) as far as *budget (in bytes) goes. */
static void copy_items(void *to, const void *from, size_t item_size, uint32_t *count,
		       uint32_t wanted, size_t *budget)
{
	size_t items = *budget / item_size;

	if (*count >= wanted)
		return;
	items = items < wanted - *count ? items : wanted - *count;
	memcpy((char *)to + *count * item_size, (const char *)from + *count * item_size,
	       items * item_size);
	*count += (uint32_t)items;
	*budget -= items * item_size;
}

static void copy_text(char *to, const char *from, size_t *size, size_t wanted, size_t *budget)
{
	size_t bytes = wanted > *size ? wanted - *size : 0;

	bytes = bytes < *budget ? bytes : *budget;
	if (bytes)
		memcpy(to + *size, from + *size, bytes);
	*size += bytes;
	*budget -= bytes;
}

/** Copy from arrays that hold @now. */
static void copy_growth(struct forest_view *view, const uint32_t *parents, const uint32_t *frames,
			const struct profile *from, const struct forest_extent *now, size_t budget)
{
	struct forest_extent *extent = &view->extent;
	struct profile *to = view->locations;
	size_t half = budget / 2;
	uint32_t nodes = extent->nodes;

	copy_items(view->parents, parents, sizeof(*parents), &nodes, now->nodes, &half);
	budget -= 2 * (nodes - extent->nodes) * sizeof(*parents);
	half = SIZE_MAX;
	copy_items(view->frames, frames, sizeof(*frames), &extent->nodes, nodes, &half);
	copy_text(to->strings.bytes, from->strings.bytes, &extent->string_bytes, now->string_bytes,
		  &budget);
	copy_items(to->strings.offsets, from->strings.offsets, sizeof(*from->strings.offsets),
		   &extent->strings, now->strings, &budget);
	copy_items(to->lines, from->lines, sizeof(*from->lines), &extent->lines, now->lines,
		   &budget);
	copy_items(to->locations, from->locations, sizeof(*from->locations), &extent->locations,
		   now->locations, &budget);
}

struct forest_view *forest_view_begin(const struct forest_view *before,
				      const struct forest_extent *now)
{
	struct forest_view *view = calloc(1, sizeof(*view));

	if (!view)
		return NULL;
	view->room = (struct forest_extent){
		.nodes = with_room(now->nodes),
		.locations = with_room(now->locations),
		.lines = with_room(now->lines),
		.strings = with_room(now->strings),
		.string_bytes = now->string_bytes + now->string_bytes / ROOM_SHARE + 4096,
	};
	if (allocate(view) < 0) {
		free_view(view);
		return NULL;
	}
	atomic_init(&view->refs, 1);
	view->memory = memory_of(&view->room);
	view->extent.renames = now->renames;
	if (before) {
		struct forest_extent copied = before->extent;

		if (copied.renames != now->renames)
			copied.locations = 0; // some have names now
		copy_growth(view, before->parents, before->frames, before->locations, &copied,
			    SIZE_MAX);
	}
	set_extent(view);
	return view;
}

int forest_view_step(struct forest_view *view, const struct forest *forest)
{
	const struct forest_extent now = forest_extent_of(forest), *room = &view->room;
	const struct forest_extent *extent = &view->extent;

	if (now.nodes > room->nodes || now.locations > room->locations || now.lines > room->lines ||
	    now.strings > room->strings || now.string_bytes > room->string_bytes)
		return -ENOSPC;
	copy_growth(view, forest->parents, forest->frames, forest->locations, &now,
		    FOREST_VIEW_STEP_BYTES);
	set_extent(view);
	return extent->nodes == now.nodes && extent->locations == now.locations &&
			       extent->lines == now.lines && extent->strings == now.strings &&
			       extent->string_bytes == now.string_bytes
		       ? 0
		       : -EAGAIN;
}

struct forest_view *forest_view_take(struct forest *forest)
{
	struct forest_view *view = calloc(1, sizeof(*view));

	if (view) {
		atomic_init(&view->refs, 1);
		view->extent = view->room = forest_extent_of(forest);
		view->parents = take(forest->parents);
		view->frames = take(forest->frames);
		view->locations = take(forest->locations);
		hash_table_deinit(&view->locations->location_index);
		hash_table_deinit(&view->locations->strings.index);
		view->memory = memory_of(&view->room);
		set_extent(view);
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
	const struct forest_extent now = forest_extent_of(forest), *extent = &view->extent;

	return extent->nodes != now.nodes || extent->locations != now.locations ||
	       extent->renames != now.renames;
}
