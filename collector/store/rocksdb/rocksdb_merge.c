// SPDX-License-Identifier: Apache-2.0
// Merges the chunks of past hours: a group's rows are sorted by series, then by time, and written as chunks of few
// series and many minutes. A reader of few series then unpacks little else, and the rows of a quiet host
// fill chunks. Rows of a later merge get longer slots, by the partition's age: sums over these slots stay exact.
//
// A little in each run of maintenance, a group's span of minutes at a time: one write puts the merged chunks and
// deletes those that they are made of, so each row is in one of them at any time. What a crash interrupts begins
// again and finds less to do. Rollups stay apart by minute, and are added up where a minute had several.
#include "collector/store/rocksdb/rocksdb_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "collector/store/rocksdb/chunk_find.h"
#include "collector/store/rocksdb/chunk_format.h"
#include "collector/store/rocksdb/partition_load.h"

// Late batches have come by then, and their minutes are closed.
#define MERGE_DELAY_NS (10 * 60 * NS_PER_SECOND)
// In each second's run of maintenance: a fifth of a core. What one span takes beyond is made up for.
#define MERGE_NS_MAX (200 * NS_PER_MS)

enum {
	MERGE_ROWS_MAX = 16 << 20, // of a span, on average: one write has their chunks
};

/** Each divides the next: a span lies within one of any longer length. */
static const uint32_t span_lengths[] = { 1, 2, 4, 12, CHUNK_MINUTES_MAX };

// ---- a group --------------------------------------------------------------------------------------------

/** What a group's chunks are like. */
struct group_shape {
	uint64_t rows;
	uint32_t span_min; // of the merged ones
	bool is_due;
};

static int shape_minute(struct db_iterator *chunks, const struct merge *merge, uint32_t minute,
			struct group_shape *shape)
{
	struct chunk_key wanted = { .minute = minute,
				    .kind = CHUNK_ROWS,
				    .group = merge->next_group };
	struct chunk_key found;

	for (bool more = chunk_find(chunks, merge->partition, &wanted, &found); more;
	     more = db_iterator_next(chunks) && chunk_read_key(chunks, &found) &&
		    found.minute == minute && found.kind == CHUNK_ROWS &&
		    found.group == merge->next_group) {
		struct chunk_head head;

		if (chunk_read_head(db_iterator_value(chunks), &head) < 0)
			return -EBADMSG;
		shape->rows += head.row_count;
		shape->is_due = true;
	}
	return 0;
}

static int shape_merged(struct db_iterator *chunks, const struct merge *merge,
			struct group_shape *shape)
{
	struct merged_key wanted = { .group = merge->next_group };
	struct merged_key found;

	for (bool more = chunk_find_merged(chunks, merge->partition, &wanted, &found); more;
	     more = db_iterator_next(chunks) && db_iterator_key(chunks).size == KEY_MERGED_BYTES) {
		struct chunk_head head;

		found = key_read_merged(db_iterator_key(chunks).at);
		if (found.group != merge->next_group)
			break;
		if (chunk_read_head(db_iterator_value(chunks), &head) < 0)
			return -EBADMSG;
		shape->rows += head.row_count;
		shape->is_due |= head.slot_ns < merge->resolution_ns;
		if (found.minutes > shape->span_min)
			shape->span_min = found.minutes;
	}
	return 0;
}

static int read_shape(struct rocksdb_store *store, const struct merge *merge,
		      struct group_shape *ret_shape, struct error *err)
{
	_cleanup_(db_iterator_freep) struct db_iterator *chunks =
		chunk_iterator_open(store->db, merge->partition);
	uint32_t minutes = (uint32_t)(merge->partition->length_ns / MINUTE_NS);
	int rc = chunks ? 0 : -ENOMEM;

	*ret_shape = (struct group_shape){ .span_min = 1 };
	for (uint32_t minute = 0; minute < minutes && rc == 0; minute++)
		rc = shape_minute(chunks, merge, minute, ret_shape);
	if (rc == 0)
		rc = shape_merged(chunks, merge, ret_shape);
	return rc ? rc : db_iterator_check(chunks, err);
}

/** The shortest span in which a host fills a chunk: a reader of one host unpacks its rows only. */
static uint32_t choose_span(const struct merge *merge, const struct group_shape *shape)
{
	uint64_t minutes = merge->partition->length_ns / MINUTE_NS;
	uint64_t wanted = (uint64_t)CHUNK_ROWS_MAX * merge->hosts[merge->next_group];
	size_t at = 0;

	if (wanted > MERGE_ROWS_MAX)
		wanted = MERGE_ROWS_MAX;
	while (at + 1 < ARRAY_SIZE(span_lengths) &&
	       (shape->rows * span_lengths[at] / minutes < wanted ||
		span_lengths[at] < shape->span_min))
		at++;
	return span_lengths[at];
}

/** Go on to the next group. */
static void end_group(struct merge *merge)
{
	merge->next_group++;
	merge->next_minute = merge->span = 0;
}

/** Do a part of the pass under way. */
static int step(struct rocksdb_store *store, struct error *err)
{
	struct merge *merge = &store->merge;
	struct group_shape shape;
	int rc;

	if (!merge->span) {
		rc = read_shape(store, merge, &shape, err);
		merge->span = choose_span(merge, &shape);
		if (rc == 0 && !shape.is_due)
			end_group(merge);
		return rc;
	}
	rc = rocksdb_merge_span(store, merge, err);
	merge->next_minute += merge->span;
	if (merge->next_minute >= merge->partition->length_ns / MINUTE_NS)
		end_group(merge);
	return rc;
}

// ---- the record -------------------------------------------------------------------------------------------

static int write_record(struct rocksdb_store *store, struct partition *partition,
			uint64_t resolution_ns, uint64_t sequence, struct error *err)
{
	_cleanup_(db_batch_freep) struct db_batch *batch = db_batch_new(store->db);
	_cleanup_(buffer_deinit) struct buffer record = { 0 };
	struct key key = key_of_record(partition->start_ns, RECORD_MERGE, 0);
	int rc = batch ? 0 : -ENOMEM;

	partition_encode_merge(resolution_ns, sequence, &record);
	if (rc == 0)
		rc = record.rc;
	if (rc < 0)
		return rc;
	db_batch_put(batch, DB_DICTIONARY, key_bytes(&key),
		     (struct bytes){ record.bytes, record.size });
	pthread_mutex_lock(&partition->lock);
	if (!partition->dropped)
		rc = db_write(store->db, batch, false, err);
	pthread_mutex_unlock(&partition->lock);
	return rc;
}

int rocksdb_restore_merge(struct rocksdb_store *store, struct partition *partition,
			  struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer record = { 0 };
	struct key key = key_of_record(partition->start_ns, RECORD_MERGE, 0);
	int rc = db_get(store->db, DB_DICTIONARY, key_bytes(&key), &record, err);

	if (rc == -ENOENT || rc == -EBADMSG)
		return 0; // a damaged block is found where the dictionary is read
	if (rc == 0 &&
	    partition_decode_merge(partition, (struct bytes){ record.bytes, record.size }) < 0)
		partition_note_damage(partition, "the record of the merge is damaged");
	return rc;
}

/** Late rows come in many closed minutes, and each merge writes a span anew: they wait for one another. */
void rocksdb_note_unmerged(struct rocksdb_store *store, struct partition *partition)
{
	if (!partition->figures.merged)
		return;
	partition->figures.merged = false;
	partition->merge_after_ns = store->clock->monotonic_ns() + MERGE_DELAY_NS;
}

// ---- a pass over a partition --------------------------------------------------------------------------------

void merge_deinit(struct merge *merge)
{
	partition_unref(merge->partition);
	free(merge->hosts);
	free(merge->identity);
	*merge = (struct merge){ 0 };
}

/** The slots that a partition's rows have at its age; 0: as they came. */
static uint64_t resolution_at(const struct rocksdb_store *store, const struct partition *partition,
			      uint64_t now_ns)
{
	uint64_t age_ns = ns_between(partition_end_ns(partition), now_ns);

	if (store->minutes_after_ns && age_ns >= store->minutes_after_ns)
		return MINUTE_NS;
	return store->seconds_after_ns && age_ns >= store->seconds_after_ns ? NS_PER_SECOND : 0;
}

static bool has_open_rows(const struct partition *partition)
{
	for (uint32_t i = 0; i < partition->head.count; i++)
		if (partition->head.minutes[i].runs.count || partition->head.minutes[i].prepared)
			return true;
	return false;
}

static bool is_due(const struct rocksdb_store *store, struct partition *partition, uint64_t now_ns)
{
	const struct partition_figures *figures = &partition->figures;

	if (now_ns < partition_end_ns(partition) + MERGE_DELAY_NS ||
	    (figures->merged && resolution_at(store, partition, now_ns) <= figures->resolution_ns))
		return false;
	pthread_mutex_lock(&partition->lock);
	bool is = !partition->dropped && !partition->unreadable && !partition->keeps_chunks &&
		  !partition->tombstones && !has_open_rows(partition) &&
		  ns_between(partition->merge_after_ns, store->clock->monotonic_ns()) > 0;
	pthread_mutex_unlock(&partition->lock);
	return is;
}

static int by_number(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

static uint32_t host_of(const struct postings *postings, const struct indexed_series *series)
{
	for (uint32_t i = 0; i < series->pair_count; i++) {
		uint32_t pair = postings->series_pairs[series->first_pair + i];

		if (!strcmp(postings->pairs[pair].name, LABEL_NODE))
			return pair;
	}
	return UINT32_MAX;
}

/** Count each group's hosts. The partition's lock is held. */
static int count_hosts(const struct postings *postings, struct merge *merge)
{
	_cleanup_free_ uint64_t *pairs = malloc((postings->series_count + 1) * sizeof(*pairs));

	merge->series_count = postings->series_count;
	merge->group_count = postings->group_count;
	merge->hosts = calloc(postings->group_count + 1, sizeof(*merge->hosts));
	merge->identity = malloc((postings->series_count + 1) * sizeof(*merge->identity));
	if (!pairs || !merge->hosts || !merge->identity)
		return -ENOMEM;
	for (uint32_t i = 0; i < postings->series_count; i++) {
		const struct indexed_series *series = &postings->series[i];

		merge->identity[i] = i;
		pairs[i] = (uint64_t)series->group << 32 | host_of(postings, series);
	}
	if (postings->series_count)
		qsort(pairs, postings->series_count, sizeof(*pairs), by_number);
	for (uint32_t i = 0; i < postings->series_count; i++)
		merge->hosts[pairs[i] >> 32] += !i || pairs[i] != pairs[i - 1];
	return 0;
}

/** A number above those of all commits, so that no other chunk has these keys. -EAGAIN: a batch came meanwhile. */
static int number_merge(struct rocksdb_store *store, struct merge *merge, struct error *err)
{
	_cleanup_(db_batch_freep) struct db_batch *batch = db_batch_new(store->db);
	int rc = batch ? 0 : -ENOMEM;

	rocksdb_commit_stop(store);
	pthread_mutex_lock(&merge->partition->lock);
	if (rc == 0 && has_open_rows(merge->partition))
		rc = -EAGAIN;
	pthread_mutex_unlock(&merge->partition->lock);
	if (rc == 0) {
		merge->sequence = ++store->sequence;
		rocksdb_put_number(batch, "sequence", store->sequence);
		rc = db_write(store->db, batch, false, err);
	}
	rocksdb_commit_resume(store);
	return rc;
}

/** Has a minute of the partition chunks that are not merged? */
static int find_unmerged(struct rocksdb_store *store, const struct partition *partition,
			 bool *ret_found, struct error *err)
{
	_cleanup_(db_iterator_freep) struct db_iterator *chunks =
		chunk_iterator_open(store->db, partition);

	*ret_found = false;
	if (!chunks)
		return -ENOMEM;
	for (uint32_t minute = 0; minute < partition->length_ns / MINUTE_NS && !*ret_found;
	     minute++) {
		const struct chunk_key wanted = { .minute = minute, .kind = CHUNK_ROWS };
		struct key key = key_of_chunk(partition->start_ns, &wanted);
		struct chunk_key found;

		*ret_found = db_iterator_seek(chunks, key_bytes(&key)) &&
			     chunk_read_key(chunks, &found) && found.minute == minute;
	}
	return *ret_found ? 0 : db_iterator_check(chunks, err);
}

static int begin(struct rocksdb_store *store, struct partition *partition, uint64_t now_ns,
		 struct error *err)
{
	struct merge *merge = &store->merge;
	uint64_t resolution_ns = resolution_at(store, partition, now_ns);
	bool is_needed;
	int rc;

	merge->partition = partition_ref(partition);
	rc = find_unmerged(store, partition, &is_needed, err);
	if (rc == 0 && !is_needed && !partition->merge_begun &&
	    resolution_ns <= partition->figures.resolution_ns) {
		partition->figures.merged = true; // as before a restart
		merge_deinit(merge);
		return 0;
	}
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&partition->lock);
	rc = partition_load_postings(partition, store->db, err);
	if (rc == 0)
		rc = count_hosts(partition->postings, merge);
	pthread_mutex_unlock(&partition->lock);
	if (rc == 0)
		rc = number_merge(store, merge, err);
	if (rc < 0)
		return rc;
	// A shorter slot than before cannot be had again.
	merge->resolution_ns = resolution_ns > partition->figures.resolution_ns
				       ? resolution_ns
				       : partition->figures.resolution_ns;
	if (merge->resolution_ns == partition->figures.resolution_ns)
		return 0;
	// Before the first row has it: readers say what they may find.
	partition->figures.resolution_ns = merge->resolution_ns;
	partition->merge_begun = true;
	return write_record(store, partition, merge->resolution_ns, 0, err);
}

/** All groups are merged. */
static int finish(struct rocksdb_store *store, struct error *err)
{
	struct merge *merge = &store->merge;
	struct partition *partition = merge->partition;
	struct key from = key_of_partition(partition->start_ns);
	struct key to = key_of_partition(partition->start_ns + 1);
	bool is_left; // there were too many sources
	int rc = find_unmerged(store, partition, &is_left, err);

	if (rc == 0)
		rc = write_record(store, partition, merge->resolution_ns, merge->sequence, err);
	if (rc < 0)
		return rc;
	partition->merge_begun = false;
	partition->figures.merged = !is_left;
	rc = db_flush(store->db,
		      err); // an hour's chunks: their deletions are in files, to be compacted
	db_suggest_compaction(store->db, DB_CHUNK, key_bytes(&from), key_bytes(&to));
	merge_deinit(merge);
	return rc;
}

/** Deletions come first: the pass begins again after them. */
static bool is_interrupted(struct partition *partition)
{
	pthread_mutex_lock(&partition->lock);
	bool is = partition->tombstones || partition->dropped;
	pthread_mutex_unlock(&partition->lock);
	return is;
}

/** What is damaged cannot be merged: it stays as it is. */
static int give_up(struct rocksdb_store *store, int rc, struct error *err)
{
	struct partition *partition = store->merge.partition;

	if (rc == -EBADMSG && !db_failed(store->db, NULL)) {
		pthread_mutex_lock(&partition->lock);
		partition_note_damage(partition, "a chunk is damaged");
		partition->keeps_chunks = true;
		pthread_mutex_unlock(&partition->lock);
		rc = 0;
	}
	merge_deinit(&store->merge);
	return rc == -EAGAIN   ? 0
	       : rc == -ENOMEM ? error_set(err, rc, "store: out of memory for merging an hour")
			       : rc;
}

// ---- ids of stacks --------------------------------------------------------------------------------------

/**
 * Are ids of stacks still of use? Agents name stacks by them in batches of this hour, and the next hour takes over
 * what it finds. Later an agent is asked for the definitions again. They are random, so they take more room than
 * all stacks themselves.
 */
static bool has_ids_to_drop(const struct rocksdb_store *store, struct partition *partition,
			    uint64_t now_ns)
{
	uint64_t kept_until_ns = partition_end_ns(partition) + store->partition_ns + MERGE_DELAY_NS;

	if (now_ns < kept_until_ns || !partition->figures.merged)
		return false;
	pthread_mutex_lock(&partition->lock);
	bool has = !partition->ids_dropped && !partition->dropped && !partition->unreadable &&
		   !has_open_rows(partition);
	pthread_mutex_unlock(&partition->lock);
	return has;
}

/** Delete them, and the dictionaries that have them in memory. The lock is held, no commit runs. */
static int drop_ids_locked(struct rocksdb_store *store, struct partition *partition,
			   struct error *err)
{
	struct key from = key_of_record(partition->start_ns, RECORD_STACKS, 0);
	struct key to = key_of_record(partition->start_ns, RECORD_SERIES, 0);
	_cleanup_(db_batch_freep) struct db_batch *batch = db_batch_new(store->db);

	if (!batch)
		return error_set(err, -ENOMEM, "store: out of memory");
	if (atomic_load(&partition->pins) || has_open_rows(partition))
		return 0; // a batch is on its way to them
	db_batch_delete_range(batch, DB_DICTIONARY, key_bytes(&from), key_bytes(&to));
	int rc = db_write(store->db, batch, false, err);
	if (rc == 0)
		partition_evict(partition);
	partition->ids_dropped = rc == 0;
	return rc;
}

/** Their room is free at once: an hour's dictionary is compacted in less than a second. */
static void compact_ids(struct rocksdb_store *store, const struct partition *partition)
{
	struct key from = key_of_record(partition->start_ns, RECORD_STACKS, 0);
	struct key to = key_of_record(partition->start_ns, RECORD_SERIES, 0);

	db_compact_range(store->db, DB_DICTIONARY, key_bytes(&from), key_bytes(&to));
}

static int drop_ids(struct rocksdb_store *store, struct partition_list *list, uint64_t now_ns,
		    struct error *err)
{
	int rc = 0;

	// The newest hours keep them, however old: the next batches' hour takes over what it finds.
	for (uint32_t i = 0; i + PARTITIONS_KEPT < list->count && rc == 0; i++) {
		struct partition *partition = list->partitions[i];

		if (!has_ids_to_drop(store, partition, now_ns))
			continue;
		rocksdb_commit_stop(store);
		pthread_mutex_lock(&partition->lock);
		rc = drop_ids_locked(store, partition, err);
		pthread_mutex_unlock(&partition->lock);
		rocksdb_commit_resume(store);
		if (rc == 0 && partition->ids_dropped)
			compact_ids(store, partition);
	}
	return rc;
}

// ---- maintenance ----------------------------------------------------------------------------------------

static struct partition *next_partition(const struct rocksdb_store *store,
					struct partition_list *list, uint64_t now_ns)
{
	for (uint32_t i = list->count; i-- > 0;) // the newest first: it is read most
		if (is_due(store, list->partitions[i], now_ns))
			return list->partitions[i];
	return NULL;
}

static int merge_some(struct rocksdb_store *store, struct partition_list *list, uint64_t now_ns,
		      uint64_t begun_ns, struct error *err)
{
	struct merge *merge = &store->merge;
	int rc = 0;

	while (rc == 0 && ns_between(begun_ns, clock_monotonic_ns()) < MERGE_NS_MAX) {
		if (!merge->partition) {
			struct partition *partition = next_partition(store, list, now_ns);

			if (!partition)
				return 0;
			rc = begin(store, partition, now_ns, err);
		} else if (is_interrupted(merge->partition)) {
			merge_deinit(merge);
		} else {
			rc = merge->next_group < merge->group_count ? step(store, err)
								    : finish(store, err);
		}
	}
	return rc ? give_up(store, rc, err) : 0;
}

int rocksdb_merge(struct rocksdb_store *store, struct partition_list *list, uint64_t now_ns,
		  struct error *err)
{
	uint64_t begun_ns = clock_monotonic_ns();

	if (store->format < STORE_FORMAT_MERGING)
		return 0;
	if (store->merge_debt_ns > MERGE_NS_MAX) {
		store->merge_debt_ns -= MERGE_NS_MAX;
		return 0;
	}
	int rc = merge_some(store, list, now_ns, begun_ns, err);
	if (rc == 0)
		rc = drop_ids(store, list, now_ns, err);
	store->merge_debt_ns += ns_between(begun_ns, clock_monotonic_ns());
	store->merge_debt_ns -=
		store->merge_debt_ns < MERGE_NS_MAX ? store->merge_debt_ns : MERGE_NS_MAX;
	return rc;
}
