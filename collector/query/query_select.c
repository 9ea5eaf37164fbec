// SPDX-License-Identifier: Apache-2.0
#include "collector/query/query_select.h"

#include "base/cleanup.h"

void store_selection_freep(struct store_selection **selection)
{
	if (*selection)
		store_selection_free(*selection);
}

int query_select(const struct query *query, struct store_selection **ret_selection,
		 struct error *err)
{
	_cleanup_(store_selection_freep) struct store_selection *selection = NULL;
	int rc = store_select(query->store, query->selector, query->type, query->range, &selection,
			      err);
	if (rc)
		return rc;

	rc = selector_check_cost(query->selector, err);
	if (rc)
		return rc;

	*ret_selection = take(selection);
	return 0;
}
