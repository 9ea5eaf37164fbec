// SPDX-License-Identifier: Apache-2.0
// Deletes series: writes a tombstone for each partition that has rows of them, in one synced write. From
// then on no read shows the rows; rocksdb_rewrite.c removes them.
#include "collector/store/rocksdb/rocksdb_store.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "collector/store/rocksdb/key.h"
#include "collector/store/rocksdb/partition_presence.h"

/** What is deleted of one partition. */
struct deleted_partition {
	struct partition *partition;       // the selection's reference
	struct tombstone_list *tombstones; // with the new one, not in force yet
};

struct deleting {
	struct rocksdb_store *store;
	struct time_range range;
	uint64_t sequence; // of the last commit that is covered
	struct db_batch *batch;
	struct deleted_partition *partitions;
	uint32_t count;
};

static void deleting_deinit(struct deleting *deleting)
{
	for (uint32_t i = 0; i < deleting->count; i++)
		tombstone_list_unref(deleting->partitions[i].tombstones);
	free(deleting->partitions);
	db_batch_freep(&deleting->batch);
}

static struct tombstone *tombstone_of(const struct deleting *deleting,
				      const struct selected_partition *selected)
{
	const struct partition *partition = selected->partition;
	uint64_t from_ns = deleting->range.from_ns, to_ns = deleting->range.to_ns;
	uint32_t count = 0;

	for (uint32_t i = 0; i < selected->wanted_count; i++)
		count += selected->wanted[i] != SERIES_UNWANTED;
	struct tombstone *tombstone = tombstone_new(count);
	if (!tombstone)
		return NULL;
	if (from_ns < partition->start_ns)
		from_ns = partition->start_ns;
	if (to_ns > partition_end_ns(partition))
		to_ns = partition_end_ns(partition);
	tombstone->sequence = deleting->sequence;
	tombstone->first_minute = (uint32_t)((from_ns - partition->start_ns) / MINUTE_NS);
	tombstone->last_minute = (uint32_t)((to_ns - 1 - partition->start_ns) / MINUTE_NS);
	count = 0;
	for (uint32_t i = 0; i < selected->wanted_count; i++)
		if (selected->wanted[i] != SERIES_UNWANTED)
			tombstone->series[count++] = i;
	return tombstone;
}

static int refuse_full(int rc, struct error *err)
{
	if (rc != -E2BIG)
		return error_set(err, rc, "store: out of memory for a deletion");
	return error_set(
		err, -EAGAIN,
		"too many deletions wait for their rewrite (limits: %d of one hour, %d series "
		"in all hours); wait for it (deletions in GET /api/v1/status), or delete a "
		"shorter time range",
		TOMBSTONES_MAX, TOMBSTONE_SERIES_MAX);
}

static int prepare_partition(struct deleting *deleting, const struct selected_partition *selected)
{
	struct deleted_partition *deleted = &deleting->partitions[deleting->count];
	struct partition *partition = selected->partition;
	struct tombstone *tombstone = tombstone_of(deleting, selected);

	if (!tombstone)
		return -ENOMEM;
	tombstone->number = deleting->store->sequence;
	// Under maintain_lock nobody else changes the list.
	int rc = tombstone_list_add(partition->tombstones, tombstone, &deleted->tombstones);
	if (rc == 0) {
		_cleanup_(buffer_deinit) struct buffer record = { 0 };
		struct key key =
			key_of_record(partition->start_ns, RECORD_TOMBSTONE, tombstone->number);

		deleted->partition = partition;
		deleting->count++;
		tombstone_encode(tombstone, &record);
		rc = record.rc;
		if (rc == 0)
			db_batch_put(deleting->batch, DB_DICTIONARY, key_bytes(&key),
				     (struct bytes){ record.bytes, record.size });
	}
	tombstone_unref(tombstone);
	return rc;
}

static uint64_t count_selected(const struct rocksdb_selection *selection)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < selection->partition_count; i++)
		for (uint32_t j = 0; j < selection->partitions[i].group_count; j++)
			count += selection->partitions[i].groups[j].selected_count;
	return count;
}

static int prepare(struct deleting *deleting, const struct rocksdb_selection *selection)
{
	struct store_stats stats = { 0 };
	int rc = 0;

	rocksdb_read_tombstones(deleting->store, &stats);
	if (stats.tombstone_series + count_selected(selection) > TOMBSTONE_SERIES_MAX)
		return -E2BIG;
	deleting->batch = db_batch_new(deleting->store->db);
	deleting->partitions =
		calloc(selection->partition_count + 1, sizeof(*deleting->partitions));
	if (!deleting->batch || !deleting->partitions)
		return -ENOMEM;
	for (uint32_t i = 0; i < selection->partition_count && rc == 0; i++)
		rc = prepare_partition(deleting, &selection->partitions[i]);
	return rc;
}

/** No commit runs: the number of the deletion is one of its own, and on disk. */
static int write_tombstones(struct deleting *deleting, const struct rocksdb_selection *selection,
			    struct error *err)
{
	struct rocksdb_store *store = deleting->store;
	int rc;

	rocksdb_commit_stop(store);
	store->sequence++;
	rc = prepare(deleting, selection);
	if (rc < 0) {
		rc = refuse_full(rc, err);
	} else {
		rocksdb_put_number(deleting->batch, "sequence", store->sequence);
		rc = db_write(store->db, deleting->batch, true, err);
	}
	rocksdb_commit_resume(store);
	return rc;
}

static int put_in_force(struct deleting *deleting, struct error *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < deleting->count; i++) {
		struct deleted_partition *deleted = &deleting->partitions[i];

		pthread_mutex_lock(&deleted->partition->lock);
		int failed = partition_set_tombstones(deleted->partition, deleting->store->db,
						      take(deleted->tombstones), rc ? NULL : err);
		pthread_mutex_unlock(&deleted->partition->lock);
		rc = rc ? rc : failed;
	}
	return rc;
}

/** Everything that is committed by now, and published: its series are found. */
static uint64_t last_sequence(struct rocksdb_store *store)
{
	rocksdb_commit_stop(store);
	uint64_t sequence = store->sequence;
	rocksdb_commit_resume(store);
	return sequence;
}

/** maintain_lock is held: minutes are closed before it, or without what is deleted. */
static int delete_series(struct rocksdb_store *store, const struct selector *selector,
			 struct time_range range, struct store_deletion *ret_deletion,
			 struct error *err)
{
	_cleanup_(deleting_deinit) struct deleting deleting = { .store = store,
								.range = range,
								.sequence = last_sequence(store) };
	struct store_selection *selection;
	int rc = rocksdb_select(store, selector, NULL, range, &selection, err);

	if (rc < 0)
		return rc;
	if (selection->series_count)
		rc = write_tombstones(&deleting, selection->private_, err);
	if (rc == 0)
		rc = put_in_force(&deleting, err);
	if (rc == 0) {
		store->counters.series_deleted += selection->series_count;
		*ret_deletion = (struct store_deletion){ .series = selection->series_count,
							 .partitions = deleting.count };
	}
	rocksdb_selection_free(selection);
	return rc;
}

int rocksdb_delete(struct rocksdb_store *store, const struct selector *selector,
		   struct time_range range, struct store_deletion *ret_deletion, struct error *err)
{
	pthread_mutex_lock(&store->maintain_lock);
	int rc = delete_series(store, selector, range, ret_deletion, err);
	pthread_mutex_unlock(&store->maintain_lock);
	return rc;
}
