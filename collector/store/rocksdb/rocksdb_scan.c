// SPDX-License-Identifier: Apache-2.0
// Reads rows and activity of a selection. A scan takes a snapshot of a partition under its lock (the open
// runs, an iterator over the chunks) and reads it without the lock. Closing a minute moves rows from runs
// to chunks under the same lock, so a scan sees each row once. So does the rewrite that drops a tombstone.
//
// Sums and activity do not depend on the order of rows: helpers decode chunks for them (chunk_helpers.h).
//
// Activity per series is not stored: a chunk's slots and values are columns apart from its nodes and
// cost about as much to read as counters, and counters would take a third more space. A scan of all
// series of a group, the usual heat map of a service, reads the group's rollup of totals per slot.
#include "collector/store/rocksdb/rocksdb_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "collector/store/rocksdb/chunk_format.h"
#include "collector/store/rocksdb/key.h"
#include "collector/store/rocksdb/partition_read.h"
#include "collector/store/slot_counts.h"

/** One partition being read. */
struct reading {
	const struct selected_partition *selected;
	struct partition *partition;
	struct time_range range;        // cut to the partition: from the first part to the last
	const struct time_range *parts; // of it, that are read; sorted, disjoint
	uint32_t part_count;
	struct slot_range *slots; // room for as many
	uint32_t first_minute, last_minute;
	bool join;                    // series may be read as one,
	const uint32_t *query_groups; // if this is NULL or equal for them; by number of the series
	bool *joined; // by group of the selection: all its series are selected and may be read as one
	struct forest_view *view; // NULL if rows are not asked for
	struct run_list runs;
	struct db_iterator *chunks, *rollups; // two: each moves in order of its keys
	bool is_merged;                       // no minute has chunks of its own
	struct tombstone_list *tombstones;
	uint64_t covering;     // the tombstones that are applied in not_deleted
	uint32_t *not_deleted; // as the selection's wanted; NULL: not made yet
	struct chunk_decoder *decoder;
	struct chunk_sharing *sharing; // NULL: rows come in their order
	struct row_columns scratch;
	struct row_query query;
	int read_rc; // of the first read that failed, but for damage
	struct deadline *deadline;
	enum chunk_kind rollup; // read instead of rows where possible; CHUNK_ROWS: never
	struct error *err;
};

static void reading_deinit(struct reading *reading)
{
	if (reading->sharing)
		chunk_sharing_cancel(reading->sharing);
	free(reading->joined);
	free(reading->slots);
	tombstone_list_unref(reading->tombstones);
	free(reading->not_deleted);
	forest_view_unref(reading->view);
	run_list_deinit(&reading->runs);
	db_iterator_freep(&reading->chunks);
	db_iterator_freep(&reading->rollups);
	chunk_decoder_freep(&reading->decoder);
	row_columns_deinit(&reading->scratch);
}

// ---- the snapshot ----------------------------------------------------------------------------------

/* Under the lock, both: a minute is closed before or after them. */
static int open_chunks(struct reading *reading, struct db *db)
{
	struct chunk_key from = { .minute = reading->first_minute };
	struct key from_key = key_of_chunk(reading->partition->start_ns, &from);
	// Merged chunks come after all minutes.
	struct key to_key = key_of_partition(reading->partition->start_ns + 1);

	reading->chunks =
		db_iterator_open(db, DB_CHUNK, key_bytes(&from_key), key_bytes(&to_key), false);
	reading->rollups =
		db_iterator_open(db, DB_CHUNK, key_bytes(&from_key), key_bytes(&to_key), false);
	return reading->chunks && reading->rollups ? 0 : -ENOMEM;
}

static bool is_one_query_group(const struct reading *reading, const struct selected_group *group)
{
	const uint32_t *query_groups = reading->query_groups, *wanted = reading->selected->wanted;

	for (uint32_t i = 1; query_groups && i < group->selected_count; i++)
		if (query_groups[wanted[group->series[i]]] !=
		    query_groups[wanted[group->series[0]]])
			return false;
	return reading->join;
}

/**
 * A group that has grown since the selection has series that are not selected. The lock is held. Without
 * postings (evicted since) nothing is joined: the rows are read one by one.
 */
static int find_joined_groups(struct reading *reading, const struct partition *partition)
{
	const struct selected_partition *selected = reading->selected;
	const struct postings *postings = partition->postings;

	reading->joined = calloc(selected->group_count + 1, sizeof(*reading->joined));
	if (!reading->joined)
		return -ENOMEM;
	for (uint32_t i = 0; postings && i < selected->group_count; i++) {
		const struct selected_group *group = &selected->groups[i];

		reading->joined[i] =
			group->selected_count == group->series_count &&
			postings->groups[group->group].series_count == group->series_count;
	}
	return 0;
}

static int list_rows(struct reading *reading, struct rocksdb_store *store)
{
	struct partition *partition = reading->selected->partition;
	int rc;

	pthread_mutex_lock(&partition->lock);
	rc = partition->dropped ? -ENOENT : find_joined_groups(reading, partition);
	if (rc == 0)
		rc = head_list(&partition->head, reading->first_minute, reading->last_minute,
			       &reading->runs);
	if (rc == 0)
		rc = open_chunks(reading, store->db);
	if (rc == 0)
		reading->tombstones = tombstone_list_ref(partition->tombstones);
	reading->is_merged = partition->figures.merged;
	pthread_mutex_unlock(&partition->lock);
	return rc;
}

/** The forest comes last: it has the nodes of all rows listed. */
static int snapshot_partition(struct reading *reading, struct rocksdb_store *store,
			      bool with_forest)
{
	const struct selected_partition *selected = reading->selected;
	int rc = deadline_check(reading->deadline, reading->err);

	if (rc == 0)
		rc = list_rows(reading, store);
	for (uint32_t i = 0; i < selected->group_count && rc == 0; i++)
		reading->joined[i] =
			reading->joined[i] && is_one_query_group(reading, &selected->groups[i]);
	if (rc == 0 && with_forest)
		rc = partition_read_forest(selected->partition, store->db, &reading->view,
					   reading->err);
	if (rc == 0 && !(reading->decoder = chunk_decoder_new()))
		rc = -ENOMEM;
	return rc == -ENOMEM ? error_set(reading->err, rc, "store: out of memory") : rc;
}

// ---- shared chunks ----------------------------------------------------------------------------------

/** Damage is recorded, and what is damaged left out of the answer. */
static int leave_out(struct reading *reading, int rc, const char *what)
{
	if (rc != -EBADMSG)
		return rc;
	pthread_mutex_lock(&reading->partition->lock);
	partition_note_damage(reading->partition, what);
	pthread_mutex_unlock(&reading->partition->lock);
	return 0;
}

/** Pass on the rows of chunks that helpers have decoded; with @wait, of all that were handed over. */
static int take_shared(struct reading *reading, bool wait)
{
	int rc = 0, decoded;

	while (rc == 0 && reading->sharing &&
	       chunk_sharing_take(reading->sharing, wait, &decoded)) {
		rc = leave_out(reading, decoded, "a chunk is damaged");
		if (rc == 0)
			rc = deadline_check(reading->deadline, reading->err);
	}
	return rc;
}

// ---- tombstones ---------------------------------------------------------------------------------------

/** Make reading->not_deleted of the selection's series but those that the tombstones @covering have. */
static int apply_tombstones(struct reading *reading, uint64_t covering)
{
	const struct selected_partition *selected = reading->selected;
	size_t size = selected->wanted_count * sizeof(*selected->wanted);
	int rc = take_shared(reading, true); // they may be read by what is there now

	if (rc < 0)
		return rc;
	if (!reading->not_deleted)
		reading->not_deleted = malloc(size + 1);
	if (!reading->not_deleted)
		return error_set(reading->err, -ENOMEM, "store: out of memory");
	memcpy(reading->not_deleted, selected->wanted, size);
	for (uint32_t i = 0; i < reading->tombstones->count; i++) {
		const struct tombstone *tombstone = reading->tombstones->tombstones[i];

		for (uint32_t j = 0; covering >> i & 1 && j < tombstone->series_count; j++)
			if (tombstone->series[j] < selected->wanted_count)
				reading->not_deleted[tombstone->series[j]] = SERIES_UNWANTED;
	}
	reading->covering = covering;
	return 0;
}

/** Want no rows of @minute and @sequence that are deleted. *ret_any: some may be. */
static int leave_out_deleted(struct reading *reading, uint32_t minute, uint64_t sequence,
			     bool *ret_any)
{
	uint64_t covering = tombstone_list_covering(reading->tombstones, minute, sequence);
	int rc = 0;

	*ret_any = covering != 0;
	if (covering && (!reading->not_deleted || covering != reading->covering))
		rc = apply_tombstones(reading, covering);
	reading->query.wanted = covering ? reading->not_deleted : reading->selected->wanted;
	return rc;
}

// ---- chunks -----------------------------------------------------------------------------------------

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/** Is any part of the range in @range? */
static bool is_read(const struct reading *reading, struct time_range range)
{
	for (uint32_t i = 0; i < reading->part_count; i++)
		if (reading->parts[i].to_ns > range.from_ns)
			return reading->parts[i].from_ns < range.to_ns;
	return false;
}

/**
 * Set the query's range to what is read of @range in slots of @slot_ns, for rows whose slots count from @minute.
 * False: that is no slot.
 */
static bool set_query_range(struct reading *reading, uint32_t minute, struct time_range range,
			    uint64_t slot_ns)
{
	uint64_t start_ns = reading->partition->start_ns + minute * MINUTE_NS;
	struct row_query *query = &reading->query;
	uint32_t count = 0;

	for (uint32_t i = 0; i < reading->part_count; i++) {
		const struct time_range *part = &reading->parts[i];
		struct slot_range slots = {
			slot_at(larger(part->from_ns, range.from_ns), slot_ns),
			slot_at(smaller(part->to_ns, range.to_ns), slot_ns),
		};

		if (slots.from < slots.to)
			reading->slots[count++] = slots;
	}
	query->first_slot = slot_at(start_ns, slot_ns);
	query->from_slot = count ? reading->slots[0].from : 0;
	query->to_slot = count ? reading->slots[count - 1].to : 0;
	query->parts = reading->slots;
	query->part_count = count > 1 ? count : 0;
	return count > 0;
}

/** Decode @chunk, or hand it over. */
static int decode_or_share(struct reading *reading, struct bytes chunk, uint32_t row_count)
{
	bool is_given = false;
	int rc = 0;

	if (reading->sharing)
		rc = chunk_sharing_give(reading->sharing, chunk, row_count, &reading->query,
					&is_given);
	return rc || is_given ? rc : chunk_decode(reading->decoder, chunk, &reading->query);
}

static int decode_chunk(struct reading *reading, const struct db_iterator *at, uint32_t minute,
			struct time_range range)
{
	struct bytes chunk = db_iterator_value(at);
	struct chunk_head head;
	int rc = deadline_check(reading->deadline, reading->err);

	if (rc == 0)
		rc = take_shared(reading, false);
	if (rc < 0)
		return rc;
	rc = chunk_read_head(chunk, &head);
	if (rc == 0 && set_query_range(reading, minute, range, head.slot_ns))
		rc = decode_or_share(reading, chunk, head.row_count);
	return leave_out(reading, rc, "a chunk is damaged");
}

/** Seek the first chunk at or after @key. */
static bool seek_key(struct reading *reading, struct db_iterator *at, const struct key *key)
{
	if (db_iterator_seek(at, key_bytes(key)))
		return true;
	// Asked at once: the next seek forgets a failure.
	int rc = leave_out(reading, db_iterator_check(at, reading->err),
			   "a block of chunks is damaged");
	if (!reading->read_rc)
		reading->read_rc = rc;
	return false;
}

/** Seek the first chunk at or after @wanted in the same minute, kind and group. */
static bool seek_chunk(struct reading *reading, struct db_iterator *at,
		       const struct chunk_key *wanted, struct chunk_key *ret_found)
{
	struct key key = key_of_chunk(reading->partition->start_ns, wanted);

	if (!seek_key(reading, at, &key) || db_iterator_key(at).size != KEY_CHUNK_BYTES)
		return false;
	*ret_found = key_read_chunk(db_iterator_key(at).at);
	return ret_found->minute == wanted->minute && ret_found->kind == wanted->kind &&
	       ret_found->group == wanted->group;
}

/** Find the first selected series of @group after @series. False if there is none. */
static bool next_series(const struct selected_group *group, uint32_t series, uint32_t *ret_next)
{
	uint32_t low = 0, high = group->selected_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (group->series[middle] <= series)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == group->selected_count)
		return false;
	*ret_next = group->series[low];
	return true;
}

/**
 * Read a group's chunks of one sequence in a minute, those with a selected series. Keys end with the
 * chunk's last series, so the first key at or after (…, series) is the only chunk that can have it.
 */
static int read_rows(struct reading *reading, const struct selected_group *group,
		     struct chunk_key at)
{
	struct chunk_key wanted = at, found;
	int rc = 0;

	wanted.last_series = group->series[0];
	while (rc == 0 && seek_chunk(reading, reading->chunks, &wanted, &found) &&
	       found.sequence == at.sequence) {
		rc = decode_chunk(reading, reading->chunks, at.minute, reading->range);
		if (!next_series(group, found.last_series, &wanted.last_series))
			break;
	}
	return rc;
}

/** Read the rollup of the chunks of one sequence. Its rows come as the first series'. -ENOENT: none. */
static int read_rollup(struct reading *reading, const struct selected_group *group,
		       struct chunk_key at)
{
	const uint32_t *wanted = reading->query.wanted;
	struct chunk_key found;
	int rc = 0;

	reading->query.number = wanted[group->series[0]];
	reading->query.wanted = NULL;
	at.kind = reading->rollup;
	at.last_series = 0;
	if (!seek_chunk(reading, reading->rollups, &at, &found) || found.sequence != at.sequence)
		rc = -ENOENT;
	else
		rc = decode_chunk(reading, reading->rollups, at.minute, reading->range);
	reading->query.wanted = wanted;
	return rc;
}

static bool minute_is_whole(const struct reading *reading, uint32_t minute)
{
	uint64_t start_ns = reading->partition->start_ns + minute * MINUTE_NS;

	for (uint32_t i = 0; i < reading->part_count; i++)
		if (reading->parts[i].to_ns >= start_ns + MINUTE_NS)
			return reading->parts[i].from_ns <= start_ns;
	return false;
}

/** Read all chunks of a group in a minute. */
static int read_group(struct reading *reading, uint32_t minute, uint32_t number)
{
	const struct selected_group *group = &reading->selected->groups[number];
	struct chunk_key wanted = { .minute = minute, .kind = CHUNK_ROWS, .group = group->group };
	bool use_rollup = reading->joined[number] && reading->rollup != CHUNK_ROWS &&
			  (reading->rollup == CHUNK_TOTALS || minute_is_whole(reading, minute));
	struct chunk_key found;
	int rc = 0;

	while (rc == 0 && seek_chunk(reading, reading->chunks, &wanted, &found)) {
		bool any_deleted;

		rc = leave_out_deleted(reading, minute, found.sequence, &any_deleted);
		if (rc == 0) // a rollup has the deleted rows in it
			rc = use_rollup && !any_deleted ? read_rollup(reading, group, found)
							: -ENOENT;
		if (rc == -ENOENT)
			rc = read_rows(reading, group, found);
		wanted.sequence = found.sequence + 1;
	}
	return rc;
}

// ---- merged chunks ------------------------------------------------------------------------------------

/** Seek the first merged chunk at or after @wanted in the same group. */
static bool seek_merged(struct reading *reading, const struct merged_key *wanted,
			struct merged_key *ret_found)
{
	struct key key = key_of_merged(reading->partition->start_ns, wanted);

	if (!seek_key(reading, reading->chunks, &key) ||
	    db_iterator_key(reading->chunks).size != KEY_MERGED_BYTES)
		return false;
	*ret_found = key_read_merged(db_iterator_key(reading->chunks).at);
	return ret_found->group == wanted->group;
}

/** Minutes [from, to) of a span of merged chunks, whose rows are read together. */
struct merged_minutes {
	uint32_t from, to;
	uint64_t covering; // the tombstones about them
};

/** As read_rows(), of merged chunks: those of @minutes. */
static int read_merged_rows(struct reading *reading, const struct selected_group *group,
			    struct merged_key at, const struct merged_minutes *minutes)
{
	uint64_t start_ns = reading->partition->start_ns;
	struct time_range range = { start_ns + minutes->from * MINUTE_NS,
				    start_ns + minutes->to * MINUTE_NS };
	struct merged_key wanted = at, found;
	bool any_deleted;

	if (minutes->from == minutes->to || !is_read(reading, range))
		return 0;
	int rc = leave_out_deleted(reading, minutes->from, at.sequence, &any_deleted);
	wanted.last_series = group->series[0];
	while (rc == 0 && seek_merged(reading, &wanted, &found) && merged_key_is_of(&found, &at)) {
		rc = decode_chunk(reading, reading->chunks, at.first_minute, range);
		if (!next_series(group, found.last_series, &wanted.last_series))
			break;
	}
	return rc;
}

/** Read a group's merged chunks of one span: minute by minute the rollup, and between those the rows. */
static int read_span(struct reading *reading, uint32_t number, struct merged_key at)
{
	const struct selected_group *group = &reading->selected->groups[number];
	uint32_t end = at.first_minute + at.minutes;
	bool has_rollup = reading->joined[number] && reading->rollup != CHUNK_ROWS &&
			  at.rollups & MERGED_HAS(reading->rollup);
	struct merged_minutes minutes = { .from = at.first_minute };
	int rc = 0;

	if (minutes.from < reading->first_minute)
		minutes.from = reading->first_minute;
	if (end > reading->last_minute + 1)
		end = reading->last_minute + 1;
	for (minutes.to = minutes.from; minutes.to < end && rc == 0; minutes.to++) {
		const struct chunk_key rollup = { .minute = minutes.to,
						  .group = at.group,
						  .sequence = at.sequence };
		uint64_t covering =
			tombstone_list_covering(reading->tombstones, minutes.to, at.sequence);

		if (covering != minutes.covering) {
			rc = read_merged_rows(reading, group, at, &minutes);
			minutes.from = minutes.to;
			minutes.covering = covering;
		}
		if (rc || !has_rollup || covering ||
		    (reading->rollup != CHUNK_TOTALS && !minute_is_whole(reading, minutes.to)))
			continue;
		reading->query.wanted = reading->selected->wanted;
		rc = read_rollup(reading, group, rollup);
		if (rc == -ENOENT) {
			rc = 0;
			continue;
		}
		if (rc == 0)
			rc = read_merged_rows(reading, group, at, &minutes);
		minutes.from = minutes.to + 1;
	}
	return rc ? rc : read_merged_rows(reading, group, at, &minutes);
}

/** Read a group's merged chunks. */
static int read_merged(struct reading *reading, uint32_t number)
{
	struct merged_key wanted = { .group = reading->selected->groups[number].group };
	struct merged_key found;
	int rc = 0;

	if (reading->first_minute >= CHUNK_MINUTES_MAX) // earlier ones end before
		wanted.first_minute = reading->first_minute - CHUNK_MINUTES_MAX + 1;
	while (rc == 0 && seek_merged(reading, &wanted, &found) &&
	       found.first_minute <= reading->last_minute) {
		if (found.first_minute + found.minutes > reading->first_minute)
			rc = read_span(reading, number, found);
		wanted = found;
		wanted.sequence++;
		wanted.last_series = 0;
	}
	return rc;
}

static int read_chunks(struct reading *reading)
{
	int rc = 0;

	for (uint32_t minute = reading->first_minute;
	     !reading->is_merged && minute <= reading->last_minute && rc == 0; minute++) {
		uint64_t start_ns = reading->partition->start_ns + minute * MINUTE_NS;

		if (!is_read(reading, (struct time_range){ start_ns, start_ns + MINUTE_NS }))
			continue;
		for (uint32_t i = 0; i < reading->selected->group_count && rc == 0; i++)
			rc = read_group(reading, minute, i);
	}
	for (uint32_t i = 0; i < reading->selected->group_count && rc == 0; i++)
		rc = read_merged(reading, i);
	if (rc == 0)
		rc = take_shared(reading, true);
	return rc ? rc : reading->read_rc;
}

static int read_runs(struct reading *reading)
{
	int rc = 0;

	for (uint32_t i = 0; i < reading->runs.count && rc == 0; i++) {
		const struct raw_run *run = reading->runs.runs[i];
		bool any_deleted;

		rc = deadline_check(reading->deadline, reading->err);
		if (rc < 0)
			return rc;
		if (!set_query_range(reading, run->minute, reading->range, run->rows.slot_ns))
			continue;
		rc = leave_out_deleted(reading, run->minute, run->sequence, &any_deleted);
		if (rc < 0)
			return rc;
		rc = leave_out(reading,
			       raw_rows_scan(&run->rows, &reading->query, &reading->scratch),
			       "open rows are damaged");
	}
	return rc;
}

/** Retention was faster, or the partition's dictionary is damaged, which is recorded. */
static bool is_left_out(int rc)
{
	return rc == -ENOENT || rc == -EBADMSG;
}

/** Find the parts that overlap the partition. Returns how many, from *ret_parts on. */
static uint32_t find_parts(const struct time_range *parts, uint32_t count,
			   const struct partition *partition, const struct time_range **ret_parts)
{
	uint32_t found = 0;

	for (; count && parts->to_ns <= partition->start_ns; parts++)
		count--;
	while (found < count && parts[found].from_ns < partition_end_ns(partition))
		found++;
	*ret_parts = parts;
	return found;
}

/** Each of the @count parts overlaps the partition. Returns 0 or -ENOMEM. */
static int set_reading_range(struct reading *reading, const struct time_range *parts,
			     uint32_t count)
{
	struct partition *partition = reading->selected->partition;
	struct time_range range = { larger(parts[0].from_ns, partition->start_ns),
				    smaller(parts[count - 1].to_ns, partition_end_ns(partition)) };

	reading->slots = malloc(count * sizeof(*reading->slots));
	if (!reading->slots)
		return error_set(reading->err, -ENOMEM, "store: out of memory");
	reading->partition = partition;
	reading->parts = parts;
	reading->part_count = count;
	reading->range = range;
	reading->first_minute = (uint32_t)((range.from_ns - partition->start_ns) / MINUTE_NS);
	reading->last_minute = (uint32_t)((range.to_ns - 1 - partition->start_ns) / MINUTE_NS);
	reading->query.wanted = reading->selected->wanted;
	reading->query.wanted_count = reading->selected->wanted_count;
	return 0;
}

// ---- rows -----------------------------------------------------------------------------------------

struct scanning {
	const struct store_scanner *scanner;
	uint32_t node_count;
};

/** Pass rows on after checking that their nodes are in the forest. */
static int pass_rows(void *context, const struct store_rows *rows)
{
	const struct scanning *scanning = context;
	struct store_rows passed = *rows;
	uint32_t largest = 0;

	for (uint32_t i = 0; i < rows->count; i++)
		largest = rows->nodes[i] > largest ? rows->nodes[i] : largest;
	if (largest >= scanning->node_count)
		return -EBADMSG;
	if (scanning->scanner->detail == SCAN_SUMS)
		passed.series = 0;
	return scanning->scanner->rows(scanning->scanner->context, &passed);
}

static int scan_partition(struct rocksdb_store *store, const struct selected_partition *selected,
			  struct deadline *deadline, const struct time_range *parts,
			  uint32_t part_count, const struct store_scanner *scanner,
			  struct chunk_sharing *sharing, struct error *err)
{
	struct scanning scanning = { .scanner = scanner };
	_cleanup_(reading_deinit) struct reading reading = {
		.selected = selected,
		.deadline = deadline,
		.rollup = scanner->detail == SCAN_ROWS ? CHUNK_ROWS : CHUNK_SUMS,
		.query_groups = scanner->detail == SCAN_SERIES_SUMS ? scanner->groups : NULL,
		.join = scanner->detail == SCAN_SUMS || scanner->groups,
		.sharing = scanner->detail == SCAN_ROWS ? NULL : sharing,
		.query = { .detail = scanner->detail, .context = &scanning, .rows = pass_rows },
		.err = err,
	};

	int rc = set_reading_range(&reading, parts, part_count);
	if (rc == 0)
		rc = snapshot_partition(&reading, store, true);
	if (rc < 0)
		return is_left_out(rc) ? 0 : rc;
	scanning.node_count = reading.view->forest.node_count;
	if (scanner->partition)
		rc = scanner->partition(scanner->context, &reading.view->forest);
	if (rc == 0)
		rc = read_chunks(&reading);
	if (rc == 0)
		rc = read_runs(&reading);
	if (rc == 0 && scanner->partition_end)
		rc = scanner->partition_end(scanner->context);
	return rc;
}

int rocksdb_scan(struct rocksdb_store *store, const struct store_selection *result,
		 const struct time_range *ranges, uint32_t range_count,
		 const struct store_scanner *scanner, struct error *err)
{
	const struct rocksdb_selection *selection = result->private_;
	_cleanup_(chunk_sharing_deinit) struct chunk_sharing sharing;
	int rc = 0;

	chunk_sharing_init(&sharing, store->helpers, store->alone_rows);
	for (uint32_t i = 0; i < selection->partition_count && rc == 0; i++) {
		const struct selected_partition *selected = &selection->partitions[i];
		const struct time_range *parts;
		uint32_t count = find_parts(ranges, range_count, selected->partition, &parts);

		if (count && parts->from_ns < parts->to_ns)
			rc = scan_partition(store, selected, result->deadline, parts, count,
					    scanner, &sharing, err);
	}
	return rc;
}

// ---- activity ---------------------------------------------------------------------------------------

static int count_rows(void *context, const struct store_rows *rows)
{
	slot_counts_add(context, rows);
	return 0;
}

static bool range_overlaps(struct time_range range, const struct partition *partition)
{
	return range.from_ns < range.to_ns && range.from_ns < partition_end_ns(partition) &&
	       range.to_ns > partition->start_ns;
}

static void counted_deinit(struct selected_partition *counted)
{
	free(counted->wanted);
	for (uint32_t i = 0; i < counted->group_count; i++)
		free(counted->groups[i].series);
	free(counted->groups);
}

/** Copy what of @group is counted. */
static int cut_group(const struct selected_partition *selected, const struct selected_group *group,
		     const uint32_t *rows, struct selected_partition *counted)
{
	struct selected_group *cut = &counted->groups[counted->group_count];

	*cut = *group;
	cut->selected_count = 0;
	cut->series = malloc(group->selected_count * sizeof(*cut->series));
	if (!cut->series)
		return -ENOMEM;
	for (uint32_t i = 0; i < group->selected_count; i++)
		if (rows[selected->wanted[group->series[i]]] != STORE_ROW_NONE)
			cut->series[cut->selected_count++] = group->series[i];
	if (cut->selected_count)
		counted->group_count++;
	else
		free(cut->series);
	return 0;
}

/** Copy @selected without the series that are left out: their chunks are not even sought. */
static int cut_selection(const struct selected_partition *selected, const uint32_t *rows,
			 struct selected_partition *counted)
{
	int rc = 0;

	counted->partition = selected->partition;
	counted->wanted_count = selected->wanted_count;
	counted->wanted = malloc((selected->wanted_count + 1ULL) * sizeof(*counted->wanted));
	counted->groups = calloc(selected->group_count + 1ULL, sizeof(*counted->groups));
	if (!counted->wanted || !counted->groups)
		return -ENOMEM;
	for (uint32_t i = 0; i < selected->wanted_count; i++) {
		uint32_t number = selected->wanted[i];
		bool is_counted = number != SERIES_UNWANTED && rows[number] != STORE_ROW_NONE;

		counted->wanted[i] = is_counted ? number : SERIES_UNWANTED;
	}
	for (uint32_t i = 0; i < selected->group_count && rc == 0; i++)
		rc = cut_group(selected, &selected->groups[i], rows, counted);
	return rc;
}

static int count_partition(struct rocksdb_store *store, const struct selected_partition *all,
			   struct deadline *deadline, struct time_range range,
			   struct slot_counts *counting, struct chunk_sharing *sharing,
			   struct error *err)
{
	_cleanup_(counted_deinit) struct selected_partition counted = { 0 };
	const struct selected_partition *selected = counting->rows ? &counted : all;
	_cleanup_(reading_deinit) struct reading reading = {
		.selected = selected,
		.deadline = deadline,
		.rollup = CHUNK_TOTALS,
		.query_groups = counting->rows,
		.join = true,
		.sharing = sharing,
		.query = { .detail = SCAN_ROWS,
			   .without_nodes = true,
			   .context = counting,
			   .rows = count_rows },
		.err = err,
	};

	int rc = counting->rows ? cut_selection(all, counting->rows, &counted) : 0;
	if (rc < 0)
		return error_set(err, rc, "store: out of memory");
	if (counting->rows && !counted.group_count)
		return 0;
	rc = set_reading_range(&reading, &range, 1);
	if (rc == 0)
		rc = snapshot_partition(&reading, store, false);
	// After the snapshot: it is set before the first row is downsampled.
	counting->downsampled_ns = reading.partition->figures.resolution_ns;
	if (rc == 0)
		rc = read_chunks(&reading);
	if (rc == 0)
		rc = read_runs(&reading);
	return is_left_out(rc) ? 0 : rc;
}

int rocksdb_activity(struct rocksdb_store *store, const struct store_selection *result,
		     struct time_range range, uint64_t slot_ns, const uint32_t *rows,
		     int64_t *counts, struct error *err)
{
	const struct rocksdb_selection *selection = result->private_;
	struct slot_counts counting = {
		.from_ns = range.from_ns, .slot_ns = slot_ns, .rows = rows, .counts = counts
	};
	_cleanup_(chunk_sharing_deinit) struct chunk_sharing sharing;
	int rc = 0;

	chunk_sharing_init(&sharing, store->helpers, store->alone_rows);
	if (range.from_ns >= range.to_ns)
		return 0;
	counting.slot_count = (range.to_ns - range.from_ns) / slot_ns;
	range.to_ns = range.from_ns + counting.slot_count * slot_ns;
	for (uint32_t i = 0; i < selection->partition_count && rc == 0; i++)
		if (range_overlaps(range, selection->partitions[i].partition))
			rc = count_partition(store, &selection->partitions[i], result->deadline,
					     range, &counting, &sharing, err);
	return rc;
}
