// SPDX-License-Identifier: Apache-2.0
// Truncates a flame tree to a number of nodes that can be drawn. Totals stay exact.
#include "collector/query/flame_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

void flame_tree_deinit(struct flame_tree *tree)
{
	string_table_deinit(&tree->strings);
	free(tree->nodes);
	*tree = (struct flame_tree){ 0 };
}

/** Nodes are kept by falling total, then by rising number: parents first. */
struct rank {
	int64_t total;
	uint32_t node;
};

static int compare_ranks(const void *a, const void *b)
{
	const struct rank *x = a, *y = b;

	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return (x->node > y->node) - (x->node < y->node);
}

static void swap_ranks(struct rank *a, struct rank *b)
{
	struct rank kept = *a;

	*a = *b;
	*b = kept;
}

/** Move the median of the first, middle and last to the front, as the pivot. */
static void place_pivot(struct rank *ranks, size_t count)
{
	struct rank *middle = &ranks[count / 2], *last = &ranks[count - 1];

	if (compare_ranks(middle, last) > 0)
		swap_ranks(middle, last);
	if (compare_ranks(ranks, last) > 0)
		swap_ranks(ranks, last);
	if (compare_ranks(ranks, middle) < 0)
		swap_ranks(ranks, middle);
}

/** Partition around the pivot, ranks[0]. Returns the pivot's new index. */
static size_t split_ranks(struct rank *ranks, size_t count)
{
	size_t before = 0;

	place_pivot(ranks, count);
	for (size_t i = 1; i < count; i++) {
		if (compare_ranks(&ranks[i], &ranks[0]) < 0)
			swap_ranks(&ranks[++before], &ranks[i]);
	}
	swap_ranks(&ranks[0], &ranks[before]);
	return before;
}

/** Move the first @wanted ranks to the front, unsorted (quickselect). */
static void select_first(struct rank *ranks, size_t count, size_t wanted)
{
	// A million takes about 20 rounds. Values that make every pivot bad end in a sort.
	for (int round = 0; round < 100; round++) {
		if (wanted == 0 || wanted >= count)
			return;

		size_t pivot = split_ranks(ranks, count);
		if (pivot == wanted || pivot + 1 == wanted)
			return;
		if (pivot > wanted) {
			count = pivot;
		} else {
			ranks += pivot + 1;
			count -= pivot + 1;
			wanted -= pivot + 1;
		}
	}
	qsort(ranks, count, sizeof(*ranks), compare_ranks);
}

/**
 * Mark the nodes to keep. A parent ranks before its children unless values are negative; the second
 * pass marks the others.
 */
static int mark_kept(const struct flame_tree *tree, uint32_t nodes_max, uint8_t *kept)
{
	_cleanup_free_ struct rank *ranks = malloc(tree->node_count * sizeof(*ranks));

	if (!ranks)
		return -ENOMEM;
	for (uint32_t node = 0; node < tree->node_count; node++)
		ranks[node] = (struct rank){ tree->nodes[node].total, node };
	// The root is kept in any case.
	select_first(ranks + 1, tree->node_count - 1, nodes_max - 1);

	for (uint32_t i = 0; i < nodes_max; i++)
		kept[ranks[i].node] = 1;
	for (uint32_t node = tree->node_count; node-- > 1;)
		kept[tree->nodes[node].parent] |= kept[node];
	return 0;
}

/** Move the kept nodes together; @moved: each node's new number. Returns the value that was cut. */
static int64_t compact_nodes(struct flame_tree *tree, const uint8_t *kept, uint32_t *moved)
{
	uint64_t cut = 0;
	uint32_t count = 0;

	for (uint32_t node = 0; node < tree->node_count; node++) {
		struct flame_node moving = tree->nodes[node];

		if (!kept[node]) {
			if (kept[moving.parent])
				cut += (uint64_t)moving.total;
			continue;
		}
		moving.parent = moved[moving.parent];
		moved[node] = count;
		tree->nodes[count++] = moving;
	}
	tree->node_count = count;
	return (int64_t)cut;
}

/** Copy the strings that are still used to an empty table. */
static int compact_strings(const struct flame_tree *tree, struct string_table *strings,
			   uint32_t *numbers)
{
	for (uint32_t node = 0; node < tree->node_count; node++) {
		const uint32_t used[] = { tree->nodes[node].name, tree->nodes[node].module };

		for (size_t i = 0; i < ARRAY_SIZE(used); i++) {
			const char *string = string_table_get(&tree->strings, used[i]);

			if (!*string || numbers[used[i]])
				continue;
			int rc = string_table_add(strings, string, strlen(string),
						  &numbers[used[i]]);
			if (rc)
				return rc;
		}
	}
	return 0;
}

int flame_tree_truncate(struct flame_tree *tree, uint32_t nodes_max, int64_t *ret_cut)
{
	if (tree->node_count <= nodes_max || nodes_max == 0) {
		*ret_cut = 0;
		return 0;
	}

	_cleanup_free_ uint8_t *kept = calloc(tree->node_count, 1);
	_cleanup_free_ uint32_t *moved = calloc(tree->node_count, sizeof(*moved));
	_cleanup_free_ uint32_t *numbers = calloc(tree->strings.count + 1ULL, sizeof(*numbers));
	_cleanup_(string_table_deinit) struct string_table strings = { 0 };
	if (!kept || !moved || !numbers)
		return -ENOMEM;

	int rc = mark_kept(tree, nodes_max, kept);
	if (!rc)
		rc = string_table_init(&strings);
	if (rc)
		return rc;

	int64_t cut = compact_nodes(tree, kept, moved);
	rc = compact_strings(tree, &strings, numbers);
	if (rc)
		return rc; // the nodes still refer to the old table

	for (uint32_t node = 0; node < tree->node_count; node++) {
		tree->nodes[node].name = numbers[tree->nodes[node].name];
		tree->nodes[node].module = numbers[tree->nodes[node].module];
	}
	string_table_deinit(&tree->strings);
	tree->strings = strings;
	strings = (struct string_table){ 0 };
	*ret_cut = cut;
	return 0;
}
