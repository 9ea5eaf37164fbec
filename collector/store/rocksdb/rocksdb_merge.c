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

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "collector/store/interval.h"
#include "collector/store/rocksdb/chunk_format.h"
#include "collector/store/rocksdb/key.h"

// Late batches have come by then, and their minutes are closed.
#define MERGE_DELAY_NS (10 * 60 * NS_PER_SECOND)
// In each second's run of maintenance: a fifth of a core. What one span takes beyond is made up for.
#define MERGE_NS_MAX (200 * NS_PER_MS)

enum {
	MERGE_ROWS_MAX = 16 << 20, // of a span, on average: one write has their chunks
	// A chunk of each is in memory; what more there are wait for the next merge.
	MERGE_SOURCES_MAX = 128,
	SOURCE_ROWS_MAX = CHUNK_ROWS_LIMIT,
};

/** Each divides the next: a span lies within one of any longer length. */
static const uint32_t span_lengths[] = { 1, 2, 4, 12, CHUNK_MINUTES_MAX };

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
			       SOURCE_ROWS_MAX);

	if (rc == 0)
		list->rows[list->count++] = *row;
	return rc == -E2BIG ? -EBADMSG : rc;
}

// ---- keys -------------------------------------------------------------------------------------------

static uint64_t minute_start_ns(const struct partition *partition, uint32_t minute)
{
	return partition->start_ns + minute * MINUTE_NS;
}

/** Read the iterator's key if it is one of a minute's chunks. */
static bool read_chunk_key(struct db_iterator *chunks, struct chunk_key *ret_key)
{
	struct bytes key = db_iterator_key(chunks);

	if (key.size != KEY_CHUNK_BYTES)
		return false;
	*ret_key = key_read_chunk(key.at);
	return ret_key->minute != KEY_MERGED;
}

/** Find the first chunk at or after @wanted of its minute, kind and group. */
static bool find_chunk(struct db_iterator *chunks, const struct partition *partition,
		       const struct chunk_key *wanted, struct chunk_key *ret_found)
{
	struct key key = key_of_chunk(partition->start_ns, wanted);

	return db_iterator_seek(chunks, key_bytes(&key)) && read_chunk_key(chunks, ret_found) &&
	       ret_found->minute == wanted->minute && ret_found->kind == wanted->kind &&
	       ret_found->group == wanted->group;
}

/** Find the first merged chunk at or after @wanted of its group. */
static bool find_merged(struct db_iterator *chunks, const struct partition *partition,
			const struct merged_key *wanted, struct merged_key *ret_found)
{
	struct key key = key_of_merged(partition->start_ns, wanted);

	if (!db_iterator_seek(chunks, key_bytes(&key)))
		return false;
	struct bytes found = db_iterator_key(chunks);
	if (found.size != KEY_MERGED_BYTES)
		return false;
	*ret_found = key_read_merged(found.at);
	return ret_found->group == wanted->group;
}

static struct db_iterator *open_chunks(struct rocksdb_store *store,
				       const struct partition *partition)
{
	struct key from = key_of_partition(partition->start_ns);
	struct key to = key_of_partition(partition->start_ns + 1);

	return db_iterator_open(store->db, DB_CHUNK, key_bytes(&from), key_bytes(&to), false);
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

	while (rc == 0 && find_chunk(merging->chunks, merging->partition, &wanted, &found) &&
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
	while (rc == 0 && find_merged(merging->chunks, merging->partition, &wanted, &found) &&
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
	       find_chunk(merging->chunks, merging->partition, &wanted, &found) &&
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
	merging->chunks = open_chunks(merging->store, merging->partition);
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

static int merge_span(struct rocksdb_store *store, const struct merge *merge, struct error *err)
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

	for (bool more = find_chunk(chunks, merge->partition, &wanted, &found); more;
	     more = db_iterator_next(chunks) && read_chunk_key(chunks, &found) &&
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

	for (bool more = find_merged(chunks, merge->partition, &wanted, &found); more;
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
		open_chunks(store, merge->partition);
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
	rc = merge_span(store, merge, err);
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
	_cleanup_(db_iterator_freep) struct db_iterator *chunks = open_chunks(store, partition);

	*ret_found = false;
	if (!chunks)
		return -ENOMEM;
	for (uint32_t minute = 0; minute < partition->length_ns / MINUTE_NS && !*ret_found;
	     minute++) {
		const struct chunk_key wanted = { .minute = minute, .kind = CHUNK_ROWS };
		struct key key = key_of_chunk(partition->start_ns, &wanted);
		struct chunk_key found;

		*ret_found = db_iterator_seek(chunks, key_bytes(&key)) &&
			     read_chunk_key(chunks, &found) && found.minute == minute;
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
	store->merge_debt_ns += ns_between(begun_ns, clock_monotonic_ns());
	store->merge_debt_ns -=
		store->merge_debt_ns < MERGE_NS_MAX ? store->merge_debt_ns : MERGE_NS_MAX;
	return rc;
}
