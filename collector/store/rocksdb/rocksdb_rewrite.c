// SPDX-License-Identifier: Apache-2.0
// Rewrites partitions without what is deleted, then drops their tombstones. A little in each run of
// maintenance: other work goes on, and what a crash interrupts begins again and finds less to do.
//
// A pass over a partition closes the open minutes that have deleted rows; writes the groups of deleted
// series minute by minute, chunk for chunk, and their rollups; cleans the records of presence and the
// labels of series without any row left; compacts the partition's files; and drops the tombstones. Numbers
// of series and groups stay: readers keep theirs.
#include "collector/store/rocksdb/rocksdb_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "collector/store/rocksdb/chunk_writer.h"
#include "collector/store/rocksdb/key.h"
#include "collector/store/rocksdb/partition_load.h"
#include "collector/store/rocksdb/partition_presence.h"

// In each second's run of maintenance: a fifth of a core at most, one group of a minute aside.
#define REWRITE_NS_MAX (200 * NS_PER_MS)

enum { BATCH_WAIT_US = 1000 }; // for batches in flight, which take milliseconds

// ---- a group of a minute --------------------------------------------------------------------------------

/** The chunks of one group, minute and sequence. */
struct group_rewriting {
	struct rocksdb_store *store;
	const struct rewrite *rewrite;
	struct chunk_decoder *decoder;
	struct db_batch *batch;
	struct chunk_writer writer;
	struct chunk_key at;
	uint64_t covering, slot_ns, first_slot;
	struct row *rows; // of a chunk, those that stay
	uint32_t row_count, row_capacity;
	uint64_t rows_deleted, chunk_rows_deleted;
};

static void group_rewriting_deinit(struct group_rewriting *group)
{
	chunk_decoder_freep(&group->decoder);
	chunk_writer_deinit(&group->writer);
	db_batch_freep(&group->batch);
	free(group->rows);
}

static int keep_rows(void *context, const struct store_rows *rows)
{
	struct group_rewriting *group = context;

	if (tombstone_list_has(group->rewrite->tombstones, group->covering, rows->series)) {
		group->chunk_rows_deleted += rows->count;
		return 0;
	}
	int rc = array_reserve(&group->rows, sizeof(*group->rows), &group->row_capacity,
			       group->row_count, rows->count, CHUNK_ROWS_LIMIT);
	for (uint32_t i = 0; rc == 0 && i < rows->count; i++)
		group->rows[group->row_count++] = (struct row){
			.series = rows->series,
			.slot = (uint32_t)(rows->slots[i] - group->first_slot),
			.node = rows->nodes[i],
			.more_slots = rows->more_slots ? rows->more_slots[i] : 0,
			.value = rows->values[i],
		};
	return rc;
}

static void delete_chunk(struct group_rewriting *group, enum chunk_kind kind, uint32_t last_series)
{
	struct chunk_key at = group->at;

	at.kind = kind;
	at.last_series = last_series;
	struct key key = key_of_chunk(group->rewrite->partition->start_ns, &at);
	db_batch_delete(group->batch, DB_CHUNK, key_bytes(&key));
}

/** Write the chunk without what is deleted, under the same key; or delete it if nothing is left. */
static int rewrite_chunk(struct group_rewriting *group, struct bytes chunk)
{
	const struct partition *partition = group->rewrite->partition;
	struct row_query query = { .to_slot = UINT64_MAX,
				   .wanted = group->rewrite->identity,
				   .wanted_count = group->rewrite->series_count,
				   .context = group,
				   .rows = keep_rows };
	struct chunk_head head;

	if (chunk_read_head(chunk, &head) < 0)
		return -EBADMSG;
	group->slot_ns = head.slot_ns;
	group->first_slot =
		slot_at(partition->start_ns + group->at.minute * MINUTE_NS, group->slot_ns);
	query.first_slot = group->first_slot;
	group->row_count = 0;
	group->chunk_rows_deleted = 0;
	int rc = chunk_decode(group->decoder, chunk, &query);
	if (rc < 0)
		return rc;
	group->rows_deleted += group->chunk_rows_deleted;
	if (!group->chunk_rows_deleted)
		return chunk_writer_count(&group->writer, group->rows, group->row_count);
	delete_chunk(group, CHUNK_ROWS, group->at.last_series);
	return group->row_count
		       ? chunk_writer_put(&group->writer, group->at.group, group->at.last_series,
					  group->rows, group->row_count, group->slot_ns)
		       : 0;
}

/** All chunks of the sequence are read: write its rollups anew, if it has changed. */
static int end_sequence(struct group_rewriting *group, struct error *err)
{
	struct partition *partition = group->rewrite->partition;
	int rc = 0;

	if (!group->rows_deleted) {
		chunk_writer_drop_group(&group->writer);
		return 0;
	}
	delete_chunk(group, CHUNK_TOTALS, 0);
	delete_chunk(group, CHUNK_SUMS, 0);
	if (group->writer.sums.row_count)
		rc = chunk_writer_end_group(&group->writer, group->at.group, group->slot_ns);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&partition->lock);
	if (!partition->dropped) // not synced: the tombstone goes later, and so does its write
		rc = db_write(group->store->db, group->batch, false, err);
	pthread_mutex_unlock(&partition->lock);
	if (rc == 0)
		group->store->counters.rows_deleted += group->rows_deleted;
	return rc;
}

static int begin_sequence(struct group_rewriting *group)
{
	db_batch_freep(&group->batch);
	group->batch = db_batch_new(group->store->db);
	group->writer.batch = group->batch;
	group->writer.sequence = group->at.sequence;
	group->rows_deleted = 0;
	return group->batch ? 0 : -ENOMEM;
}

static bool next_of_sequence(struct group_rewriting *group, struct db_iterator *chunks)
{
	if (!db_iterator_next(chunks) || db_iterator_key(chunks).size != KEY_CHUNK_BYTES)
		return false;
	struct chunk_key found = key_read_chunk(db_iterator_key(chunks).at);
	if (found.sequence != group->at.sequence)
		return false;
	group->at = found;
	return true;
}

static int rewrite_sequence(struct group_rewriting *group, struct db_iterator *chunks,
			    struct error *err)
{
	int rc = begin_sequence(group);

	if (rc < 0)
		return rc;
	do
		rc = rewrite_chunk(group, db_iterator_value(chunks));
	while (rc == 0 && next_of_sequence(group, chunks));
	if (rc == 0)
		rc = db_iterator_check(chunks, err);
	return rc ? rc : end_sequence(group, err);
}

/** Move to the first chunk at or after the group's key. False at the end, or on an error. */
static bool seek_sequence(struct group_rewriting *group, struct db_iterator *chunks)
{
	struct key key = key_of_chunk(group->rewrite->partition->start_ns, &group->at);

	if (!db_iterator_seek(chunks, key_bytes(&key)) ||
	    db_iterator_key(chunks).size != KEY_CHUNK_BYTES)
		return false;
	group->at = key_read_chunk(db_iterator_key(chunks).at);
	return true;
}

static int rewrite_sequences(struct group_rewriting *group, struct db_iterator *chunks,
			     struct error *err)
{
	int rc = 0;

	while (rc == 0 && seek_sequence(group, chunks)) {
		uint64_t sequence = group->at.sequence;

		group->covering = tombstone_list_covering(group->rewrite->tombstones,
							  group->at.minute, sequence);
		if (group->covering)
			rc = rewrite_sequence(group, chunks, err);
		group->at.sequence = sequence + 1;
		group->at.last_series = 0;
	}
	return rc ? rc : db_iterator_check(chunks, err);
}

static int rewrite_group(struct rocksdb_store *store, const struct rewrite *rewrite,
			 uint32_t minute, uint32_t number, struct error *err)
{
	_cleanup_(group_rewriting_deinit) struct group_rewriting group = {
		.store = store,
		.rewrite = rewrite,
		.decoder = chunk_decoder_new(),
		.at = { .minute = minute, .kind = CHUNK_ROWS, .group = number },
		.writer = { .encoder = store->encoder,
			    .partition_ns = rewrite->partition->start_ns,
			    .minute = minute,
			    .minutes = rocksdb_chunk_minutes(store) },
	};
	struct chunk_key end = { .minute = minute, .kind = CHUNK_ROWS, .group = number + 1 };
	struct key from = key_of_chunk(rewrite->partition->start_ns, &group.at);
	struct key to = key_of_chunk(rewrite->partition->start_ns, &end);
	_cleanup_(db_iterator_freep) struct db_iterator *chunks =
		db_iterator_open(store->db, DB_CHUNK, key_bytes(&from), key_bytes(&to), false);
	int rc = chunks && group.decoder ? chunk_writer_init(&group.writer) : -ENOMEM;

	return rc ? rc : rewrite_sequences(&group, chunks, err);
}

// ---- a pass over a partition -----------------------------------------------------------------------------

void rewrite_deinit(struct rewrite *rewrite)
{
	partition_unref(rewrite->partition);
	tombstone_list_unref(rewrite->tombstones);
	free(rewrite->identity);
	free(rewrite->groups);
	*rewrite = (struct rewrite){ 0 };
}

/** List the groups that have a deleted series. The partition's lock is held. */
static int list_groups(struct rewrite *rewrite)
{
	const struct postings *postings = rewrite->partition->postings;
	const struct tombstone_list *list = rewrite->tombstones;
	_cleanup_free_ bool *marked = calloc(postings->group_count + 1, sizeof(*marked));

	rewrite->series_count = postings->series_count;
	rewrite->identity = malloc((postings->series_count + 1) * sizeof(*rewrite->identity));
	rewrite->groups = malloc((postings->group_count + 1) * sizeof(*rewrite->groups));
	if (!marked || !rewrite->identity || !rewrite->groups)
		return -ENOMEM;
	for (uint32_t i = 0; i < postings->series_count; i++)
		rewrite->identity[i] = i;
	for (uint32_t i = 0; i < list->count; i++)
		for (uint32_t j = 0; j < list->tombstones[i]->series_count; j++)
			if (list->tombstones[i]->series[j] < postings->series_count)
				marked[postings->series[list->tombstones[i]->series[j]].group] =
					true;
	for (uint32_t i = 0; i < postings->group_count; i++)
		if (marked[i])
			rewrite->groups[rewrite->group_count++] = i;
	return 0;
}

/** The first open minute from @minute on that has rows of a tombstone's commits. */
static bool find_open_minute(const struct rewrite *rewrite, uint32_t *minute)
{
	const struct head *head = &rewrite->partition->head;

	for (uint32_t i = 0; i < head->count; i++) {
		const struct minute *open = &head->minutes[i];

		if (open->number < *minute || !open->runs.count ||
		    !tombstone_list_covering(rewrite->tombstones, open->number,
					     open->runs.runs[0]->sequence))
			continue;
		*minute = open->number;
		return true;
	}
	return false;
}

/** A closed minute has none of the deleted rows. */
static int close_open_minutes(struct rocksdb_store *store, struct rewrite *rewrite,
			      struct error *err)
{
	for (uint32_t minute = 0;; minute++) {
		pthread_mutex_lock(&rewrite->partition->lock);
		bool found = find_open_minute(rewrite, &minute);
		pthread_mutex_unlock(&rewrite->partition->lock);
		if (!found)
			return 0;
		int rc = rocksdb_close_minute(store, rewrite->partition, minute, err);
		if (rc < 0)
			return rc;
	}
}

static int begin(struct rocksdb_store *store, struct partition *partition, struct error *err)
{
	struct rewrite *rewrite = &store->rewrite;
	int rc;

	rewrite->partition = partition_ref(partition);
	pthread_mutex_lock(&partition->lock);
	rewrite->tombstones = tombstone_list_ref(partition->tombstones);
	rc = partition_load_postings(partition, store->db, err);
	if (rc == 0)
		rc = list_groups(rewrite);
	pthread_mutex_unlock(&partition->lock);
	if (rc == 0)
		rc = close_open_minutes(store, rewrite, err);
	return rc;
}

/** Write the series anew, without the labels of those that have no rows. The lock is held. */
static int clean_series(struct rocksdb_store *store, struct partition *partition,
			struct db_batch *batch, struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer record = { 0 };
	struct key from = key_of_record(partition->start_ns, RECORD_SERIES, 0);
	struct key to = key_of_record(partition->start_ns, RECORD_PRESENCE, 0);
	struct key key = key_of_record(partition->start_ns, RECORD_SERIES, store->sequence);
	int rc = partition_load_postings(partition, store->db, err);

	if (rc == 0)
		rc = postings_encode_present(partition->postings, &record);
	if (rc < 0)
		return rc;
	db_batch_delete_range(batch, DB_DICTIONARY, key_bytes(&from), key_bytes(&to));
	db_batch_put(batch, DB_DICTIONARY, key_bytes(&key),
		     (struct bytes){ record.bytes, record.size });
	return 0;
}

/** No commit runs, and the lock is held. -EAGAIN: a batch in flight may use a series that goes. */
static int clean_locked(struct rocksdb_store *store, struct error *err)
{
	struct rewrite *rewrite = &store->rewrite;
	struct partition *partition = rewrite->partition;
	_cleanup_(db_batch_freep) struct db_batch *batch = db_batch_new(store->db);

	if (atomic_load(&partition->pins))
		return -EAGAIN;
	int rc = batch ? partition_clean_presence(partition, store->db, rewrite->tombstones, batch,
						  err)
		       : -ENOMEM;
	if (rc == 0)
		rc = clean_series(store, partition, batch, err);
	if (rc == 0)
		rc = db_write(store->db, batch, false, err);
	if (rc == 0)
		partition_drop_postings(partition);
	return rc;
}

/** Clean presence and labels. */
static int clean(struct rocksdb_store *store, struct error *err)
{
	struct partition *partition = store->rewrite.partition;
	int rc = 0;

	rocksdb_commit_stop(store);
	pthread_mutex_lock(&partition->lock);
	if (!partition->dropped)
		rc = clean_locked(store, err);
	pthread_mutex_unlock(&partition->lock);
	rocksdb_commit_resume(store);
	return rc;
}

/** The lock is held. */
static int drop_tombstones(struct rocksdb_store *store, struct error *err)
{
	const struct tombstone_list *done = store->rewrite.tombstones;
	struct partition *partition = store->rewrite.partition;
	_cleanup_(db_batch_freep) struct db_batch *batch = db_batch_new(store->db);
	_cleanup_(tombstone_list_unrefp) struct tombstone_list *left = NULL;
	int rc = batch ? tombstone_list_remove(partition->tombstones, done, &left) : -ENOMEM;

	for (uint32_t i = 0; i < done->count && rc == 0; i++) {
		struct key key = key_of_record(partition->start_ns, RECORD_TOMBSTONE,
					       done->tombstones[i]->number);

		db_batch_delete(batch, DB_DICTIONARY, key_bytes(&key));
	}
	if (rc == 0)
		rc = db_write(store->db, batch, false, err);
	return rc ? rc : partition_set_tombstones(partition, store->db, take(left), err);
}

/** All is rewritten: free the log and the files of what was deleted, and go on to another partition. */
static int finish(struct rocksdb_store *store, struct error *err)
{
	struct partition *partition = store->rewrite.partition;
	int rc = clean(store, err);

	if (rc == 0)
		rc = db_flush(store->db, err);
	if (rc < 0)
		return rc;
	rocksdb_compact_partition(store, partition);
	pthread_mutex_lock(&partition->lock);
	if (!partition->dropped)
		rc = drop_tombstones(store, err);
	pthread_mutex_unlock(&partition->lock);
	if (rc == 0)
		rewrite_deinit(&store->rewrite);
	return rc;
}

/** The next group of a minute that tombstones are about. False: the pass has read all. */
static bool next_group(struct rewrite *rewrite, uint32_t *ret_minute, uint32_t *ret_group)
{
	if (rewrite->next_group == rewrite->group_count) {
		rewrite->next_group = 0;
		rewrite->next_minute++;
	}
	while (rewrite->next_minute < rewrite->partition->length_ns / MINUTE_NS &&
	       !tombstone_list_covering(rewrite->tombstones, rewrite->next_minute, 0))
		rewrite->next_minute++;
	if (!rewrite->group_count ||
	    rewrite->next_minute >= rewrite->partition->length_ns / MINUTE_NS)
		return false;
	*ret_minute = rewrite->next_minute;
	*ret_group = rewrite->groups[rewrite->next_group++];
	return true;
}

/** What is damaged cannot be rewritten: its tombstones stay, and so no read ever shows it. */
static int give_up(struct rocksdb_store *store, int rc, struct error *err)
{
	struct partition *partition = store->rewrite.partition;

	if (rc == -EBADMSG && !db_failed(store->db, NULL)) {
		pthread_mutex_lock(&partition->lock);
		partition_note_damage(partition, "deleted profiles cannot be rewritten: damaged");
		partition->keeps_tombstones = true;
		pthread_mutex_unlock(&partition->lock);
		rc = 0;
	}
	rewrite_deinit(&store->rewrite);
	return rc == -ENOMEM ? error_set(err, rc, "store: out of memory for rewriting an hour")
			     : rc;
}

/** Do a part of the pass under way. */
static int step(struct rocksdb_store *store, struct error *err)
{
	struct rewrite *rewrite = &store->rewrite;
	uint32_t minute, group;

	if (next_group(rewrite, &minute, &group))
		return rewrite_group(store, rewrite, minute, group, err);
	if (rewrite->next_merged < rewrite->group_count)
		return rocksdb_rewrite_merged(store, rewrite,
					      rewrite->groups[rewrite->next_merged++], err);
	return finish(store, err);
}

static bool is_to_rewrite(struct partition *partition)
{
	pthread_mutex_lock(&partition->lock);
	bool is = partition->tombstones && !partition->dropped && !partition->unreadable &&
		  !partition->keeps_tombstones;
	pthread_mutex_unlock(&partition->lock);
	return is;
}

static struct partition *next_partition(struct partition_list *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (is_to_rewrite(list->partitions[i]))
			return list->partitions[i];
	return NULL;
}

int rocksdb_rewrite(struct rocksdb_store *store, struct partition_list *list, struct error *err)
{
	uint64_t begun_ns = clock_monotonic_ns();
	int rc = 0;

	while (rc == 0 && ns_between(begun_ns, clock_monotonic_ns()) < REWRITE_NS_MAX) {
		if (!store->rewrite.partition) {
			struct partition *partition = next_partition(list);

			if (!partition)
				return 0;
			rc = begin(store, partition, err);
		}
		if (rc == 0)
			rc = step(store, err);
		if (rc == -EAGAIN) {
			usleep(BATCH_WAIT_US);
			rc = 0;
		}
	}
	return rc ? give_up(store, rc, err) : 0;
}
