// SPDX-License-Identifier: Apache-2.0
#include "collector/store/store_ops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/agent_table.h"
#include "collector/store/rows.h"

enum { TYPE_BYTES_MAX = LABEL_VALUE_BYTES_MAX };

void store_close(struct store *store)
{
	if (store)
		store->ops->close(store);
}

/** Limits that hold for each implementation. */
static int check_batch(const struct store_batch_id *batch, const struct profile *profile,
		       struct error *err)
{
	if (!batch->sequence || batch->sequence > SEQUENCE_MAX)
		return error_set(err, -EINVAL, "sequence: %llu is not between 1 and 2^48",
				 (unsigned long long)batch->sequence);
	if (profile->slot_ns < SLOT_NS_MIN || profile->slot_ns > MINUTE_NS)
		return error_set(err, -EINVAL, "slot_ns: %llu is not between 1 ms and 60 s",
				 (unsigned long long)profile->slot_ns);
	for (uint32_t i = 0; i < profile->series_count; i++)
		if (strlen(profile_string(profile, profile->series[i].type)) > TYPE_BYTES_MAX)
			return error_set(err, -EINVAL, "series[%u].type is longer than %d bytes", i,
					 TYPE_BYTES_MAX);
	return 0;
}

int store_append(struct store *store, const struct store_batch_id *batch,
		 const struct profile *profile, struct store_append_result *ret_result,
		 struct error *err)
{
	int rc = check_batch(batch, profile, err);

	return rc ? rc : store->ops->append(store, batch, profile, ret_result, err);
}

int store_select(struct store *store, const struct selector *selector, const char *type,
		 struct time_range range, struct store_selection **ret_selection, struct error *err)
{
	int rc = selector_check_tenant(selector, err);

	return rc ? rc : store->ops->select(store, selector, type, range, ret_selection, err);
}

void store_selection_free(struct store_selection *selection)
{
	if (selection)
		((struct store_selection_private *)selection->private_)
			->ops->selection_free(selection);
}

int store_scan(struct store *store, const struct store_selection *selection,
	       struct time_range range, const struct store_scanner *scanner, struct error *err)
{
	return store_scan_ranges(store, selection, &range, 1, scanner, err);
}

int store_scan_ranges(struct store *store, const struct store_selection *selection,
		      const struct time_range *ranges, uint32_t range_count,
		      const struct store_scanner *scanner, struct error *err)
{
	return store->ops->scan(store, selection, ranges, range_count, scanner, err);
}

int store_activity(struct store *store, const struct store_selection *selection,
		   struct time_range range, uint64_t slot_ns, const uint32_t *rows, int64_t *counts,
		   struct error *err)
{
	if (!slot_ns)
		return error_set(err, -EINVAL, "slot: must not be 0");
	return store->ops->activity(store, selection, range, slot_ns, rows, counts, err);
}

void name_list_deinit(struct name_list *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		free(list->names[i]);
	free(list->names);
	*list = (struct name_list){ 0 };
}

int store_label_names(struct store *store, const struct selector *selector, struct time_range range,
		      struct name_list *ret_list, struct error *err)
{
	int rc = selector_check_tenant(selector, err);

	return rc ? rc : store->ops->label_names(store, selector, range, ret_list, err);
}

int store_label_values(struct store *store, const char *name, const struct selector *selector,
		       struct time_range range, struct name_list *ret_list, struct error *err)
{
	int rc = selector_check_tenant(selector, err);

	return rc ? rc : store->ops->label_values(store, name, selector, range, ret_list, err);
}

int store_delete(struct store *store, const struct selector *selector, struct time_range range,
		 struct store_deletion *ret_deletion, struct error *err)
{
	int rc = selector_check_tenant(selector, err);

	if (rc < 0)
		return rc;
	if (range.from_ns >= range.to_ns || range.from_ns % MINUTE_NS ||
	    (range.to_ns % MINUTE_NS && range.to_ns != UINT64_MAX))
		return error_set(err, -EINVAL, "range: must begin and end at whole minutes");
	return store->ops->delete_series(store, selector, range, ret_deletion, err);
}

int store_maintain(struct store *store, uint64_t now_ns, struct error *err)
{
	return store->ops->maintain(store, now_ns, err);
}

int store_flush(struct store *store, struct error *err)
{
	return store->ops->flush(store, err);
}

int store_backup(struct store *store, const char *folder, struct error *err)
{
	return store->ops->backup(store, folder, err);
}

void store_read_stats(struct store *store, struct store_stats *ret_stats)
{
	store->ops->read_stats(store, ret_stats);
}

void store_read_damage(struct store *store, struct time_range range,
		       struct store_damage *ret_damage)
{
	store->ops->read_damage(store, range, ret_damage);
}

uint64_t store_resolution(struct store *store, struct time_range range)
{
	return store->ops->resolution(store, range);
}

void store_read_health(struct store *store, struct store_health *ret_health)
{
	store->ops->read_health(store, ret_health);
}
