// SPDX-License-Identifier: Apache-2.0
// Checks a whole store: each block's checksum, each record and chunk, and that rows, stacks, series and
// presence agree. Reads only.
#include "collector/store/rocksdb/rocksdb.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "collector/store/rocksdb/key.h"
#include "collector/store/rocksdb/partition_load.h"
#include "collector/store/rocksdb/partition_presence.h"
#include "collector/store/rocksdb/rocksdb_store.h"

enum { CHECK_MEMORY_BYTES = 64 << 20 };

struct checking {
	struct db *db;
	const struct store_checker *checker;
	struct store_check *found;
	uint64_t *partitions; // where they begin, ascending
	uint32_t partition_count, partition_capacity;
	uint64_t partition_ns;

	// Of the partition being checked:
	struct partition *partition;
	struct chunk_decoder *decoder;
	struct row_columns scratch;
	uint32_t *identity;              // by series: itself
	uint32_t minute, minutes, group; // of the chunk or run
	bool is_rollup;
};

static void checking_deinit(struct checking *checking)
{
	free(checking->partitions);
	partition_unref(checking->partition);
	chunk_decoder_freep(&checking->decoder);
	row_columns_deinit(&checking->scratch);
	free(checking->identity);
	db_close(checking->db);
}

__attribute__((format(printf, 2, 3))) static void report(struct checking *checking,
							 const char *format, ...)
{
	char text[ERROR_TEXT_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	checking->found->damaged++;
	checking->checker->damage(checking->checker->context,
				  checking->partition ? checking->partition->start_ns : 0, text);
}

/** A failed read of @what is damage; being out of memory is not. */
static int judge(struct checking *checking, int rc, const char *what, const struct error *err)
{
	if (rc == 0 || rc == -ENOMEM)
		return rc;
	report(checking, "%s: %s", what, err && err->text[0] ? err->text : "does not decode");
	return 0;
}

// ---- partitions ---------------------------------------------------------------------------------------

static int add_partition(struct checking *checking, uint64_t start_ns)
{
	uint32_t at = checking->partition_count;
	int rc = array_reserve(&checking->partitions, sizeof(*checking->partitions),
			       &checking->partition_capacity, at, 1, UINT32_MAX / 2);

	while (at > 0 && checking->partitions[at - 1] > start_ns)
		at--;
	if (rc < 0 || (at > 0 && checking->partitions[at - 1] == start_ns))
		return rc;
	memmove(&checking->partitions[at + 1], &checking->partitions[at],
		(checking->partition_count - at) * sizeof(*checking->partitions));
	checking->partitions[at] = start_ns;
	checking->partition_count++;
	return 0;
}

static int list_partitions(struct checking *checking, enum db_family family)
{
	struct key from = key_of_partition(0), to = key_of_partition(UINT64_MAX);
	_cleanup_(db_iterator_freep) struct db_iterator *iterator =
		db_iterator_open(checking->db, family, key_bytes(&from), key_bytes(&to), false);
	struct error err = { 0 };
	int rc = iterator ? 0 : -ENOMEM;

	for (bool more = rc == 0 && db_iterator_next(iterator); more && rc == 0;) {
		struct bytes key = db_iterator_key(iterator);
		uint64_t start_ns = key.size >= 8 ? key_number(key.at, 8) : UINT64_MAX - 1;
		struct key next = key_of_partition(start_ns + 1);

		if (start_ns % checking->partition_ns)
			report(checking, "a key of no partition");
		else
			rc = add_partition(checking, start_ns);
		more = db_iterator_seek(iterator, key_bytes(&next));
	}
	return rc ? rc
		  : judge(checking, db_iterator_check(iterator, &err), "the list of partitions",
			  &err);
}

// ---- rows ---------------------------------------------------------------------------------------------

/** Slots are as long as the series', or as the partition's age has made them. */
static bool has_slot(const struct partition *partition, const struct indexed_series *series,
		     uint64_t slot_ns)
{
	return slot_ns == series->slot_ns ||
	       (slot_ns > series->slot_ns && slot_ns <= partition->figures.resolution_ns);
}

static int check_rows(void *context, const struct store_rows *rows)
{
	struct checking *checking = context;
	struct partition *partition = checking->partition;
	const struct postings *postings = partition->postings;
	uint64_t minute_ns = partition->start_ns + checking->minute * MINUTE_NS;
	uint64_t end_ns = minute_ns + checking->minutes * MINUTE_NS;
	uint64_t presence = partition_presence(partition, minute_ns, end_ns);

	checking->found->rows += checking->is_rollup ? 0 : rows->count;
	for (uint32_t i = 0; i < rows->count; i++)
		if (rows->nodes[i] >= partition->forest->node_count ||
		    rows->slots[i] * rows->slot_ns < minute_ns ||
		    rows->slots[i] * rows->slot_ns >= end_ns)
			return -EBADMSG;
	if (checking->is_rollup)
		return 0;
	const struct indexed_series *series = &postings->series[rows->series];
	return series->presence & presence && has_slot(partition, series, rows->slot_ns) &&
			       (checking->group == UINT32_MAX || series->group == checking->group)
		       ? 0
		       : -EBADMSG;
}

static struct row_query query_of_all(struct checking *checking, uint64_t slot_ns)
{
	uint64_t start_ns = checking->partition->start_ns + checking->minute * MINUTE_NS;

	return (struct row_query){
		.first_slot = slot_at(start_ns, slot_ns ? slot_ns : 1),
		.to_slot = UINT64_MAX,
		.wanted = checking->is_rollup ? NULL : checking->identity,
		.wanted_count = checking->partition->postings->series_count,
		.context = checking,
		.rows = check_rows,
	};
}

/** Read what a chunk's key says of its rows. */
static bool read_key(struct checking *checking, struct bytes key, uint32_t *ret_last_series)
{
	checking->minutes = 1;
	checking->is_rollup = false;
	if (key.size == KEY_MERGED_BYTES) {
		struct merged_key at = key_read_merged(key.at);

		checking->minute = at.first_minute;
		checking->minutes = at.minutes;
		checking->group = at.group;
		*ret_last_series = at.last_series;
		return true;
	}
	if (key.size != KEY_CHUNK_BYTES)
		return false;
	struct chunk_key at = key_read_chunk(key.at);
	checking->minute = at.minute;
	checking->group = at.group;
	checking->is_rollup = at.kind != CHUNK_ROWS;
	*ret_last_series = at.last_series;
	return true;
}

static int check_chunk(struct checking *checking, struct bytes key, struct bytes chunk)
{
	struct reader reader = { .at = chunk.at, .end = (const uint8_t *)chunk.at + chunk.size };
	const struct postings *postings = checking->partition->postings;
	uint32_t last_series;

	checking->found->chunks++;
	if (!read_key(checking, key, &last_series) || checking->group >= postings->group_count ||
	    checking->minute * MINUTE_NS >= checking->partition_ns ||
	    (!checking->is_rollup && last_series >= postings->series_count))
		return -EBADMSG;
	reader_varint(&reader); // version
	struct row_query query = query_of_all(checking, reader_varint(&reader));
	return chunk_decode(checking->decoder, chunk, &query);
}

static int check_run(struct checking *checking, struct bytes key, struct bytes record)
{
	struct raw_rows rows = { 0 };

	checking->found->runs++;
	if (key.size != KEY_RAW_BYTES)
		return -EBADMSG;
	checking->minute = (uint32_t)key_number((const uint8_t *)key.at + 8, 2);
	checking->minutes = 1;
	checking->group = UINT32_MAX;
	checking->is_rollup = false;
	int rc = raw_rows_open(record, &rows);
	for (uint32_t i = 0; i < rows.section_count && rc == 0; i++) {
		struct indexed_series *series = checking->partition->postings->series;

		// Presence of an open minute is not on disk.
		if (rows.sections[i].series < checking->partition->postings->series_count)
			series[rows.sections[i].series].presence = UINT64_MAX;
		else
			rc = -EBADMSG;
	}
	struct row_query query = query_of_all(checking, rows.slot_ns);
	if (rc == 0)
		rc = raw_rows_scan(&rows, &query, &checking->scratch);
	raw_rows_deinit(&rows);
	return rc;
}

typedef int (*check_fn)(struct checking *checking, struct bytes key, struct bytes value);

static int check_values(struct checking *checking, enum db_family family, const char *what,
			check_fn check)
{
	struct key from = key_of_partition(checking->partition->start_ns);
	struct key to = key_of_partition(checking->partition->start_ns + 1);
	_cleanup_(db_iterator_freep) struct db_iterator *iterator =
		db_iterator_open(checking->db, family, key_bytes(&from), key_bytes(&to), false);
	struct error err = { 0 };
	int rc = iterator ? 0 : -ENOMEM;

	while (rc == 0 && db_iterator_next(iterator))
		rc = judge(checking,
			   check(checking, db_iterator_key(iterator), db_iterator_value(iterator)),
			   what, NULL);
	return rc ? rc : judge(checking, db_iterator_check(iterator, &err), what, &err);
}

// ---- a partition ----------------------------------------------------------------------------------------

static int check_tombstone(struct bytes value)
{
	struct tombstone *tombstone;
	int rc = tombstone_decode(0, value, &tombstone);

	if (rc == 0)
		tombstone_unref(tombstone);
	return rc;
}

static int check_record(struct checking *checking, struct bytes key, struct bytes value)
{
	struct partition_summary summary;

	checking->found->records++;
	if (key.size != KEY_RECORD_BYTES)
		return -EBADMSG;
	switch (((const uint8_t *)key.at)[8]) {
	case RECORD_PARTITION:
		return partition_summary_decode(value, &summary);
	case RECORD_TOMBSTONE:
		return check_tombstone(value);
	case RECORD_MERGE:
		return partition_decode_merge(checking->partition, value);
	default: // read as a whole below
		return 0;
	}
}

static int check_dictionaries(struct checking *checking, bool *ret_good)
{
	struct partition *partition = checking->partition;
	uint64_t before = checking->found->damaged;
	struct error err = { 0 };
	int rc = check_values(checking, DB_DICTIONARY, "the dictionary", check_record);

	if (rc == 0)
		rc = judge(checking, partition_load_forest(partition, checking->db, &err), "stacks",
			   &err);
	if (rc == 0)
		rc = judge(checking, partition_load_postings(partition, checking->db, &err),
			   "series", &err);
	*ret_good = rc == 0 && partition->forest && partition->postings;
	if (*ret_good || rc < 0)
		return rc;
	if (before == checking->found->damaged)
		report(checking, "the dictionary is missing");
	return 0;
}

static int check_partition(struct checking *checking, uint64_t start_ns)
{
	bool good;

	partition_unref(checking->partition);
	checking->partition = partition_new(start_ns, checking->partition_ns);
	if (!checking->partition)
		return -ENOMEM;
	int rc = check_dictionaries(checking, &good);
	if (rc < 0 || !good)
		return rc; // without it nothing else can be judged
	uint32_t count = checking->partition->postings->series_count;
	free(checking->identity);
	checking->identity = malloc((count + 1) * sizeof(*checking->identity));
	if (!checking->identity)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		checking->identity[i] = i;
	rc = check_values(checking, DB_CHUNK, "a chunk", check_chunk);
	return rc ? rc : check_values(checking, DB_RAW, "open rows", check_run);
}

static int check_partitions(struct checking *checking)
{
	static const enum db_family families[] = { DB_DICTIONARY, DB_CHUNK, DB_RAW };
	int rc = (checking->decoder = chunk_decoder_new()) ? 0 : -ENOMEM;

	for (size_t i = 0; i < ARRAY_SIZE(families) && rc == 0; i++)
		rc = list_partitions(checking, families[i]);
	for (uint32_t i = 0; i < checking->partition_count && rc == 0; i++) {
		rc = check_partition(checking, checking->partitions[i]);
		checking->found->partitions++;
		checking->checker->progress(checking->checker->context, checking->partitions[i],
					    checking->partition_count, checking->found);
	}
	return rc;
}

int rocksdb_store_check(const char *path, const struct store_checker *checker,
			struct store_check *ret_found, struct error *err)
{
	struct store_check found = { 0 };
	_cleanup_(checking_deinit) struct checking checking = { .checker = checker,
								.found = &found };

	if (db_is_open_elsewhere(path))
		return error_set(err, -EBUSY,
				 "store %s: a collector has it open; stop it, or check a restored "
				 "backup",
				 path);
	int rc = db_open(path, CHECK_MEMORY_BYTES, DB_READ_ONLY, &checking.db, err);
	if (rc < 0)
		return rc;
	if (db_damage(checking.db)[0])
		report(&checking, "%s", db_damage(checking.db));
	rc = rocksdb_read_partition_ns(checking.db, path, &checking.partition_ns, err);
	if (rc == -EUCLEAN) {
		report(&checking, "the store's numbers are damaged");
		checking.partition_ns = STORE_PARTITION_NS_DEFAULT;
		rc = 0;
	}
	if (rc < 0)
		return rc;
	rc = check_partitions(&checking);
	if (rc < 0)
		return error_set(err, rc, "store %s: out of memory", path);
	*ret_found = found;
	return 0;
}
