// SPDX-License-Identifier: Apache-2.0
// Sums rows per node: one addition per row, into an array by node. A grouped query uses the array
// for the group being read; when rows of another group follow, it moves the touched nodes to a
// table of (group, node). So memory grows with the touched nodes, not with groups times nodes.
#include "collector/query/query_sums.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/hash_table.h"

enum {
	SPARSE_SORT_DIVISOR = 32, // below 1/32 of all nodes, sorting beats a scan of all
	GROUP_SUMS_MAX = 1 << 28, // 4 GiB
};

/** One group's value in one node. */
struct group_sum {
	uint64_t key; // group << 32 | node
	int64_t value;
};

/** State of a scan. The arrays are the current partition's. */
struct summing {
	const struct query_groups *groups;
	const struct sums_reader *reader;
	struct error *err;
	struct deadline *deadline;
	uint64_t row_count;

	const struct store_forest *forest; // NULL before the first partition
	uint32_t capacity;                 // of the arrays, in nodes
	int64_t *self;
	int64_t *total;
	uint8_t *marked; // while reading a group: touched; while sweeping: live
	uint32_t *live;
	uint32_t live_count;

	uint32_t group; // of the rows in self; only used when grouped
	struct group_sum *sums;
	uint32_t sum_count, sum_capacity;
	struct hash_table index;
};

static bool is_grouped(const struct summing *summing)
{
	return summing->groups->count > 1;
}

static int64_t add(int64_t a, int64_t b)
{
	// Wraps instead of being undefined: values come from agents.
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static void summing_deinit(struct summing *summing)
{
	free(summing->self);
	free(summing->total);
	free(summing->marked);
	free(summing->live);
	free(summing->sums);
	hash_table_deinit(&summing->index);
}

static int summing_reserve(struct summing *summing, uint32_t node_count)
{
	if (node_count <= summing->capacity)
		return 0;

	free(summing->self);
	free(summing->total);
	free(summing->marked);
	free(summing->live);
	summing->capacity = 0;
	summing->self = calloc(node_count, sizeof(*summing->self));
	summing->total = calloc(node_count, sizeof(*summing->total));
	summing->marked = calloc(node_count, sizeof(*summing->marked));
	// One more: add_grouped() writes a node before it checks whether the node is new.
	summing->live = malloc((node_count + 1ULL) * sizeof(*summing->live));
	if (!summing->self || !summing->total || !summing->marked || !summing->live)
		return error_set(summing->err, -ENOMEM, "out of memory for %u stack nodes",
				 node_count);

	summing->capacity = node_count;
	return 0;
}

static bool sum_has_key(const void *context, uint32_t item, const void *key)
{
	const struct group_sum *sums = context;

	return sums[item].key == *(const uint64_t *)key;
}

static int sums_add(struct summing *summing, uint32_t node, int64_t value)
{
	uint64_t key = (uint64_t)summing->group << 32 | node;
	uint64_t hash = hash64_of(&key, sizeof(key));
	uint32_t item = hash_table_find(&summing->index, hash, sum_has_key, summing->sums, &key);

	if (item != HASH_TABLE_NONE) {
		summing->sums[item].value = add(summing->sums[item].value, value);
		return 0;
	}
	if (array_reserve(&summing->sums, sizeof(*summing->sums), &summing->sum_capacity,
			  summing->sum_count, 1, GROUP_SUMS_MAX) ||
	    hash_table_add(&summing->index, hash, summing->sum_count))
		return error_set(summing->err, -ENOMEM, "out of memory for the groups' sums");

	summing->sums[summing->sum_count++] = (struct group_sum){ .key = key, .value = value };
	return 0;
}

/** Move the current group's values to the table. */
static int flush_group(struct summing *summing)
{
	for (uint32_t i = 0; i < summing->live_count; i++) {
		uint32_t node = summing->live[i];

		int rc = sums_add(summing, node, summing->self[node]);
		if (rc)
			return rc;
		summing->self[node] = 0;
		summing->marked[node] = 0;
	}
	summing->live_count = 0;
	return 0;
}

/** Add @node and its ancestors to the live nodes. */
static void mark_path(struct summing *summing, uint32_t node)
{
	while (!summing->marked[node]) {
		summing->marked[node] = 1;
		summing->live[summing->live_count++] = node;
		node = summing->forest->parents[node];
	}
}

static int compare_nodes(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void sort_live(struct summing *summing)
{
	if (summing->live_count < summing->forest->node_count / SPARSE_SORT_DIVISOR) {
		qsort(summing->live, summing->live_count, sizeof(*summing->live), compare_nodes);
		return;
	}

	uint32_t count = 0;
	for (uint32_t node = 0; node < summing->forest->node_count; node++) {
		summing->live[count] = node;
		count += summing->marked[node];
	}
}

/** Compute totals from self and the live nodes, pass them on, and zero the arrays. */
static int sweep(struct summing *summing, uint32_t group)
{
	sort_live(summing);
	for (uint32_t i = summing->live_count; i-- > 1;) {
		uint32_t node = summing->live[i];
		uint32_t parent = summing->forest->parents[node];

		summing->total[node] = add(summing->total[node], summing->self[node]);
		summing->total[parent] = add(summing->total[parent], summing->total[node]);
	}
	summing->total[0] = add(summing->total[0], summing->self[0]);

	const struct forest_sums sums = {
		.forest = summing->forest,
		.group = group,
		.live = summing->live,
		.live_count = summing->live_count,
		.self = summing->self,
		.total = summing->total,
	};
	int rc = summing->live_count ? summing->reader->sums(summing->reader->context, &sums) : 0;

	for (uint32_t i = 0; i < summing->live_count; i++) {
		uint32_t node = summing->live[i];

		summing->self[node] = 0;
		summing->total[node] = 0;
		summing->marked[node] = 0;
	}
	summing->live_count = 0;
	return rc;
}

static int sweep_ungrouped(struct summing *summing)
{
	for (uint32_t node = 0; node < summing->forest->node_count; node++) {
		if (summing->self[node])
			mark_path(summing, node);
	}
	return sweep(summing, 0);
}

static int compare_sums(const void *a, const void *b)
{
	uint64_t x = ((const struct group_sum *)a)->key, y = ((const struct group_sum *)b)->key;

	return (x > y) - (x < y);
}

static int sweep_groups(struct summing *summing)
{
	int rc = flush_group(summing);

	hash_table_clear(&summing->index);
	if (summing->sum_count)
		qsort(summing->sums, summing->sum_count, sizeof(*summing->sums), compare_sums);
	for (uint32_t i = 0; !rc && i < summing->sum_count;) {
		uint32_t group = (uint32_t)(summing->sums[i].key >> 32);

		for (; i < summing->sum_count && summing->sums[i].key >> 32 == group; i++) {
			uint32_t node = (uint32_t)summing->sums[i].key;

			summing->self[node] = summing->sums[i].value;
			if (summing->self[node])
				mark_path(summing, node);
		}
		rc = sweep(summing, group);
	}
	summing->sum_count = 0;
	return rc;
}

static int on_partition_end(void *context)
{
	struct summing *summing = context;

	int rc = is_grouped(summing) ? sweep_groups(summing) : sweep_ungrouped(summing);
	summing->forest = NULL;
	return rc;
}

/** The sweeps rely on parents coming first: a damaged store must not make them loop. */
static bool forest_is_sound(const struct store_forest *forest)
{
	if (forest->node_count == 0 || forest->parents[0] != 0)
		return false;
	for (uint32_t node = 1; node < forest->node_count; node++) {
		if (forest->parents[node] >= node)
			return false;
	}
	return true;
}

static int on_partition(void *context, const struct store_forest *forest)
{
	struct summing *summing = context;

	if (!forest_is_sound(forest))
		return error_set(summing->err, -EIO, "store: a partition's forest is damaged");
	int rc = summing_reserve(summing, forest->node_count);
	if (rc)
		return rc;

	summing->forest = forest;
	return summing->reader->partition
		       ? summing->reader->partition(summing->reader->context, forest)
		       : 0;
}

static int add_grouped(struct summing *summing, const struct store_rows *rows)
{
	uint32_t group = summing->groups->of_series[rows->series];

	if (group != summing->group) {
		int rc = flush_group(summing);
		if (rc)
			return rc;
		summing->group = group;
	}
	for (uint32_t i = 0; i < rows->count; i++) {
		uint32_t node = rows->nodes[i];

		summing->self[node] = add(summing->self[node], rows->values[i]);
		summing->live[summing->live_count] = node;
		summing->live_count += !summing->marked[node];
		summing->marked[node] = 1;
	}
	return 0;
}

static int on_rows(void *context, const struct store_rows *rows)
{
	struct summing *summing = context;
	uint32_t node_count = summing->forest ? summing->forest->node_count : 0;

	int rc = deadline_check(summing->deadline, summing->err);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < rows->count; i++) {
		if (rows->nodes[i] >= node_count)
			return error_set(summing->err, -EIO,
					 "store: a row refers to stack node %u of %u",
					 rows->nodes[i], node_count);
	}
	summing->row_count += rows->count;
	if (is_grouped(summing))
		return add_grouped(summing, rows);

	for (uint32_t i = 0; i < rows->count; i++) {
		uint32_t node = rows->nodes[i];

		summing->self[node] = add(summing->self[node], rows->values[i]);
	}
	return 0;
}

int query_sum(const struct query *query, const struct store_selection *selection,
	      const struct query_groups *groups, const struct sums_reader *reader,
	      uint64_t *ret_rows, struct error *err)
{
	_cleanup_(summing_deinit) struct summing summing = {
		.groups = groups,
		.reader = reader,
		.err = err,
		.deadline = query->selector->deadline,
	};
	const struct store_scanner scanner = {
		.context = &summing,
		.detail = is_grouped(&summing) ? SCAN_SERIES_SUMS : SCAN_SUMS,
		.groups = is_grouped(&summing) ? groups->of_series : NULL,
		.partition = on_partition,
		.rows = on_rows,
		.partition_end = on_partition_end,
	};

	uint32_t count;
	const struct time_range *parts = query_parts(query, &count);

	int rc = store_scan_ranges(query->store, selection, parts, count, &scanner, err);
	if (rc)
		return rc;
	*ret_rows = summing.row_count;
	return 0;
}
