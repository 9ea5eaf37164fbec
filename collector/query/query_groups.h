// SPDX-License-Identifier: Apache-2.0
// Groups a query's series by the values of their labels.
#pragma once

#include <stdint.h>

#include "base/string_table.h"
#include "collector/store/store.h"

struct query_groups {
	struct string_table keys; // by group: the values of its labels
	uint32_t *of_series;
	uint32_t *first_series; // by group; UINT32_MAX: none
	uint32_t count;
};

/**
 * Group by the values of @labels (@label_count names; 0: all series are group 0). With one label, a
 * group's key is its value, "" when absent. Returns 0, -ENOMEM, -E2BIG.
 */
int query_groups_init(struct query_groups *groups, const struct store_selection *selection,
		      const char *const *labels, uint32_t label_count);
void query_groups_deinit(struct query_groups *groups);
