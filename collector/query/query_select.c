// SPDX-License-Identifier: Apache-2.0
#include "collector/query/query_select.h"

void store_selection_freep(struct store_selection **selection)
{
	if (*selection)
		store_selection_free(*selection);
}

const struct time_range *query_parts(const struct query *query, uint32_t *ret_count)
{
	*ret_count = query->parts.count ? query->parts.count : 1;
	return query->parts.count ? query->parts.at : &query->range;
}

int query_select(const struct query *query, struct store_selection **ret_selection,
		 struct error *err)
{
	return store_select(query->store, query->selector, query->type, query->range, ret_selection,
			    err);
}
