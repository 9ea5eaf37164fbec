// SPDX-License-Identifier: Apache-2.0
#include "collector/store/rocksdb/partition_load.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "collector/store/rocksdb/partition_presence.h"
#include "collector/store/rocksdb/partition_records.h"

static int read_forest_record(struct partition_loading *loading, enum record_kind kind,
			      uint64_t sequence, struct bytes record, struct error *err)
{
	(void)sequence;
	return forest_decode(loading->forest, kind, record, err);
}

int partition_decode_forest(const struct partition *partition, struct db *db,
			    struct forest **ret_forest, struct error *err)
{
	struct partition_loading loading = { .partition = partition, .forest = forest_new() };

	if (!loading.forest)
		return error_set(err, -ENOMEM, "store: out of memory for a forest");
	int rc = partition_each_record(&loading, db, RECORD_STRINGS, RECORD_STACKS,
				       read_forest_record, err);
	if (rc < 0)
		forest_free(loading.forest);
	else
		*ret_forest = loading.forest;
	return rc;
}

int partition_load_forest(struct partition *partition, struct db *db, struct error *err)
{
	partition->used_ns = clock_monotonic_ns();
	if (partition->forest)
		return 0;
	if (partition->unreadable)
		return partition_refuse_unreadable(partition, err);
	struct error cause = { 0 };
	int rc = partition_decode_forest(partition, db, &partition->forest, &cause);
	if (rc < 0)
		return partition_note_unreadable(partition, rc, &cause, err);
	partition->forest_saved = forest_mark_of(partition->forest);
	partition->generation++;
	partition_publish(partition);
	return 0;
}

static int read_series_record(struct partition_loading *loading, enum record_kind kind,
			      uint64_t sequence, struct bytes record, struct error *err)
{
	return kind == RECORD_SERIES ? postings_decode(loading->postings, record, err)
				     : partition_decode_presence(loading, sequence, record, err);
}

int partition_decode_postings(const struct partition *partition, struct db *db,
			      const struct tombstone_list *tombstones,
			      struct postings **ret_postings, struct error *err)
{
	struct partition_loading loading = { .partition = partition,
					     .tombstones = tombstones,
					     .postings = postings_new() };

	if (!loading.postings)
		return error_set(err, -ENOMEM, "store: out of memory for series");
	int rc = partition_each_record(&loading, db, RECORD_SERIES, RECORD_PRESENCE,
				       read_series_record, err);
	if (rc < 0)
		postings_unref(loading.postings);
	else
		*ret_postings = loading.postings;
	return rc;
}

void partition_install_postings(struct partition *partition, struct postings *postings)
{
	partition->postings = postings;
	partition->series_saved = postings->series_count;
	partition->generation++;
	for (uint32_t i = 0; i < partition->head.count; i++) {
		const struct run_list *list = &partition->head.minutes[i].runs;

		for (uint32_t j = 0; j < list->count; j++)
			partition_note_presence(partition, list->runs[j]);
	}
	partition_publish(partition);
}

int partition_load_postings(struct partition *partition, struct db *db, struct error *err)
{
	struct postings *postings;

	partition->used_ns = clock_monotonic_ns();
	if (partition->postings)
		return 0;
	if (partition->unreadable)
		return partition_refuse_unreadable(partition, err);
	struct error cause = { 0 };
	int rc = partition_decode_postings(partition, db, partition->tombstones, &postings, &cause);
	if (rc < 0)
		return partition_note_unreadable(partition, rc, &cause, err);
	partition_install_postings(partition, postings);
	return 0;
}
