// SPDX-License-Identifier: Apache-2.0
// Places a new series: as it is, or where a quota has no room for it, into the series of the excess.
#include "collector/store/rocksdb/postings.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/contract/label_names.h"

/** A series on its way to its place. */
struct placing {
	struct postings *postings;
	const char *type;
	uint64_t slot_ns;
	uint32_t tenant_series_max;
};

/** Find or add the series with exactly these labels. -E2BIG and *ret_level: no room at this level. */
static int place_exactly(const struct placing *placing, const struct labels *labels,
			 uint32_t *ret_series, enum series_level *ret_level)
{
	struct postings *postings = placing->postings;
	struct id128 id = series_id_of(labels, placing->type);

	*ret_series = postings_find(postings, id, placing->slot_ns);
	if (*ret_series != HASH_TABLE_NONE)
		return 0;
	*ret_level = partition_quota_check(&postings->quota, labels->pairs, labels->count,
					   placing->tenant_series_max);
	if (*ret_level != SERIES_LEVELS)
		return -E2BIG;
	*ret_level = SERIES_COLLECTOR; // if there are too many pairs
	return postings_add(postings, id, labels, placing->type, placing->slot_ns, ret_series);
}

int postings_place(struct postings *postings, const struct labels *labels, const char *type,
		   uint64_t slot_ns, uint32_t tenant_series_max, uint32_t *ret_series,
		   enum series_level *ret_level)
{
	const struct placing placing = { postings, type, slot_ns, tenant_series_max };
	_cleanup_(labels_deinit) struct labels placed = { 0 };
	int rc = labels_copy(labels, &placed), widest = -1;
	enum series_level level = SERIES_LEVELS;
	uint32_t series = HASH_TABLE_NONE;

	*ret_level = SERIES_LEVELS;
	if (rc == 0)
		rc = labels_set(&placed, LABEL_OTHER, ""); // ours: nobody claims it
	if (rc == 0)
		rc = place_exactly(&placing, &placed, &series, &level);
	// Each series of the excess may meet a wider quota.
	while (rc == -E2BIG && widest < SERIES_COLLECTOR) {
		widest = (int)level > widest ? (int)level : widest + 1;
		labels_deinit(&placed);
		*ret_level = (enum series_level)widest;
		rc = series_of_excess(*ret_level, labels, &placed);
		if (rc == 0)
			rc = place_exactly(&placing, &placed, &series, &level);
	}
	if (rc == 0)
		*ret_series = series;
	return rc;
}
