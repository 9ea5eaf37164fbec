// SPDX-License-Identifier: Apache-2.0
#include "collector/diagnose/parked_waits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "base/saturating.h"

enum { PARTS = 4 };

/* What a thread may have more or less in a part: sweeps account for waits, and are rounded to slots. */
#define TOLERANCE    0.01
#define TOLERANCE_NS (40 * NS_PER_MS)

static const enum wait_class classes[PARKED_CLASSES] = { WAIT_CLASS_PIPE, WAIT_CLASS_NETWORK };

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* By node of the first part's tree: the least and the most that its stack has in a part. */
struct bounds {
	int64_t least, most;
};

/* Takes the stacks' values in one more part into account. */
static int add_part(const struct flame_tree *tree, const struct flame_tree *part,
		    struct bounds *bounds)
{
	_cleanup_free_ int64_t *values = flame_tree_self_in(tree, part);

	for (uint32_t i = 0; values && i < tree->node_count; i++) {
		bounds[i].least = smaller(bounds[i].least, values[i]);
		bounds[i].most = larger(bounds[i].most, values[i]);
	}
	return values ? 0 : -ENOMEM;
}

/* The threads that were there all the time; 0 if it cannot be told. */
static int64_t parked_threads(const struct bounds *bounds, int64_t part_ns)
{
	double slack = TOLERANCE + (double)TOLERANCE_NS / (double)part_ns;
	double least = (double)bounds->least / (double)part_ns;
	double most = (double)bounds->most / (double)part_ns;
	int64_t threads = (int64_t)((least + most) / 2 + 0.5);
	bool are_whole =
		least > (double)threads * (1 - slack) && most < (double)threads * (1 + slack);

	return are_whole ? threads : 0;
}

static int read_parts(const struct query *query, struct flame_tree *tree,
		      struct bounds **ret_bounds, struct error *err)
{
	uint64_t part_ns = (query->range.to_ns - query->range.from_ns) / PARTS;
	_cleanup_free_ struct bounds *bounds = NULL;
	int rc = 0;

	for (uint32_t part = 0; part < PARTS && !rc; part++) {
		_cleanup_(flame_tree_deinit) struct flame_tree later = { 0 };
		struct query of_part = *query;

		of_part.range.from_ns += part * part_ns;
		of_part.range.to_ns = of_part.range.from_ns + part_ns;
		rc = query_flame_tree(&of_part, part ? &later : tree, err);
		if (!rc && !part) {
			bounds = calloc((size_t)tree->node_count + 1, sizeof(*bounds));
			for (uint32_t i = 0; bounds && i < tree->node_count; i++)
				bounds[i] =
					(struct bounds){ tree->nodes[i].self, tree->nodes[i].self };
			if (!bounds)
				rc = error_set(err, -ENOMEM, "out of memory for parked threads");
		} else if (!rc && add_part(tree, &later, bounds)) {
			rc = error_set(err, -ENOMEM, "out of memory for parked threads");
		}
	}
	*ret_bounds = take(bounds);
	return rc;
}

static int read_class(const struct query *query, enum wait_class wait, struct flame_tree *ret_tree,
		      struct error *err)
{
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
	int64_t range_ns = (int64_t)(query->range.to_ns - query->range.from_ns);
	struct matcher matchers[SELECTOR_MATCHERS_MAX + 1];
	struct selector selector =
		selector_with(query->selector, LABEL_WAIT, wait_class_name(wait), matchers);
	_cleanup_free_ struct bounds *bounds = NULL;
	struct query waits = *query;

	waits.type = PROFILE_TYPE_OFF_CPU;
	waits.selector = &selector;
	waits.group_by = NULL;
	int rc = read_parts(&waits, &tree, &bounds, err);

	for (uint32_t i = 0; i < tree.node_count && !rc; i++)
		tree.nodes[i].self = parked_threads(&bounds[i], range_ns / PARTS) * range_ns;
	if (!rc) {
		*ret_tree = tree;
		tree = (struct flame_tree){ 0 };
	}
	return rc;
}

void parked_waits_deinit(struct parked_waits *parked)
{
	for (size_t i = 0; i < PARKED_CLASSES; i++)
		flame_tree_deinit(&parked->trees[i]);
}

static void move_to_idle(struct verdict_figures *figures, enum wait_class wait,
			 const struct flame_tree *parked)
{
	int64_t *wait_ns = &figures->wait_ns[wait], sum = 0;

	for (uint32_t i = 1; i < parked->node_count; i++)
		add_to_saturating(&sum, parked->nodes[i].self);
	sum = smaller(sum, *wait_ns);
	*wait_ns = subtract_saturating(*wait_ns, sum);
	add_to_saturating(&figures->wait_ns[WAIT_CLASS_IDLE], sum);
}

int parked_waits_leave_out(const struct query *query, struct verdict_figures *figures,
			   struct parked_waits *ret_parked, struct error *err)
{
	_cleanup_(parked_waits_deinit) struct parked_waits parked = { 0 };
	struct verdict_figures without = *figures;
	int rc = 0;

	for (size_t i = 0; i < PARKED_CLASSES && !rc; i++) {
		// Less than one thread's.
		if ((uint64_t)figures->wait_ns[classes[i]] < figures->range_ns / 100 * 99)
			continue;
		rc = read_class(query, classes[i], &parked.trees[i], err);
		if (!rc)
			move_to_idle(&without, classes[i], &parked.trees[i]);
	}
	if (rc || verdict_of(&without).class == VERDICT_NO_DEMAND)
		return rc;
	*figures = without;
	*ret_parked = parked;
	parked = (struct parked_waits){ 0 };
	return 0;
}

int parked_waits_subtract(struct flame_tree *tree, const char *wait,
			  const struct parked_waits *parked)
{
	int rc = 0;

	for (size_t i = 0; i < PARKED_CLASSES && wait && !rc; i++)
		if (strcmp(wait, wait_class_name(classes[i])) == 0)
			rc = flame_tree_subtract(tree, &parked->trees[i]);
	return rc;
}
