// SPDX-License-Identifier: Apache-2.0
#include "collector/profile_metrics/function_share.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/saturating.h"

enum match { MATCH_UNKNOWN, MATCH_NO, MATCH_YES };

/** What is known of a node of the tree. */
struct place {
	uint32_t share;  // of its group
	bool is_counted; // it or a caller is the function
};

static bool matches(const struct flame_tree *tree, const struct regex *regex, uint32_t name,
		    uint8_t *known)
{
	const char *text = string_table_get(&tree->strings, name);

	// One that takes too long counts as not matching.
	if (known[name] == MATCH_UNKNOWN)
		known[name] =
			regex_find(regex, text, strlen(text), NULL) == 1 ? MATCH_YES : MATCH_NO;
	return known[name] == MATCH_YES;
}

static int by_falling_value(const void *a, const void *b)
{
	const struct function_share *left = a, *right = b;

	if (left->value != right->value)
		return left->value < right->value ? 1 : -1;
	return left->group < right->group ? -1 : 1;
}

int function_shares_of(const struct flame_tree *tree, const struct regex *regex,
		       struct deadline *deadline, struct function_share **ret_shares,
		       uint32_t *ret_count)
{
	_cleanup_free_ struct function_share *shares = NULL;
	_cleanup_free_ struct place *places = NULL;
	_cleanup_free_ uint8_t *known = NULL;
	uint32_t count = 0;
	int rc = array_allocate(&shares, tree->node_count, sizeof(*shares));

	if (!rc)
		rc = array_allocate(&places, tree->node_count, sizeof(*places));
	if (!rc)
		rc = array_allocate(&known, tree->strings.count, sizeof(*known));
	if (rc)
		return rc;
	for (uint32_t i = 1; !rc && i < tree->node_count; i++) { // parents come first
		const struct flame_node *node = &tree->nodes[i];

		if (node->parent == 0) {
			places[i].share = count;
			shares[count++] =
				(struct function_share){ .group = i, .total = node->total };
			continue;
		}
		places[i] = places[node->parent];
		rc = deadline_check(deadline, NULL);
		if (places[i].is_counted || !matches(tree, regex, node->name, known))
			continue;
		places[i].is_counted = true;
		add_to_saturating(&shares[places[i].share].value, node->total);
	}
	if (rc)
		return rc;
	qsort(shares, count, sizeof(*shares), by_falling_value);
	while (count && shares[count - 1].value <= 0)
		count--;
	*ret_shares = take(shares);
	*ret_count = count;
	return 0;
}
