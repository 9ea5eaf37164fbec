// SPDX-License-Identifier: Apache-2.0
// Rewrites the merged chunks of a group without what is deleted: of one span and sequence in one write, under the
// same keys. The rollups of minutes that lose rows go with it.
#include "collector/store/rocksdb/rocksdb_store.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "collector/store/rocksdb/chunk_format.h"
#include "collector/store/rocksdb/key.h"

/** The merged chunks of one group, span and sequence. */
struct rewriting {
	struct rocksdb_store *store;
	const struct rewrite *rewrite;
	struct chunk_decoder *decoder;
	struct db_batch *batch;
	struct merged_key at;
	uint64_t covering[CHUNK_MINUTES_MAX]; // by minute of the span
	uint64_t slot_ns, first_slot;
	struct row *rows; // of a chunk, those that stay
	uint32_t row_count, row_capacity;
	uint64_t rows_deleted, chunk_rows_deleted;
};

static void rewriting_deinit(struct rewriting *span)
{
	chunk_decoder_freep(&span->decoder);
	db_batch_freep(&span->batch);
	free(span->rows);
}

static int keep_rows(void *context, const struct store_rows *rows)
{
	struct rewriting *span = context;
	uint64_t start_ns = span->rewrite->partition->start_ns + span->at.first_minute * MINUTE_NS;
	int rc = array_reserve(&span->rows, sizeof(*span->rows), &span->row_capacity,
			       span->row_count, rows->count, CHUNK_ROWS_LIMIT);

	for (uint32_t i = 0; rc == 0 && i < rows->count; i++) {
		uint64_t minute = (rows->slots[i] * rows->slot_ns - start_ns) / MINUTE_NS;

		if (minute >= span->at.minutes)
			return -EBADMSG;
		if (tombstone_list_has(span->rewrite->tombstones, span->covering[minute],
				       rows->series)) {
			span->chunk_rows_deleted++;
			continue;
		}
		span->rows[span->row_count++] = (struct row){
			.series = rows->series,
			.slot = (uint32_t)(rows->slots[i] - span->first_slot),
			.node = rows->nodes[i],
			.more_slots = rows->more_slots ? rows->more_slots[i] : 0,
			.value = rows->values[i],
		};
	}
	return rc;
}

/** Put what is left of the chunk under its key. */
static int put_rows(struct rewriting *span, struct bytes key)
{
	_cleanup_(buffer_deinit) struct buffer chunk = { 0 };
	uint32_t count;

	if (!span->row_count) {
		db_batch_delete(span->batch, DB_CHUNK, key);
		return 0;
	}
	int rc = chunk_encode(span->store->encoder, span->rows, span->row_count, span->slot_ns,
			      span->at.minutes, &chunk, &count);
	if (rc == 0)
		rc = chunk.rc;
	if (rc == 0)
		db_batch_put(span->batch, DB_CHUNK, key, (struct bytes){ chunk.bytes, chunk.size });
	return rc;
}

static int rewrite_chunk(struct rewriting *span, struct bytes key, struct bytes chunk)
{
	struct row_query query = { .to_slot = UINT64_MAX,
				   .wanted = span->rewrite->identity,
				   .wanted_count = span->rewrite->series_count,
				   .context = span,
				   .rows = keep_rows };
	struct chunk_head head;

	if (chunk_read_head(chunk, &head) < 0)
		return -EBADMSG;
	span->slot_ns = head.slot_ns;
	span->first_slot =
		slot_at(span->rewrite->partition->start_ns + span->at.first_minute * MINUTE_NS,
			span->slot_ns);
	query.first_slot = span->first_slot;
	span->row_count = 0;
	span->chunk_rows_deleted = 0;
	int rc = chunk_decode(span->decoder, chunk, &query);
	if (rc < 0 || !span->chunk_rows_deleted)
		return rc;
	span->rows_deleted += span->chunk_rows_deleted;
	return put_rows(span, key);
}

/** Rollups of minutes that have lost rows go: readers read the rows. */
static void delete_rollups(struct rewriting *span)
{
	static const enum chunk_kind kinds[] = { CHUNK_TOTALS, CHUNK_SUMS };

	for (uint32_t i = 0; i < span->at.minutes; i++)
		for (size_t j = 0; span->covering[i] && j < ARRAY_SIZE(kinds); j++) {
			const struct chunk_key rollup = { .minute = span->at.first_minute + i,
							  .kind = kinds[j],
							  .group = span->at.group,
							  .sequence = span->at.sequence };
			struct key key = key_of_chunk(span->rewrite->partition->start_ns, &rollup);

			db_batch_delete(span->batch, DB_CHUNK, key_bytes(&key));
		}
}

/** Rewrite the chunks from the iterator's on that have span->at. */
static int rewrite_span(struct rewriting *span, struct db_iterator *chunks, struct error *err)
{
	struct partition *partition = span->rewrite->partition;
	struct merged_key found;
	int rc = 0;

	db_batch_freep(&span->batch);
	span->batch = db_batch_new(span->store->db);
	span->rows_deleted = 0;
	if (!span->batch)
		return -ENOMEM;
	do
		rc = rewrite_chunk(span, db_iterator_key(chunks), db_iterator_value(chunks));
	while (rc == 0 && db_iterator_next(chunks) &&
	       db_iterator_key(chunks).size == KEY_MERGED_BYTES &&
	       (found = key_read_merged(db_iterator_key(chunks).at),
		merged_key_is_of(&found, &span->at)));
	if (rc == 0)
		rc = db_iterator_check(chunks, err);
	if (rc < 0 || !span->rows_deleted)
		return rc;
	delete_rollups(span);
	pthread_mutex_lock(&partition->lock);
	if (!partition->dropped) // not synced: the tombstone goes later, and so does its write
		rc = db_write(span->store->db, span->batch, false, err);
	pthread_mutex_unlock(&partition->lock);
	if (rc == 0)
		span->store->counters.rows_deleted += span->rows_deleted;
	return rc;
}

/** Find out which minutes of the span tombstones are about. False: none. */
static bool cover_span(struct rewriting *span)
{
	uint64_t any = 0;

	for (uint32_t i = 0; i < span->at.minutes; i++) {
		span->covering[i] = tombstone_list_covering(
			span->rewrite->tombstones, span->at.first_minute + i, span->at.sequence);
		any |= span->covering[i];
	}
	return any;
}

int rocksdb_rewrite_merged(struct rocksdb_store *store, const struct rewrite *rewrite,
			   uint32_t group, struct error *err)
{
	_cleanup_(rewriting_deinit) struct rewriting span = {
		.store = store,
		.rewrite = rewrite,
		.decoder = chunk_decoder_new(),
	};
	struct merged_key from = { .group = group }, to = { .group = group + 1 };
	struct key from_key = key_of_merged(rewrite->partition->start_ns, &from);
	struct key to_key = key_of_merged(rewrite->partition->start_ns, &to);
	_cleanup_(db_iterator_freep) struct db_iterator *chunks = db_iterator_open(
		store->db, DB_CHUNK, key_bytes(&from_key), key_bytes(&to_key), false);
	int rc = chunks && span.decoder ? 0 : -ENOMEM;

	while (rc == 0 && db_iterator_seek(chunks, key_bytes(&from_key))) {
		if (db_iterator_key(chunks).size != KEY_MERGED_BYTES)
			return -EBADMSG;
		span.at = key_read_merged(db_iterator_key(chunks).at);
		if (span.at.minutes > CHUNK_MINUTES_MAX)
			return -EBADMSG;
		from = span.at;
		from.sequence++;
		from.last_series = 0;
		from_key = key_of_merged(rewrite->partition->start_ns, &from);
		if (cover_span(&span))
			rc = rewrite_span(&span, chunks, err);
	}
	return rc ? rc : db_iterator_check(chunks, err);
}
