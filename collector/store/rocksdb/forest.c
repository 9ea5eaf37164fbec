// SPDX-License-Identifier: Apache-2.0
#include "collector/store/rocksdb/forest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/array.h"
#include "collector/store/store.h"

struct node_key {
	uint32_t parent, frame;
};

static bool node_equal(const void *context, uint32_t item, const void *key)
{
	const struct forest *forest = context;
	const struct node_key *node = key;

	return forest->parents[item] == node->parent && forest->frames[item] == node->frame;
}

static bool stack_equal(const void *context, uint32_t item, const void *key)
{
	const struct forest *forest = context;

	return id128_equal(forest->stacks[item].id, *(const struct id128 *)key);
}

static uint64_t node_hash(struct node_key key)
{
	// Fibonacci hashing, then the well-mixed high half: node keys are small dense numbers.
	uint64_t hash = ((uint64_t)key.parent << 32 | key.frame) * 0x9e3779b97f4a7c15ULL;

	hash ^= hash >> 29;
	return hash * 0xbf58476d1ce4e5b9ULL;
}

static int append_node(struct forest *forest, struct node_key key, uint32_t *ret_node)
{
	uint32_t node = forest->node_count;
	int rc = array_reserve(&forest->parents, sizeof(uint32_t), &forest->parent_capacity, node,
			       1, FOREST_NODES_MAX);

	if (rc == 0)
		rc = array_reserve(&forest->frames, sizeof(uint32_t), &forest->frame_capacity, node,
				   1, FOREST_NODES_MAX);
	if (rc == 0)
		rc = hash_table_add(&forest->node_index, node_hash(key), node);
	if (rc < 0)
		return rc;
	forest->parents[node] = key.parent;
	forest->frames[node] = key.frame;
	forest->node_count++;
	*ret_node = node;
	return 0;
}

static int add_node(struct forest *forest, struct node_key key, uint32_t *ret_node)
{
	uint32_t node =
		hash_table_find(&forest->node_index, node_hash(key), node_equal, forest, &key);

	if (node == HASH_TABLE_NONE)
		return append_node(forest, key, ret_node);
	*ret_node = node;
	return 0;
}

static int add_stack(struct forest *forest, struct id128 id, uint32_t node)
{
	uint32_t at = forest->stack_count;
	int rc = array_reserve(&forest->stacks, sizeof(*forest->stacks), &forest->stack_capacity,
			       at, 1, FOREST_STACKS_MAX);

	if (rc == 0)
		rc = hash_table_add(&forest->stack_index, id128_hash(id), at);
	if (rc < 0)
		return rc;
	forest->stacks[at] = (struct forest_stack){ .id = id, .node = node };
	forest->stack_count++;
	return 0;
}

int forest_restore_node(struct forest *forest, uint32_t parent, uint32_t frame)
{
	uint32_t node;

	return append_node(forest, (struct node_key){ parent, frame }, &node);
}

int forest_restore_stack(struct forest *forest, struct id128 id, uint32_t node)
{
	return add_stack(forest, id, node);
}

static int init_root(struct forest *forest)
{
	// The root is its own parent. Nothing looks its frame up: a complete stack has no end node.
	struct node_key root = { .parent = 0, .frame = FOREST_FRAME_END };
	uint32_t node;

	return append_node(forest, root, &node);
}

static void forest_freep(struct forest **forest)
{
	forest_free(*forest);
}

struct forest *forest_new(void)
{
	_cleanup_(forest_freep) struct forest *forest = calloc(1, sizeof(*forest));

	if (!forest || !(forest->locations = profile_new(1)) || init_root(forest) < 0)
		return NULL;
	return take(forest);
}

void forest_free(struct forest *forest)
{
	if (!forest)
		return;
	profile_free(forest->locations);
	free(forest->parents);
	free(forest->frames);
	free(forest->stacks);
	free(forest->renamed);
	hash_table_deinit(&forest->node_index);
	hash_table_deinit(&forest->stack_index);
	free(forest);
}

static uint64_t table_memory(const struct hash_table *table)
{
	return (uint64_t)table->slot_count * sizeof(*table->slots);
}

uint64_t forest_memory(const struct forest *forest)
{
	const struct profile *locations = forest->locations;

	return sizeof(*forest) + 4ULL * forest->parent_capacity + 4ULL * forest->frame_capacity +
	       (uint64_t)forest->stack_capacity * sizeof(*forest->stacks) +
	       table_memory(&forest->node_index) + table_memory(&forest->stack_index) +
	       (uint64_t)locations->location_capacity * sizeof(*locations->locations) +
	       (uint64_t)locations->line_capacity * sizeof(*locations->lines) +
	       table_memory(&locations->location_index) + locations->strings.bytes_capacity +
	       4ULL * locations->strings.capacity + table_memory(&locations->strings.index);
}

uint32_t forest_find_stack(const struct forest *forest, struct id128 id)
{
	uint32_t at =
		hash_table_find(&forest->stack_index, id128_hash(id), stack_equal, forest, &id);

	return at == HASH_TABLE_NONE ? HASH_TABLE_NONE : forest->stacks[at].node;
}

// ---- from another profile ---------------------------------------------------------------------

static int copy_string(struct profile *into, const struct profile *from, uint32_t number,
		       uint32_t *ret_number)
{
	return profile_add_string(into, profile_string(from, number), ret_number);
}

static int copy_lines(struct profile *into, const struct profile *from,
		      const struct location *location, struct line *ret_lines)
{
	for (uint32_t i = 0; i < location->line_count; i++) {
		const struct line *line = &from->lines[location->first_line + i];
		int rc = copy_string(into, from, line->name, &ret_lines[i].name);

		if (rc == 0)
			rc = copy_string(into, from, line->file, &ret_lines[i].file);
		if (rc < 0)
			return rc;
		ret_lines[i].number = line->number;
	}
	return 0;
}

static int copy_location(struct forest *forest, const struct profile *from,
			 const struct location *location, uint32_t *ret_frame)
{
	struct profile *into = forest->locations;
	struct location copy = *location;
	struct line lines[LOCATION_LINES_MAX];
	int rc = copy_string(into, from, location->module, &copy.module);

	if (rc == 0)
		rc = copy_string(into, from, location->build_id, &copy.build_id);
	if (rc == 0)
		rc = copy_lines(into, from, location, lines);
	if (rc == 0)
		rc = profile_add_location(into, &copy, lines, location->line_count, ret_frame);
	return rc;
}

static int frame_of_location(struct forest *forest, const struct profile *from, uint32_t number,
			     uint32_t *ret_frame)
{
	const struct location *location = &from->locations[number];
	uint32_t frame = profile_find_location(forest->locations, location->id);

	if (frame == HASH_TABLE_NONE)
		return copy_location(forest, from, location, ret_frame);
	*ret_frame = frame;
	return 0;
}

bool forest_is_full(const struct forest *forest)
{
	// A stack may need a node per frame. One node stays free for lost stacks.
	return forest->node_count > FOREST_NODES_MAX - STACK_FRAMES_MAX - 2 ||
	       forest->stack_count >= FOREST_STACKS_MAX;
}

int forest_add_lost(struct forest *forest, uint32_t *ret_node)
{
	struct node_key lost = { .parent = 0, .frame = FOREST_FRAME_END + STACK_END_LOST };

	return add_node(forest, lost, ret_node);
}

/** Record the stack's node, or at a limit the node of lost stacks. */
static int finish_stack(struct forest *forest, struct id128 id, int rc, uint32_t *node)
{
	if (rc == 0)
		rc = add_stack(forest, id, *node);
	if (rc != -E2BIG)
		return rc;
	forest->stacks_dropped++;
	return forest_add_lost(forest, node);
}

int forest_add_stack(struct forest *forest, const struct profile *profile, uint32_t stack,
		     uint32_t *ret_node)
{
	const struct stack *added = &profile->stacks[stack];
	uint32_t node = 0, frame;
	int rc = forest_is_full(forest) ? -E2BIG : 0;

	if (rc == 0 && added->end != STACK_END_COMPLETE)
		rc = add_node(forest, (struct node_key){ 0, FOREST_FRAME_END + added->end }, &node);
	for (uint32_t i = added->location_count; rc == 0 && i-- > 0;) {
		rc = frame_of_location(forest, profile,
				       profile->stack_locations[added->first_location + i], &frame);
		if (rc == 0)
			rc = add_node(forest, (struct node_key){ node, frame }, &node);
	}
	rc = finish_stack(forest, added->id, rc, &node);
	if (rc == 0)
		*ret_node = node;
	return rc;
}

int forest_copy_stack(struct forest *forest, const struct forest *from, struct id128 id,
		      uint32_t from_node, uint32_t *ret_node)
{
	uint32_t frames[STACK_FRAMES_MAX + 1], depth = 0, node = 0;
	int rc = forest_is_full(forest) ? -E2BIG : 0;

	for (uint32_t at = from_node; at && depth <= STACK_FRAMES_MAX; at = from->parents[at])
		frames[depth++] = from->frames[at];
	while (rc == 0 && depth-- > 0) {
		uint32_t frame = frames[depth];

		if (frame < FOREST_FRAME_END)
			rc = frame_of_location(forest, from->locations, frame, &frame);
		if (rc == 0)
			rc = add_node(forest, (struct node_key){ node, frame }, &node);
	}
	rc = finish_stack(forest, id, rc, &node);
	if (rc == 0)
		*ret_node = node;
	return rc;
}

static int add_renamed(struct forest *forest, uint32_t location)
{
	int rc =
		array_reserve(&forest->renamed, sizeof(*forest->renamed), &forest->renamed_capacity,
			      forest->renamed_count, 1, PROFILE_LOCATIONS_MAX);

	if (rc == 0)
		forest->renamed[forest->renamed_count++] = location;
	return rc;
}

int forest_copy_names(struct forest *forest, const struct profile *profile)
{
	for (uint32_t i = 0; i < profile->location_count; i++) {
		const struct location *location = &profile->locations[i];

		if (!location->line_count)
			continue;
		uint32_t at = profile_find_location(forest->locations, location->id);
		if (at == HASH_TABLE_NONE ||
		    location_detail(profile, location) <=
			    location_detail(forest->locations, &forest->locations->locations[at]))
			continue;
		int rc = copy_location(forest, profile, location, &at);
		forest->renames += rc == 0;
		if (rc == 0)
			rc = add_renamed(forest, at);
		if (rc < 0)
			return rc == -E2BIG ? 0 : rc; // at a limit it stays unnamed
	}
	return 0;
}
