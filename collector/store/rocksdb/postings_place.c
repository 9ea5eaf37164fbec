// SPDX-License-Identifier: Apache-2.0
// Places a new series: as it is, or where a quota has no room for it, into the series of the excess.
#include "collector/store/rocksdb/postings.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/contract/label_names.h"

/** Find or add the series with exactly these labels. -E2BIG and *ret_level: no room at this level. */
static int place_exactly(struct postings *postings, const struct labels *labels, const char *type,
			 uint64_t slot_ns, uint32_t *ret_series, enum series_level *ret_level)
{
	struct id128 id = series_id_of(labels, type);

	*ret_series = postings_find(postings, id, slot_ns);
	if (*ret_series != HASH_TABLE_NONE)
		return 0;
	*ret_level = partition_quota_check(&postings->quota, labels->pairs, labels->count);
	if (*ret_level != SERIES_LEVELS)
		return -E2BIG;
	*ret_level = SERIES_COLLECTOR; // if there are too many pairs
	return postings_add(postings, id, labels, type, slot_ns, ret_series);
}

int postings_place(struct postings *postings, const struct labels *labels, const char *type,
		   uint64_t slot_ns, uint32_t *ret_series, bool *ret_other)
{
	_cleanup_(labels_deinit) struct labels placed = { 0 };
	int rc = labels_copy(labels, &placed), widest = -1;
	enum series_level level = SERIES_LEVELS;
	uint32_t series = HASH_TABLE_NONE;

	*ret_other = false;
	if (rc == 0)
		rc = labels_set(&placed, LABEL_OTHER, ""); // ours: nobody claims it
	if (rc == 0)
		rc = place_exactly(postings, &placed, type, slot_ns, &series, &level);
	// Each series of the excess may meet a wider quota.
	while (rc == -E2BIG && widest < SERIES_COLLECTOR) {
		widest = (int)level > widest ? (int)level : widest + 1;
		labels_deinit(&placed);
		*ret_other = true;
		rc = series_of_excess((enum series_level)widest, labels, &placed);
		if (rc == 0)
			rc = place_exactly(postings, &placed, type, slot_ns, &series, &level);
	}
	if (rc == 0)
		*ret_series = series;
	return rc;
}
