// SPDX-License-Identifier: Apache-2.0
#include "collector/store/rocksdb/partition_presence.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "collector/store/rocksdb/key.h"

static uint32_t span_of(const struct partition *partition, uint64_t time_ns)
{
	uint64_t span_ns = partition->length_ns / POSTINGS_SPANS;
	uint64_t span = (time_ns - partition->start_ns) / span_ns;

	return span < POSTINGS_SPANS ? (uint32_t)span : POSTINGS_SPANS - 1;
}

uint64_t partition_presence(const struct partition *partition, uint64_t from_ns, uint64_t to_ns)
{
	if (from_ns < partition->start_ns)
		from_ns = partition->start_ns;
	if (to_ns > partition_end_ns(partition))
		to_ns = partition_end_ns(partition);
	if (from_ns >= to_ns)
		return 0;
	uint32_t first = span_of(partition, from_ns), last = span_of(partition, to_ns - 1);
	return (UINT64_MAX << first) & (UINT64_MAX >> (63 - last));
}

void presence_encode(uint32_t minute, const uint32_t *series, uint32_t count, struct buffer *record)
{
	uint32_t before = 0;

	buffer_append_varint(record, minute);
	buffer_append_varint(record, count);
	for (uint32_t i = 0; i < count; i++) {
		buffer_append_varint(record, series[i] - before);
		before = series[i];
	}
}

static void add_presence(struct postings *postings, uint64_t *presence, uint32_t series,
			 uint64_t bits)
{
	if (presence)
		presence[series] |= bits;
	else
		postings->series[series].presence |= bits;
}

static int add_record(struct partition_loading *loading, uint64_t sequence, struct bytes record)
{
	const struct partition *partition = loading->partition;
	struct reader reader = { .at = record.at, .end = (const uint8_t *)record.at + record.size };
	uint64_t minute = reader_varint(&reader), count = reader_varint(&reader), series = 0;
	uint64_t from_ns = partition->start_ns + minute * MINUTE_NS;
	uint64_t bits = minute < UINT16_MAX
				? partition_presence(partition, from_ns, from_ns + MINUTE_NS)
				: 0;
	uint64_t covering =
		bits ? tombstone_list_covering(loading->tombstones, (uint32_t)minute, sequence) : 0;

	for (uint64_t i = 0; i < count && !reader.failed; i++) {
		series += reader_varint(&reader);
		if (series >= loading->postings->series_count)
			return -EBADMSG;
		if (tombstone_list_has(loading->tombstones, covering, (uint32_t)series))
			continue;
		add_presence(loading->postings, loading->presence, (uint32_t)series, bits);
	}
	return reader.failed || !bits ? -EBADMSG : 0;
}

int partition_decode_presence(struct partition_loading *loading, uint64_t sequence,
			      struct bytes record, struct error *err)
{
	int rc = add_record(loading, sequence, record);

	return rc ? error_set(err, rc, "store: a record of presence is damaged") : 0;
}

/** Add the presence of @run's series: to @presence by series, or without it to the postings'. */
static void add_run_presence(const struct partition *partition, const struct raw_run *run,
			     uint64_t *presence)
{
	uint64_t from_ns = partition->start_ns + run->minute * MINUTE_NS;
	uint64_t bits = partition_presence(partition, from_ns, from_ns + MINUTE_NS);
	uint64_t covering =
		tombstone_list_covering(partition->tombstones, run->minute, run->sequence);

	for (uint32_t i = 0; i < run->rows.section_count; i++) {
		uint32_t series = run->rows.sections[i].series;

		if (series < partition->postings->series_count &&
		    !tombstone_list_has(partition->tombstones, covering, series))
			add_presence(partition->postings, presence, series, bits);
	}
}

void partition_note_presence(struct partition *partition, const struct raw_run *run)
{
	if (partition->postings)
		add_run_presence(partition, run, NULL);
}

// ---- tombstones ---------------------------------------------------------------------------------

static int read_tombstone(struct partition *partition, uint64_t number, struct bytes record)
{
	struct tombstone_list *longer;
	struct tombstone *tombstone;
	int rc = tombstone_decode(number, record, &tombstone);

	if (rc < 0)
		return rc;
	rc = tombstone_list_add(partition->tombstones, tombstone, &longer);
	tombstone_unref(tombstone);
	if (rc < 0)
		return rc == -E2BIG ? -EBADMSG : rc;
	tombstone_list_unref(partition->tombstones);
	partition->tombstones = longer;
	return 0;
}

static int read_tombstone_record(struct partition_loading *loading, enum record_kind kind,
				 uint64_t sequence, struct bytes record, struct error *err)
{
	struct partition *partition = (struct partition *)loading->partition;
	int rc = read_tombstone(partition, sequence, record);

	(void)kind;
	return rc ? error_set(err, rc,
			      rc == -EBADMSG ? "store: a record of what is deleted is damaged"
					     : "store: out of memory for tombstones")
		  : 0;
}

int partition_load_tombstones(struct partition *partition, struct db *db, struct error *err)
{
	struct partition_loading loading = { .partition = partition };
	struct error cause = { 0 };
	int rc = partition_each_record(&loading, db, RECORD_TOMBSTONE, RECORD_TOMBSTONE,
				       read_tombstone_record, &cause);

	partition_publish(partition);
	if (rc < 0)
		partition_note_unreadable(partition, rc, &cause, err);
	// Rather no answer than one with what was deleted.
	return rc == -EBADMSG ? 0 : rc;
}

static int read_presence_record(struct partition_loading *loading, enum record_kind kind,
				uint64_t sequence, struct bytes record, struct error *err)
{
	(void)kind;
	return partition_decode_presence(loading, sequence, record, err);
}

/** Read presence anew. Each series' is replaced at once: who reads meanwhile finds the old or the new. */
static int renew_presence(struct partition *partition, struct db *db, struct error *err)
{
	struct postings *postings = partition->postings;
	_cleanup_free_ uint64_t *presence = calloc(postings->series_count + 1, sizeof(*presence));
	struct partition_loading loading = { .partition = partition,
					     .tombstones = partition->tombstones,
					     .postings = postings,
					     .presence = presence };

	if (!presence)
		return error_set(err, -ENOMEM, "store: out of memory for series");
	int rc = partition_each_record(&loading, db, RECORD_PRESENCE, RECORD_PRESENCE,
				       read_presence_record, err);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < partition->head.count; i++) {
		const struct run_list *list = &partition->head.minutes[i].runs;

		for (uint32_t j = 0; j < list->count; j++)
			add_run_presence(partition, list->runs[j], presence);
	}
	for (uint32_t i = 0; i < postings->series_count; i++)
		postings->series[i].presence = presence[i];
	return 0;
}

int partition_set_tombstones(struct partition *partition, struct db *db,
			     struct tombstone_list *tombstones, struct error *err)
{
	tombstone_list_unref(partition->tombstones);
	partition->tombstones = tombstones;
	partition->generation++; // what a query loads now is of before
	partition_publish(partition);
	return partition->postings ? renew_presence(partition, db, err) : 0;
}

/** Replace a record of presence by one without deleted series. */
static int clean_presence(struct partition_loading *loading, enum record_kind kind,
			  uint64_t sequence, struct bytes record, struct error *err)
{
	struct reader reader = { .at = record.at, .end = (const uint8_t *)record.at + record.size };
	uint64_t minute = reader_varint(&reader), count = reader_varint(&reader), series = 0;
	uint64_t covering =
		tombstone_list_covering(loading->tombstones, (uint32_t)minute, sequence);
	_cleanup_(buffer_deinit) struct buffer cleaned = { 0 };
	_cleanup_free_ uint32_t *kept = NULL;
	uint32_t kept_count = 0;

	if (!covering)
		return 0;
	if (count > reader_left(&reader))
		return error_set(err, -EBADMSG, "store: a record of presence is damaged");
	kept = malloc((count + 1) * sizeof(*kept));
	for (uint64_t i = 0; kept && i < count; i++) {
		series += reader_varint(&reader);
		if (!tombstone_list_has(loading->tombstones, covering, (uint32_t)series))
			kept[kept_count++] = (uint32_t)series;
	}
	if (kept)
		presence_encode((uint32_t)minute, kept, kept_count, &cleaned);
	if (!kept || cleaned.rc)
		return error_set(err, -ENOMEM, "store: out of memory for series");
	struct key key = key_of_record(loading->partition->start_ns, kind, sequence);
	db_batch_put(loading->batch, DB_DICTIONARY, key_bytes(&key),
		     (struct bytes){ cleaned.bytes, cleaned.size });
	return 0;
}

int partition_clean_presence(struct partition *partition, struct db *db,
			     const struct tombstone_list *tombstones, struct db_batch *batch,
			     struct error *err)
{
	struct partition_loading loading = { .partition = partition,
					     .tombstones = tombstones,
					     .batch = batch };

	return partition_each_record(&loading, db, RECORD_PRESENCE, RECORD_PRESENCE, clean_presence,
				     err);
}
