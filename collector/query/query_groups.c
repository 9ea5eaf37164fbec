// SPDX-License-Identifier: Apache-2.0
#include "collector/query/query_groups.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"

/** Join the values of several labels. Sizes keep ("ab", "c") and ("a", "bc") apart. */
static int append_key(struct buffer *key, const struct labels *labels, const char *const *names,
		      uint32_t name_count)
{
	buffer_clear(key);
	for (uint32_t i = 0; i < name_count; i++) {
		const char *value = labels_get(labels, names[i]);

		if (name_count > 1)
			buffer_printf(key, "%zu:", value ? strlen(value) : 0);
		buffer_append_string(key, value ? value : "");
	}
	return key->rc;
}

static int assign_groups(struct query_groups *groups, const struct store_selection *selection,
			 const char *const *names, uint32_t name_count)
{
	_cleanup_(buffer_deinit) struct buffer key = { 0 };

	for (uint32_t i = 0; i < selection->series_count; i++) {
		int rc = append_key(&key, &selection->series[i].labels, names, name_count);
		if (!rc)
			rc = string_table_add(&groups->keys, buffer_string(&key), key.size,
					      &groups->of_series[i]);
		if (rc)
			return rc;
	}
	return 0;
}

int query_groups_init(struct query_groups *groups, const struct store_selection *selection,
		      const char *const *labels, uint32_t label_count)
{
	*groups = (struct query_groups){ 0 };
	int rc = string_table_init(&groups->keys);
	if (rc)
		return rc;

	groups->of_series = calloc(selection->series_count + 1, sizeof(*groups->of_series));
	if (!groups->of_series)
		goto out_of_memory;
	if (label_count)
		rc = assign_groups(groups, selection, labels, label_count);
	if (rc) {
		query_groups_deinit(groups);
		return rc;
	}

	groups->count = groups->keys.count;
	groups->first_series = malloc(groups->count * sizeof(*groups->first_series));
	if (!groups->first_series)
		goto out_of_memory;
	memset(groups->first_series, 0xff, groups->count * sizeof(*groups->first_series));
	for (uint32_t i = selection->series_count; i-- > 0;)
		groups->first_series[groups->of_series[i]] = i;
	return 0;

out_of_memory:
	query_groups_deinit(groups);
	return -ENOMEM;
}

void query_groups_deinit(struct query_groups *groups)
{
	string_table_deinit(&groups->keys);
	free(groups->of_series);
	free(groups->first_series);
	*groups = (struct query_groups){ 0 };
}
