// SPDX-License-Identifier: Apache-2.0
// Merges the chunks of one group and span of minutes: their rows, by series, into chunks of the whole span, in longer
// slots if their age asks for it; and their rollups, minute by minute.
#include "collector/store/rocksdb/rocksdb_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "collector/store/interval.h"
#include "collector/store/rocksdb/chunk_find.h"

enum {
	// A chunk of each is in memory; what more there are wait for the next merge.
	MERGE_SOURCES_MAX = 128,
};

/** Rows being collected. */
struct row_list {
	struct row *rows;
	uint32_t count, capacity;
};

/** The chunks of one minute and sequence, or merged ones of one span and sequence. */
struct source {
	bool is_merged;
	uint32_t first_minute, minutes;
	uint64_t sequence;
	struct key from, to;     // of its chunks that are not read yet
	struct row_list rows;    // of the chunk in hand
	uint32_t next;           // of these rows
	bool ended;              // nothing is left but the rows in hand
	uint32_t merged_rollups; // merged: as in its key
};

/** One group and span of minutes being merged. */
struct merging {
	struct rocksdb_store *store;
	const struct merge *merge;
	struct partition *partition;
	uint32_t group, first_minute, minutes;
	uint64_t slot_ns; // of the merged chunks
	struct db_iterator *chunks;
	struct chunk_decoder *decoder;
	struct db_batch *batch;
	struct source *sources;
	uint32_t source_count, source_capacity;
	struct row_list *reading; // where receive_rows() puts rows
	uint32_t reading_minute;  // slots in reading are relative to this minute
	struct row_list merged;   // of the next merged chunk
	uint32_t rollups;         // written: MERGED_HAS
	uint64_t row_count;
	bool is_due; // there is something to merge
};

static void merging_deinit(struct merging *merging)
{
	for (uint32_t i = 0; i < merging->source_count; i++)
		free(merging->sources[i].rows.rows);
	free(merging->sources);
	free(merging->merged.rows);
	chunk_decoder_freep(&merging->decoder);
	db_iterator_freep(&merging->chunks);
	db_batch_freep(&merging->batch);
}

static int append_row(struct row_list *list, const struct row *row)
{
	int rc = array_reserve(&list->rows, sizeof(*list->rows), &list->capacity, list->count, 1,
			       CHUNK_ROWS_LIMIT);

	if (rc == 0)
		list->rows[list->count++] = *row;
	return rc == -E2BIG ? -EBADMSG : rc;
}

static uint64_t minute_start_ns(const struct partition *partition, uint32_t minute)
{
	return partition->start_ns + minute * MINUTE_NS;
}

// ---- sources ------------------------------------------------------------------------------------------

static int add_source(struct merging *merging, const struct source *source)
{
	struct chunk_head head;

	if (merging->source_count == MERGE_SOURCES_MAX)
		return 0;
	if (chunk_read_head(db_iterator_value(merging->chunks), &head) < 0)
		return -EBADMSG;
	int rc = array_reserve(&merging->sources, sizeof(*merging->sources),
			       &merging->source_capacity, merging->source_count, 1,
			       MERGE_SOURCES_MAX);
	if (rc < 0)
		return rc;
	merging->sources[merging->source_count++] = *source;
	if (head.slot_ns > merging->slot_ns)
		merging->slot_ns = head.slot_ns;
	merging->is_due |= !source->is_merged || head.slot_ns < merging->merge->resolution_ns;
	return 0;
}

static int list_minute(struct merging *merging, uint32_t minute)
{
	struct chunk_key wanted = { .minute = minute, .kind = CHUNK_ROWS, .group = merging->group };
	uint64_t start_ns = merging->partition->start_ns;
	struct chunk_key found;
	int rc = 0;

	while (rc == 0 && chunk_find(merging->chunks, merging->partition, &wanted, &found) &&
	       found.sequence < merging->merge->sequence) {
		wanted.sequence = found.sequence;
		struct source source = { .first_minute = minute,
					 .minutes = 1,
					 .sequence = found.sequence,
					 .from = key_of_chunk(start_ns, &wanted) };
		wanted.sequence++;
		source.to = key_of_chunk(start_ns, &wanted);
		rc = add_source(merging, &source);
	}
	return rc;
}

static int list_merged(struct merging *merging)
{
	struct merged_key wanted = { .group = merging->group };
	uint64_t start_ns = merging->partition->start_ns;
	uint32_t end = merging->first_minute + merging->minutes;
	struct merged_key found;
	int rc = 0;

	wanted.first_minute = merging->first_minute;
	while (rc == 0 && chunk_find_merged(merging->chunks, merging->partition, &wanted, &found) &&
	       found.first_minute < end) {
		wanted = found;
		wanted.last_series = 0;
		struct source source = { .is_merged = true,
					 .first_minute = found.first_minute,
					 .minutes = found.minutes,
					 .sequence = found.sequence,
					 .merged_rollups = found.rollups,
					 .from = key_of_merged(start_ns, &wanted) };
		wanted.sequence++;
		source.to = key_of_merged(start_ns, &wanted);
		rc = add_source(merging, &source);
	}
	return rc;
}

static int list_sources(struct merging *merging, struct error *err)
{
	int rc = list_merged(merging); // first: rows of later commits may wait, these may not

	for (uint32_t i = 0; i < merging->minutes && rc == 0; i++)
		rc = list_minute(merging, merging->first_minute + i);
	merging->is_due |= merging->source_count > 1;
	return rc ? rc : db_iterator_check(merging->chunks, err);
}

// ---- rows of a source -----------------------------------------------------------------------------------

/**
 * Add a row to the list in slots of the merged chunks. The part of an interval in each of them is that of its own
 * slots: neighbours with equal parts stay one interval, whose value divides by its slots.
 */
static int add_lengthened(struct merging *merging, uint64_t slot_ns, uint64_t slot,
			  const struct row *row)
{
	uint64_t long_ns = merging->slot_ns, first = slot * slot_ns / long_ns;
	uint64_t last = (slot + row->more_slots) * slot_ns / long_ns;
	uint64_t base =
		slot_at(minute_start_ns(merging->partition, merging->reading_minute), long_ns);
	struct row part = *row;
	int rc = 0;

	for (uint64_t at = first, next; at <= last && rc == 0; at = next) {
		int64_t value = 0;

		for (next = at; next <= last; next++) {
			int64_t share = interval_within(slot, row->more_slots, row->value,
							slot_at(next * long_ns, slot_ns),
							slot_at((next + 1) * long_ns, slot_ns));
			if (next > at && share != value)
				break;
			value = share;
		}
		part.slot = (uint32_t)(at - base);
		part.more_slots = (uint32_t)(next - at - 1);
		part.value = value * (int64_t)(next - at);
		rc = append_row(merging->reading, &part);
	}
	return rc;
}

static int receive_rows(void *context, const struct store_rows *rows)
{
	struct merging *merging = context;
	uint64_t from_ns = minute_start_ns(merging->partition, merging->first_minute);
	uint64_t end_ns = from_ns + merging->minutes * MINUTE_NS;
	uint64_t base = slot_at(minute_start_ns(merging->partition, merging->reading_minute),
				rows->slot_ns);
	int rc = 0;

	for (uint32_t i = 0; i < rows->count && rc == 0; i++) {
		uint64_t slot = rows->slots[i],
			 more_slots = rows->more_slots ? rows->more_slots[i] : 0;
		struct row row = { .series = rows->series,
				   .node = rows->nodes[i],
				   .more_slots = (uint32_t)more_slots,
				   .value = rows->values[i] };

		if (slot * rows->slot_ns < from_ns || (slot + more_slots) * rows->slot_ns >= end_ns)
			return -EBADMSG;
		row.slot = (uint32_t)(slot - base);
		rc = rows->slot_ns == merging->slot_ns
			     ? append_row(merging->reading, &row)
			     : add_lengthened(merging, rows->slot_ns, slot, &row);
	}
	return rc;
}

/** Add the rows of the iterator's chunk, whose slots count from @minute, to @list. */
static int read_chunk(struct merging *merging, uint32_t minute, const struct row_query *how,
		      uint32_t list_minute, struct row_list *list)
{
	struct bytes chunk = db_iterator_value(merging->chunks);
	struct row_query query = *how;
	struct chunk_head head;

	if (chunk_read_head(chunk, &head) < 0)
		return -EBADMSG;
	query.first_slot = slot_at(minute_start_ns(merging->partition, minute), head.slot_ns);
	query.to_slot = UINT64_MAX;
	query.context = merging;
	query.rows = receive_rows;
	merging->reading = list;
	merging->reading_minute = list_minute;
	return chunk_decode(merging->decoder, chunk, &query);
}

/** Read the source's next chunk, which goes with the write. */
static int read_next(struct merging *merging, struct source *source, struct error *err)
{
	const struct row_query query = { .wanted = merging->merge->identity,
					 .wanted_count = merging->merge->series_count };

	source->rows.count = source->next = 0;
	if (!db_iterator_seek(merging->chunks, key_bytes(&source->from)) ||
	    db_iterator_key(merging->chunks).size != source->to.size ||
	    memcmp(db_iterator_key(merging->chunks).at, source->to.bytes, source->to.size) >= 0) {
		source->ended = true;
		return db_iterator_check(merging->chunks, err);
	}
	int rc = read_chunk(merging, source->first_minute, &query, merging->first_minute,
			    &source->rows);
	struct bytes key = db_iterator_key(merging->chunks);
	db_batch_delete(merging->batch, DB_CHUNK, key);
	memcpy(source->from.bytes, key.at, key.size);
	source->from.bytes[key.size] = 0; // the least key after it
	source->from.size = key.size + 1;
	return rc;
}

/** Have rows in hand, unless the source has ended. */
static int fill_source(struct merging *merging, struct source *source, struct error *err)
{
	int rc = 0;

	while (rc == 0 && !source->ended && source->next == source->rows.count)
		rc = read_next(merging, source, err);
	return rc;
}

// ---- merged chunks --------------------------------------------------------------------------------------

static int put_merged(struct merging *merging)
{
	_cleanup_(buffer_deinit) struct buffer chunk = { 0 };
	struct row_list *rows = &merging->merged;
	struct merged_key at = {
		.group = merging->group,
		.first_minute = merging->first_minute,
		.minutes = merging->minutes,
		.rollups = merging->rollups,
		.sequence = merging->merge->sequence,
	};
	uint32_t count = rows->count;

	if (!count)
		return 0;
	at.last_series = rows->rows[count - 1].series;
	int rc = chunk_encode(merging->store->encoder, rows->rows, count, merging->slot_ns,
			      merging->minutes, &chunk, &count);
	if (rc == 0)
		rc = chunk.rc;
	if (rc < 0)
		return rc;
	struct key key = key_of_merged(merging->partition->start_ns, &at);
	db_batch_put(merging->batch, DB_CHUNK, key_bytes(&key),
		     (struct bytes){ chunk.bytes, chunk.size });
	merging->row_count += count;
	rows->count = 0;
	return 0;
}

/** The lowest series in hand; UINT32_MAX: none is left. */
static uint32_t lowest_series(const struct merging *merging)
{
	uint32_t lowest = UINT32_MAX;

	for (uint32_t i = 0; i < merging->source_count; i++) {
		const struct source *source = &merging->sources[i];

		if (source->next < source->rows.count &&
		    source->rows.rows[source->next].series < lowest)
			lowest = source->rows.rows[source->next].series;
	}
	return lowest;
}

/** Move the rows of @series to the next merged chunk. */
static int move_series(struct merging *merging, struct source *source, uint32_t series,
		       struct error *err)
{
	int rc = 0;

	for (; rc == 0 && source->next < source->rows.count &&
	       source->rows.rows[source->next].series == series;
	     source->next++)
		rc = append_row(&merging->merged, &source->rows.rows[source->next]);
	return rc ? rc : fill_source(merging, source, err);
}

static int merge_rows(struct merging *merging, struct error *err)
{
	uint32_t series = 0, before = UINT32_MAX;
	int rc = 0;

	for (uint32_t i = 0; i < merging->source_count && rc == 0; i++)
		rc = fill_source(merging, &merging->sources[i], err);
	for (; rc == 0 && (series = lowest_series(merging)) != UINT32_MAX; before = series) {
		if (before != UINT32_MAX && series <= before)
			return -EBADMSG; // a series is in one chunk of a source, and chunks ascend
		if (merging->merged.count >= CHUNK_ROWS_MAX)
			rc = put_merged(merging);
		for (uint32_t i = 0; i < merging->source_count && rc == 0; i++)
			rc = move_series(merging, &merging->sources[i], series, err);
	}
	return rc ? rc : put_merged(merging);
}

// ---- rollups --------------------------------------------------------------------------------------------

static bool covers(const struct source *source, uint32_t minute)
{
	return minute >= source->first_minute && minute < source->first_minute + source->minutes;
}

/** Find the rollup of the source's rows of @minute. */
static bool find_rollup(struct merging *merging, const struct source *source, uint32_t minute,
			enum chunk_kind kind)
{
	struct chunk_key wanted = { .minute = minute,
				    .kind = kind,
				    .group = merging->group,
				    .sequence = source->sequence };
	struct chunk_key found;

	return (!source->is_merged || source->merged_rollups & MERGED_HAS(kind)) &&
	       chunk_find(merging->chunks, merging->partition, &wanted, &found) &&
	       found.sequence == source->sequence;
}

/** Read the source's rollup, which goes with the write. */
static int read_rollup(struct merging *merging, uint32_t minute, struct row_list *rows)
{
	const struct row_query query = { .number = 0 };

	db_batch_delete(merging->batch, DB_CHUNK, db_iterator_key(merging->chunks));
	return read_chunk(merging, minute, &query, minute, rows);
}

/** Make rows for a rollup of a minute's source that has none: it has few. */
static int read_minute(struct merging *merging, const struct source *source, struct row_list *rows)
{
	struct key at = source->from;
	const struct row_query query = { .number = 0 };
	int rc = 0;

	for (bool more = db_iterator_seek(merging->chunks, key_bytes(&at)); more && rc == 0;
	     more = db_iterator_next(merging->chunks)) {
		struct bytes key = db_iterator_key(merging->chunks);

		if (key.size != source->to.size || memcmp(key.at, source->to.bytes, key.size) >= 0)
			break;
		rc = read_chunk(merging, source->first_minute, &query, source->first_minute, rows);
	}
	return rc;
}

/** Keep of the rows what the rollup has: their slots, or their nodes. */
static void project(enum chunk_kind kind, struct row_list *rows)
{
	for (uint32_t i = 0; i < rows->count; i++) {
		struct row *row = &rows->rows[i];

		row->series = 0;
		if (kind == CHUNK_TOTALS)
			row->node = 0;
		else
			row->slot = row->more_slots = 0;
	}
}

static int put_rollup(struct merging *merging, uint32_t minute, enum chunk_kind kind,
		      struct row_list *rows)
{
	_cleanup_(buffer_deinit) struct buffer chunk = { 0 };
	struct chunk_key at = { .minute = minute,
				.kind = kind,
				.group = merging->group,
				.sequence = merging->merge->sequence };
	uint32_t kept;

	project(kind, rows);
	int rc = chunk_encode(merging->store->encoder, rows->rows, rows->count, merging->slot_ns, 1,
			      &chunk, &kept);
	if (rc == 0)
		rc = chunk.rc;
	if (rc < 0)
		return rc;
	struct key key = key_of_chunk(merging->partition->start_ns, &at);
	db_batch_put(merging->batch, DB_CHUNK, key_bytes(&key),
		     (struct bytes){ chunk.bytes, chunk.size });
	merging->rollups |= MERGED_HAS(kind);
	return 0;
}

/**
 * Write one rollup of all sources of @minute, if any of them has one. Where merged chunks have none, it
 * did not pay, or deleted rows were in it: then the minute has none again.
 */
static int merge_rollup(struct merging *merging, uint32_t minute, enum chunk_kind kind)
{
	struct row_list rows = { 0 };
	bool any = false, lacks = false;
	int rc = 0;

	for (uint32_t i = 0; i < merging->source_count && rc == 0; i++) {
		const struct source *source = &merging->sources[i];

		if (!covers(source, minute))
			continue;
		bool found = find_rollup(merging, source, minute, kind);
		any |= found;
		lacks |= !found && source->is_merged;
		rc = found ? read_rollup(merging, minute, &rows) : 0;
	}
	for (uint32_t i = 0; i < merging->source_count && rc == 0 && any && !lacks; i++) {
		const struct source *source = &merging->sources[i];

		if (covers(source, minute) && !find_rollup(merging, source, minute, kind))
			rc = read_minute(merging, source, &rows);
	}
	if (rc == 0 && any && !lacks && rows.count)
		rc = put_rollup(merging, minute, kind, &rows);
	free(rows.rows);
	return rc;
}

static int merge_rollups(struct merging *merging)
{
	static const enum chunk_kind kinds[] = { CHUNK_TOTALS, CHUNK_SUMS };
	int rc = 0;

	for (uint32_t i = 0; i < merging->minutes; i++)
		for (size_t j = 0; j < ARRAY_SIZE(kinds) && rc == 0; j++)
			rc = merge_rollup(merging, merging->first_minute + i, kinds[j]);
	return rc;
}

// ---- a span ---------------------------------------------------------------------------------------------

static int begin_span(struct merging *merging, struct error *err)
{
	merging->chunks = chunk_iterator_open(merging->store->db, merging->partition);
	merging->decoder = chunk_decoder_new();
	merging->batch = db_batch_new(merging->store->db);
	if (!merging->chunks || !merging->decoder || !merging->batch)
		return -ENOMEM;
	return list_sources(merging, err);
}

static int write_span(struct merging *merging, struct error *err)
{
	struct partition *partition = merging->partition;
	int rc = 0;

	pthread_mutex_lock(&partition->lock);
	if (!partition->dropped) // not synced: if the write is lost, so are its deletions
		rc = db_write(merging->store->db, merging->batch, false, err);
	pthread_mutex_unlock(&partition->lock);
	if (rc == 0)
		merging->store->counters.rows_merged += merging->row_count;
	return rc;
}

int rocksdb_merge_span(struct rocksdb_store *store, const struct merge *merge, struct error *err)
{
	_cleanup_(merging_deinit) struct merging merging = {
		.store = store,
		.merge = merge,
		.partition = merge->partition,
		.group = merge->next_group,
		.first_minute = merge->next_minute,
		.minutes = merge->span,
		.slot_ns = merge->resolution_ns,
	};
	int rc = begin_span(&merging, err);

	if (rc < 0 || !merging.is_due)
		return rc;
	rc = merge_rollups(&merging); // first: merged chunks' keys say which there are
	if (rc == 0)
		rc = merge_rows(&merging, err);
	return rc ? rc : write_span(&merging, err);
}
