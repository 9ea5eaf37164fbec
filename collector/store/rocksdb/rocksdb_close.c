// SPDX-License-Identifier: Apache-2.0
// Closes a minute: sorts the sections of its runs by group and series, encodes each group's rows as
// chunks, and replaces the runs by the chunks in one write. A minute with more rows than fit a chunk
// is closed in portions: some of its runs at a time.
#include "collector/store/rocksdb/rocksdb_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/array.h"
#include "collector/store/rocksdb/chunk_writer.h"
#include "collector/store/rocksdb/key.h"
#include "collector/store/rocksdb/partition_load.h"
#include "collector/store/rocksdb/partition_presence.h"

/** A minute, or a portion of it, being closed. */
struct closing {
	struct rocksdb_store *store;
	struct partition *partition;
	uint32_t minute;
	struct run_list runs;
	struct tombstone_list *tombstones; // their rows are not closed, but dropped
	bool has_more;                     // runs of the minute: another portion follows
	uint64_t sequence;                 // of the last run
	struct db_batch *batch;
	struct chunk_writer writer;
	uint64_t rows_deleted;
	struct section_ref *refs; // the sections of all runs
	uint32_t ref_count;
	uint32_t *group_of; // by series
	uint32_t series_count;
};

/** A series' rows in a run. */
struct section_ref {
	uint32_t group, series;
	uint32_t run, section;
};

static void closing_deinit(struct closing *closing)
{
	run_list_deinit(&closing->runs);
	tombstone_list_unref(closing->tombstones);
	chunk_writer_deinit(&closing->writer);
	db_batch_freep(&closing->batch);
	free(closing->refs);
	free(closing->group_of);
}

// ---- from runs to chunks ----------------------------------------------------------------------------

static int by_group_and_series(const void *a, const void *b)
{
	const struct section_ref *left = a, *right = b;

	if (left->group != right->group)
		return left->group < right->group ? -1 : 1;
	if (left->series != right->series)
		return left->series < right->series ? -1 : 1;
	return left->run < right->run ? -1 : left->run > right->run;
}

static int list_sections(struct closing *closing)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < closing->runs.count; i++)
		count += closing->runs.runs[i]->rows.section_count;
	closing->refs = malloc((count + 1) * sizeof(*closing->refs));
	if (!closing->refs)
		return -ENOMEM;
	for (uint32_t i = 0; i < closing->runs.count; i++) {
		const struct raw_rows *rows = &closing->runs.runs[i]->rows;
		uint64_t covering = tombstone_list_covering(closing->tombstones, closing->minute,
							    closing->runs.runs[i]->sequence);

		for (uint32_t j = 0; j < rows->section_count; j++) {
			uint32_t series = rows->sections[j].series;

			if (series >= closing->series_count)
				return -EBADMSG;
			if (tombstone_list_has(closing->tombstones, covering, series)) {
				closing->rows_deleted += rows->sections[j].count;
				continue;
			}
			closing->refs[closing->ref_count++] =
				(struct section_ref){ .group = closing->group_of[series],
						      .series = series,
						      .run = i,
						      .section = j };
		}
	}
	qsort(closing->refs, closing->ref_count, sizeof(*closing->refs), by_group_and_series);
	return 0;
}

/** Rows of a group, collected for its next chunk. */
struct row_buffer {
	struct row *rows;
	uint32_t count, capacity;
};

static int read_section(struct closing *closing, const struct section_ref *ref,
			struct row_buffer *buffer)
{
	const struct raw_rows *rows = &closing->runs.runs[ref->run]->rows;
	uint32_t count = rows->sections[ref->section].count;
	int rc = array_reserve(&buffer->rows, sizeof(*buffer->rows), &buffer->capacity,
			       buffer->count, count, UINT32_MAX / 2);

	if (rc == 0)
		rc = raw_rows_read(rows, ref->section, buffer->rows + buffer->count);
	if (rc == 0)
		buffer->count += count;
	return rc;
}

static int flush_rows(struct closing *closing, uint32_t group, uint64_t slot_ns,
		      struct row_buffer *buffer)
{
	uint32_t count = buffer->count;

	buffer->count = 0;
	return count ? chunk_writer_put(&closing->writer, group, buffer->rows[count - 1].series,
					buffer->rows, count, slot_ns)
		     : 0;
}

/** Write the chunks of the group with the sections refs [from, to). */
static int close_group(struct closing *closing, uint32_t from, uint32_t to,
		       struct row_buffer *buffer)
{
	uint32_t group = closing->refs[from].group;
	uint64_t slot_ns = closing->runs.runs[closing->refs[from].run]->rows.slot_ns;
	int rc = 0;

	for (uint32_t i = from; i < to && rc == 0; i++) {
		const struct section_ref *ref = &closing->refs[i];
		bool new_series = i > from && ref->series != closing->refs[i - 1].series;

		// A series stays in one chunk, where its rows are sorted and joined.
		if (new_series && buffer->count >= CHUNK_ROWS_MAX)
			rc = flush_rows(closing, group, slot_ns, buffer);
		if (rc == 0)
			rc = read_section(closing, ref, buffer);
	}
	if (rc == 0)
		rc = flush_rows(closing, group, slot_ns, buffer);
	if (rc == 0)
		rc = chunk_writer_end_group(&closing->writer, group, slot_ns);
	return rc;
}

static int close_groups(struct closing *closing)
{
	struct row_buffer buffer = { 0 };
	int rc;

	closing->writer = (struct chunk_writer){ .encoder = closing->store->encoder,
						 .batch = closing->batch,
						 .partition_ns = closing->partition->start_ns,
						 .minute = closing->minute,
						 .minutes = rocksdb_chunk_minutes(closing->store),
						 .sequence = closing->sequence };
	rc = chunk_writer_init(&closing->writer);
	for (uint32_t from = 0, to; from < closing->ref_count && rc == 0; from = to) {
		for (to = from; to < closing->ref_count &&
				closing->refs[to].group == closing->refs[from].group;)
			to++;
		rc = close_group(closing, from, to, &buffer);
	}
	free(buffer.rows);
	return rc;
}

static int put_presence(struct closing *closing)
{
	_cleanup_(buffer_deinit) struct buffer record = { 0 };
	_cleanup_free_ uint32_t *series = malloc((closing->series_count + 1) * sizeof(*series));
	_cleanup_free_ bool *is_present = calloc(closing->series_count + 1, sizeof(*is_present));
	uint32_t count = 0;

	if (!series || !is_present)
		return -ENOMEM;
	for (uint32_t i = 0; i < closing->ref_count; i++)
		is_present[closing->refs[i].series] = true;
	for (uint32_t i = 0; i < closing->series_count; i++)
		if (is_present[i])
			series[count++] = i;
	presence_encode(closing->minute, series, count, &record);
	if (record.rc)
		return record.rc;
	struct key key =
		key_of_record(closing->partition->start_ns, RECORD_PRESENCE, closing->sequence);
	db_batch_put(closing->batch, DB_DICTIONARY, key_bytes(&key),
		     (struct bytes){ record.bytes, record.size });
	return 0;
}

/** Keep the oldest runs that fit a portion: the sum of their rows bounds each chunk. */
static void limit_runs(struct closing *closing)
{
	struct run_list *runs = &closing->runs;
	uint64_t rows = runs->count ? runs->runs[0]->rows.row_count : 0;
	uint32_t kept = 1;

	for (; kept < runs->count; kept++) {
		rows += runs->runs[kept]->rows.row_count;
		if (rows > closing->store->close_rows_max)
			break;
	}
	closing->has_more = kept < runs->count;
	while (runs->count > kept)
		raw_run_unref(runs->runs[--runs->count]);
}

/** Take references to the portion's runs, and copy each series' group. */
static int begin_closing(struct closing *closing, struct error *err)
{
	struct partition *partition = closing->partition;
	int rc;

	pthread_mutex_lock(&partition->lock);
	rc = partition_load_postings(partition, closing->store->db, err);
	if (rc == 0)
		rc = head_list(&partition->head, closing->minute, closing->minute, &closing->runs);
	if (rc == 0) {
		const struct postings *postings = partition->postings;

		closing->tombstones = tombstone_list_ref(partition->tombstones);
		limit_runs(closing);
		closing->series_count = postings->series_count;
		closing->group_of =
			malloc((postings->series_count + 1) * sizeof(*closing->group_of));
		for (uint32_t i = 0; closing->group_of && i < postings->series_count; i++)
			closing->group_of[i] = postings->series[i].group;
	}
	pthread_mutex_unlock(&partition->lock);
	if (rc == 0 && (!closing->group_of || !(closing->batch = db_batch_new(closing->store->db))))
		rc = -ENOMEM;
	if (rc == 0 && closing->runs.count)
		closing->sequence = closing->runs.runs[closing->runs.count - 1]->sequence;
	return rc;
}

/** Replace the runs by the chunks, on disk and in the head, under the partition's lock. */
static int finish_closing(struct closing *closing, struct error *err)
{
	struct partition *partition = closing->partition;
	struct store_counters *counters = &closing->store->counters;
	struct key from = key_of_raw(partition->start_ns, closing->minute, 0);
	struct key to = key_of_raw(partition->start_ns, closing->minute, closing->sequence + 1);
	int rc = 0;

	db_batch_delete_range(closing->batch, DB_RAW, key_bytes(&from), key_bytes(&to));
	pthread_mutex_lock(&partition->lock);
	if (!partition->dropped)
		// Not synced: if the write is lost, so is the deletion of the runs.
		rc = db_write(closing->store->db, closing->batch, false, err);
	if (rc == 0) {
		head_remove(&partition->head, closing->minute, closing->sequence);
		rocksdb_note_unmerged(closing->store, partition);
	}
	partition_publish(partition);
	pthread_mutex_unlock(&partition->lock);
	if (rc == 0) {
		counters->chunk_bytes += closing->writer.chunk_bytes;
		counters->chunk_rows += closing->writer.chunk_rows;
		counters->rows_deleted += closing->rows_deleted;
	}
	return rc;
}

static int close_portion(struct rocksdb_store *store, struct partition *partition, uint32_t minute,
			 bool *ret_more, struct error *err)
{
	_cleanup_(closing_deinit) struct closing closing = { .store = store,
							     .partition = partition,
							     .minute = minute };
	int rc = begin_closing(&closing, err);

	*ret_more = closing.has_more;
	if (rc == 0 && !closing.runs.count)
		return 0;
	if (rc == 0)
		rc = list_sections(&closing);
	if (rc == 0)
		rc = close_groups(&closing);
	if (rc == 0)
		rc = put_presence(&closing);
	if (rc == 0)
		return finish_closing(&closing, err);
	return rc == -ENOMEM    ? error_set(err, rc, "store: out of memory for closing a minute")
	       : rc == -EBADMSG ? error_set(err, rc, "open rows are damaged")
				: rc;
}

int rocksdb_close_minute(struct rocksdb_store *store, struct partition *partition, uint32_t minute,
			 struct error *err)
{
	bool more = true;
	int rc = 0;

	while (more && rc == 0)
		rc = close_portion(store, partition, minute, &more, err);
	return rc;
}
