// SPDX-License-Identifier: Apache-2.0
#include "collector/store/rocksdb/partition.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/memory_account.h"
#include "collector/store/rocksdb/key.h"

enum {
	PARTITION_FORMAT = 1,
	MERGE_FORMAT = 1,
	// A query's load is lost if an append loads first. After so many the query loads like an append.
	READ_ATTEMPTS_MAX = 3,
};

struct partition *partition_new(uint64_t start_ns, uint64_t length_ns)
{
	struct partition *partition = calloc(1, sizeof(*partition));

	if (!partition)
		return NULL;
	partition->start_ns = start_ns;
	partition->length_ns = length_ns;
	atomic_init(&partition->refs, 1);
	atomic_init(&partition->pins, 0);
	pthread_mutex_init(&partition->lock, NULL);
	pthread_mutex_init(&partition->read_lock, NULL);
	return partition;
}

struct partition *partition_ref(struct partition *partition)
{
	atomic_fetch_add(&partition->refs, 1);
	return partition;
}

void partition_unref(struct partition *partition)
{
	if (!partition || atomic_fetch_sub(&partition->refs, 1) != 1)
		return;
	forest_free(partition->forest);
	forest_view_unref(partition->view);
	postings_unref(partition->postings);
	tombstone_list_unref(partition->tombstones);
	head_deinit(&partition->head);
	pthread_mutex_destroy(&partition->lock);
	pthread_mutex_destroy(&partition->read_lock);
	free(partition);
}

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

void partition_note_damage(struct partition *partition, const char *text)
{
	if (!partition->damage[0])
		snprintf(partition->damage, sizeof(partition->damage), "%.*s",
			 PARTITION_DAMAGE_BYTES - 1, text);
	atomic_store(&partition->figures.damaged, true);
}

// ---- loading ------------------------------------------------------------------------------------

/** Dictionaries being read: the partition's, or a query's that it does not have yet. */
struct loading {
	const struct partition *partition;
	const struct tombstone_list *tombstones; // NULL: none
	struct forest *forest;
	struct postings *postings;
	uint64_t *presence;     // by series, of the records of presence; NULL: of the postings
	struct db_batch *batch; // that changes the records of presence
};

/** @sequence: of the record's key. */
typedef int (*record_fn)(struct loading *loading, enum record_kind kind, uint64_t sequence,
			 struct bytes record, struct error *err);

/** Call @read for each record of the kinds [from, to]. */
static int read_records(struct loading *loading, struct db *db, enum record_kind from,
			enum record_kind to, record_fn read, struct error *err)
{
	struct key first = key_of_record(loading->partition->start_ns, from, 0);
	struct key last = key_of_record(loading->partition->start_ns, to, UINT64_MAX);
	_cleanup_(db_iterator_freep) struct db_iterator *iterator =
		db_iterator_open(db, DB_DICTIONARY, key_bytes(&first), key_bytes(&last), true);

	if (!iterator)
		return error_set(err, -ENOMEM, "store: out of memory");
	while (db_iterator_next(iterator)) {
		struct bytes key = db_iterator_key(iterator);

		if (key.size != KEY_RECORD_BYTES)
			return error_set(err, -EBADMSG,
					 "store: a key of the dictionary is damaged");
		const uint8_t *at = key.at;
		int rc = read(loading, at[8], key_number(at + 9, 8), db_iterator_value(iterator),
			      err);
		if (rc < 0)
			return rc;
	}
	return db_iterator_check(iterator, err);
}

/** A dictionary with a hole is of no use, and is not read again and again. */
static int refuse_unreadable(const struct partition *partition, struct error *err)
{
	return error_set(err, -EBADMSG, "%s", partition->damage);
}

/** The lock is held. */
static int note_unreadable(struct partition *partition, int rc, const struct error *cause,
			   struct error *err)
{
	if (rc == -EBADMSG) {
		partition_note_damage(partition, cause->text);
		partition->unreadable = true;
	}
	return error_set(err, rc, "%s", cause->text);
}

static int read_forest_record(struct loading *loading, enum record_kind kind, uint64_t sequence,
			      struct bytes record, struct error *err)
{
	(void)sequence;
	return forest_decode(loading->forest, kind, record, err);
}

static int load_forest(const struct partition *partition, struct db *db, struct forest **ret_forest,
		       struct error *err)
{
	struct loading loading = { .partition = partition, .forest = forest_new() };

	if (!loading.forest)
		return error_set(err, -ENOMEM, "store: out of memory for a forest");
	int rc = read_records(&loading, db, RECORD_STRINGS, RECORD_STACKS, read_forest_record, err);
	if (rc < 0)
		forest_free(loading.forest);
	else
		*ret_forest = loading.forest;
	return rc;
}

int partition_load_forest(struct partition *partition, struct db *db, struct error *err)
{
	partition->used_ns = clock_monotonic_ns();
	if (partition->forest)
		return 0;
	if (partition->unreadable)
		return refuse_unreadable(partition, err);
	struct error cause = { 0 };
	int rc = load_forest(partition, db, &partition->forest, &cause);
	if (rc < 0)
		return note_unreadable(partition, rc, &cause, err);
	partition->forest_saved = forest_mark_of(partition->forest);
	partition->generation++;
	partition_publish(partition);
	return 0;
}

static int read_presence(struct loading *loading, uint64_t sequence, struct bytes record)
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
		if (loading->presence)
			loading->presence[series] |= bits;
		else
			loading->postings->series[series].presence |= bits;
	}
	return reader.failed || !bits ? -EBADMSG : 0;
}

static int read_series_record(struct loading *loading, enum record_kind kind, uint64_t sequence,
			      struct bytes record, struct error *err)
{
	if (kind == RECORD_SERIES)
		return postings_decode(loading->postings, record, err);
	int rc = read_presence(loading, sequence, record);
	return rc ? error_set(err, rc, "store: a record of presence is damaged") : 0;
}

static int load_postings(const struct partition *partition, struct db *db,
			 const struct tombstone_list *tombstones, struct postings **ret_postings,
			 struct error *err)
{
	struct loading loading = { .partition = partition,
				   .tombstones = tombstones,
				   .postings = postings_new() };

	if (!loading.postings)
		return error_set(err, -ENOMEM, "store: out of memory for series");
	int rc =
		read_records(&loading, db, RECORD_SERIES, RECORD_PRESENCE, read_series_record, err);
	if (rc < 0)
		postings_unref(loading.postings);
	else
		*ret_postings = loading.postings;
	return rc;
}

static void install_postings(struct partition *partition, struct postings *postings)
{
	partition->postings = postings;
	partition->series_saved = postings->series_count;
	partition->generation++;
	for (uint32_t i = 0; i < partition->head.count; i++) {
		const struct run_list *list = &partition->head.minutes[i].runs;

		for (uint32_t j = 0; j < list->count; j++)
			partition_note_presence(partition, list->runs[j]);
	}
	partition_publish(partition);
}

int partition_load_postings(struct partition *partition, struct db *db, struct error *err)
{
	struct postings *postings;

	partition->used_ns = clock_monotonic_ns();
	if (partition->postings)
		return 0;
	if (partition->unreadable)
		return refuse_unreadable(partition, err);
	struct error cause = { 0 };
	int rc = load_postings(partition, db, partition->tombstones, &postings, &cause);
	if (rc < 0)
		return note_unreadable(partition, rc, &cause, err);
	install_postings(partition, postings);
	return 0;
}

// ---- reading --------------------------------------------------------------------------------------

/** The generation of a partition without the dictionary that is to be read. */
struct missing {
	uint64_t generation;
	struct tombstone_list *tombstones; // a reference; of postings
	bool is_last;                      // of the attempts
};

static int fail_read(struct partition *partition, int rc, const struct error *cause,
		     struct error *err)
{
	pthread_mutex_lock(&partition->lock);
	note_unreadable(partition, rc, cause, err);
	pthread_mutex_unlock(&partition->lock);
	return rc;
}

/** A view, if the postings are loaded. -EAGAIN: they are not. */
static int find_postings(struct partition *partition, struct db *db, struct missing *missing,
			 struct postings_view *ret_view, struct error *err)
{
	int rc = 0;

	pthread_mutex_lock(&partition->lock);
	partition->used_ns = clock_monotonic_ns();
	missing->generation = partition->generation;
	if (partition->dropped)
		rc = -ENOENT;
	else if (partition->unreadable && !partition->postings)
		rc = refuse_unreadable(partition, err);
	else if (missing->is_last)
		rc = partition_load_postings(partition, db, err);
	if (rc == 0 && partition->postings)
		*ret_view = postings_view(partition->postings);
	else if (rc == 0)
		rc = -EAGAIN;
	if (rc == -EAGAIN)
		missing->tombstones = tombstone_list_ref(partition->tombstones);
	pthread_mutex_unlock(&partition->lock);
	return rc;
}

/** Keep what was read, unless an append may have written since. */
static void offer_postings(struct partition *partition, struct postings *postings,
			   const struct missing *missing)
{
	pthread_mutex_lock(&partition->lock);
	if (!partition->dropped && partition->generation == missing->generation)
		install_postings(partition, take(postings));
	pthread_mutex_unlock(&partition->lock);
	postings_unref(postings);
}

static int read_postings(struct partition *partition, struct db *db, struct postings_view *ret_view,
			 struct error *err)
{
	for (int attempt = 1;; attempt++) {
		struct missing missing = { .is_last = attempt == READ_ATTEMPTS_MAX };
		struct error cause = { 0 };
		struct postings *postings;
		int rc = find_postings(partition, db, &missing, ret_view, err);

		if (rc != -EAGAIN)
			return rc;
		rc = load_postings(partition, db, missing.tombstones, &postings, &cause);
		tombstone_list_unref(missing.tombstones);
		if (rc < 0)
			return fail_read(partition, rc, &cause, err);
		offer_postings(partition, postings, &missing);
	}
}

int partition_read_postings(struct partition *partition, struct db *db,
			    struct postings_view *ret_view, struct error *err)
{
	// Dictionaries and views stay for other queries, within the store's share of memory.
	struct memory_account *paused = memory_account_pause();

	pthread_mutex_lock(&partition->read_lock);
	int rc = read_postings(partition, db, ret_view, err);
	pthread_mutex_unlock(&partition->read_lock);
	memory_account_resume(paused);
	return rc;
}

/** The view, or what is needed to make one. */
static int find_view(struct partition *partition, struct db *db, struct missing *missing,
		     struct forest_view **ret_view, struct error *err)
{
	int rc = 0;

	pthread_mutex_lock(&partition->lock);
	partition->used_ns = clock_monotonic_ns();
	missing->generation = partition->generation;
	if (partition->dropped)
		rc = -ENOENT;
	else if (partition->unreadable && !partition->view && !partition->forest)
		rc = refuse_unreadable(partition, err);
	else if (missing->is_last && !partition->view)
		rc = partition_load_forest(partition, db, err);
	if (rc == 0 && partition->view &&
	    (!partition->forest || !forest_view_is_stale(partition->view, partition->forest)))
		*ret_view = forest_view_ref(partition->view);
	else if (rc == 0)
		rc = partition->forest ? -ESTALE : -EAGAIN;
	pthread_mutex_unlock(&partition->lock);
	return rc;
}

/** Keep a view of what was read: a partition that is only read needs no hash tables. */
static int offer_view(struct partition *partition, struct forest *forest,
		      const struct missing *missing)
{
	struct forest_view *view = forest_view_take(forest);

	if (!view)
		return -ENOMEM;
	pthread_mutex_lock(&partition->lock);
	if (!partition->dropped && partition->generation == missing->generation) {
		forest_view_unref(partition->view);
		partition->view = take(view);
		partition_publish(partition);
	}
	pthread_mutex_unlock(&partition->lock);
	forest_view_unref(view);
	return 0;
}

/** Where a snapshot of the growing forest stands. -EAGAIN: it was evicted, or loaded again. */
static int begin_copy(struct partition *partition, struct forest_view **ret_before,
		      struct forest_extent *ret_extent, uint64_t *ret_generation)
{
	int rc = 0;

	pthread_mutex_lock(&partition->lock);
	if (partition->dropped)
		rc = -ENOENT;
	else if (!partition->forest)
		rc = -EAGAIN;
	if (rc == 0) {
		*ret_before = partition->view ? forest_view_ref(partition->view) : NULL;
		*ret_extent = forest_extent_of(partition->forest);
		*ret_generation = partition->generation;
	}
	pthread_mutex_unlock(&partition->lock);
	return rc;
}

/** Copy one step of the growth under the lock. With 0, *view is the partition's, too. */
static int step_copy(struct partition *partition, struct forest_view *view, uint64_t generation)
{
	int rc;

	pthread_mutex_lock(&partition->lock);
	if (partition->dropped)
		rc = -ENOENT;
	else if (partition->generation != generation)
		rc = -ESTALE;
	else
		rc = forest_view_step(view, partition->forest);
	if (rc == 0) {
		forest_view_unref(partition->view);
		partition->view = forest_view_ref(view);
		partition_publish(partition);
	}
	pthread_mutex_unlock(&partition->lock);
	return rc;
}

/** Make a view of the forest of a partition that is being appended to. -EAGAIN: look again. */
static int copy_view(struct partition *partition, struct forest_view **ret_view)
{
	struct forest_extent extent;
	struct forest_view *before = NULL;
	uint64_t generation;
	int rc = begin_copy(partition, &before, &extent, &generation);

	while (rc == 0) {
		struct forest_view *view = forest_view_begin(before, &extent);

		forest_view_unref(before);
		before = view;
		if (!view)
			return -ENOMEM;
		while ((rc = step_copy(partition, view, generation)) == -EAGAIN)
			continue;
		if (rc == 0) {
			*ret_view = view;
			return 0;
		}
		if (rc != -ENOSPC)
			break;
		struct forest_view *ours;
		rc = begin_copy(partition, &ours, &extent, &generation);
		if (rc == 0)
			forest_view_unref(ours);
	}
	forest_view_unref(before);
	return rc == -ESTALE ? -EAGAIN : rc;
}

static int read_forest(struct partition *partition, struct db *db, struct forest_view **ret_view,
		       struct error *err)
{
	for (int attempt = 1;; attempt++) {
		struct missing missing = { .is_last = attempt >= READ_ATTEMPTS_MAX };
		struct error cause = { 0 };
		struct forest *forest;
		int rc = find_view(partition, db, &missing, ret_view, err);

		if (rc == -ESTALE) {
			rc = copy_view(partition, ret_view);
			if (rc == -EAGAIN)
				continue;
			return rc;
		}
		if (rc != -EAGAIN)
			return rc;
		rc = load_forest(partition, db, &forest, &cause);
		if (rc < 0)
			return fail_read(partition, rc, &cause, err);
		rc = offer_view(partition, forest, &missing);
		if (rc < 0)
			return rc;
	}
}

int partition_read_forest(struct partition *partition, struct db *db, struct forest_view **ret_view,
			  struct error *err)
{
	struct memory_account *paused = memory_account_pause(); // as above

	pthread_mutex_lock(&partition->read_lock);
	int rc = read_forest(partition, db, ret_view, err);
	pthread_mutex_unlock(&partition->read_lock);
	memory_account_resume(paused);
	return rc == -ENOMEM ? error_set(err, rc, "store: out of memory for a forest") : rc;
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

static int read_tombstone_record(struct loading *loading, enum record_kind kind, uint64_t sequence,
				 struct bytes record, struct error *err)
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
	struct loading loading = { .partition = partition };
	struct error cause = { 0 };
	int rc = read_records(&loading, db, RECORD_TOMBSTONE, RECORD_TOMBSTONE,
			      read_tombstone_record, &cause);

	partition_publish(partition);
	if (rc < 0)
		note_unreadable(partition, rc, &cause, err);
	// Rather no answer than one with what was deleted.
	return rc == -EBADMSG ? 0 : rc;
}

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
			presence[series] |= bits;
	}
}

/** Read presence anew. Each series' is replaced at once: who reads meanwhile finds the old or the new. */
static int renew_presence(struct partition *partition, struct db *db, struct error *err)
{
	struct postings *postings = partition->postings;
	_cleanup_free_ uint64_t *presence = calloc(postings->series_count + 1, sizeof(*presence));
	struct loading loading = { .partition = partition,
				   .tombstones = partition->tombstones,
				   .postings = postings,
				   .presence = presence };

	if (!presence)
		return error_set(err, -ENOMEM, "store: out of memory for series");
	int rc = read_records(&loading, db, RECORD_PRESENCE, RECORD_PRESENCE, read_series_record,
			      err);
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

void partition_drop_postings(struct partition *partition)
{
	postings_unref(take(partition->postings));
	partition->generation++;
	partition_publish(partition);
}

/** Replace a record of presence by one without deleted series. */
static int clean_presence(struct loading *loading, enum record_kind kind, uint64_t sequence,
			  struct bytes record, struct error *err)
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
	struct loading loading = { .partition = partition,
				   .tombstones = tombstones,
				   .batch = batch };

	return read_records(&loading, db, RECORD_PRESENCE, RECORD_PRESENCE, clean_presence, err);
}

// ---- saving -------------------------------------------------------------------------------------

static int put_record(struct partition *partition, struct db_batch *batch, enum record_kind kind,
		      uint64_t sequence, const struct buffer *record)
{
	struct key key = key_of_record(partition->start_ns, kind, sequence);

	if (record->rc)
		return record->rc;
	if (record->size)
		db_batch_put(batch, DB_DICTIONARY, key_bytes(&key),
			     (struct bytes){ record->bytes, record->size });
	return 0;
}

static int save_dictionaries(struct partition *partition, struct db_batch *batch, uint64_t sequence)
{
	_cleanup_(buffer_deinit) struct buffer record = { 0 };
	int rc = 0;

	for (int kind = RECORD_STRINGS; kind <= RECORD_SERIES && rc == 0; kind++) {
		buffer_clear(&record);
		if (kind == RECORD_SERIES && partition->postings)
			postings_encode(partition->postings, partition->series_saved, &record);
		else if (kind != RECORD_SERIES && partition->forest)
			forest_encode(partition->forest, kind, &partition->forest_saved, &record);
		rc = put_record(partition, batch, kind, sequence, &record);
	}
	return rc;
}

static void encode_summary(const struct partition_summary *summary, struct buffer *record)
{
	buffer_append_varint(record, PARTITION_FORMAT);
	buffer_append_varint(record, summary->nodes);
	buffer_append_varint(record, summary->series);
	buffer_append_varint(record, summary->oldest_ns);
	buffer_append_varint(record, summary->newest_ns);
}

int partition_save(struct partition *partition, struct db_batch *batch, uint64_t sequence,
		   struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer record = { 0 };
	int rc = save_dictionaries(partition, batch, sequence);

	if (partition->forest)
		partition->summary.nodes = partition->forest->node_count;
	if (partition->postings)
		partition->summary.series = partition->postings->series_count;
	partition_publish(partition);
	encode_summary(&partition->summary, &record);
	if (rc == 0)
		rc = put_record(partition, batch, RECORD_PARTITION, 0, &record);
	return rc ? error_set(err, rc, "store: out of memory for a record") : 0;
}

void partition_saved(struct partition *partition, const struct forest_mark *forest, uint32_t series)
{
	partition->forest_saved = *forest;
	partition->forest_saved.renamed = 0;
	partition->series_saved = series;
	if (partition->forest && forest->renamed)
		forest_saved(partition->forest, forest);
}

void partition_note_presence(struct partition *partition, const struct raw_run *run)
{
	uint64_t from_ns = partition->start_ns + run->minute * MINUTE_NS;
	uint64_t bits = partition_presence(partition, from_ns, from_ns + MINUTE_NS);

	uint64_t covering =
		tombstone_list_covering(partition->tombstones, run->minute, run->sequence);

	for (uint32_t i = 0; partition->postings && i < run->rows.section_count; i++) {
		uint32_t series = run->rows.sections[i].series;

		if (series < partition->postings->series_count &&
		    !tombstone_list_has(partition->tombstones, covering, series))
			partition->postings->series[series].presence |= bits;
	}
}

uint64_t partition_memory(const struct partition *partition)
{
	return sizeof(*partition) + partition->head.bytes +
	       (partition->forest ? forest_memory(partition->forest) : 0) +
	       (partition->view ? partition->view->memory : 0) +
	       (partition->postings ? postings_memory(partition->postings) : 0);
}

void partition_publish(struct partition *partition)
{
	const struct partition_summary *summary = &partition->summary;
	struct partition_figures *figures = &partition->figures;

	atomic_store(&figures->nodes, summary->nodes);
	atomic_store(&figures->series, summary->series);
	atomic_store(&figures->oldest_ns, summary->oldest_ns);
	atomic_store(&figures->newest_ns, summary->newest_ns);
	atomic_store(&figures->memory_bytes, partition_memory(partition));
	atomic_store(&figures->damaged, partition->damage[0] != '\0');
	atomic_store(&figures->tombstones,
		     partition->tombstones ? partition->tombstones->count : 0);
	atomic_store(&figures->tombstone_series,
		     partition->tombstones ? partition->tombstones->series_count : 0);
}

void partition_evict(struct partition *partition)
{
	if (atomic_load(&partition->pins))
		return;
	forest_free(take(partition->forest));
	postings_unref(take(partition->postings));
	forest_view_unref(take(partition->view));
	partition->generation++;
	partition_publish(partition);
}

void partition_encode_merge(uint64_t resolution_ns, uint64_t sequence, struct buffer *record)
{
	buffer_append_varint(record, MERGE_FORMAT);
	buffer_append_varint(record, resolution_ns);
	buffer_append_varint(record, sequence);
}

int partition_decode_merge(struct partition *partition, struct bytes record)
{
	struct reader reader = { .at = record.at, .end = (const uint8_t *)record.at + record.size };
	uint64_t format = reader_varint(&reader), resolution_ns = reader_varint(&reader);
	uint64_t sequence = reader_varint(&reader);

	if (reader.failed || format != MERGE_FORMAT || resolution_ns > MINUTE_NS)
		return -EBADMSG;
	partition->figures.resolution_ns = resolution_ns;
	partition->merge_begun = !sequence;
	return 0;
}

int partition_summary_decode(struct bytes record, struct partition_summary *ret_summary)
{
	struct reader reader = { .at = record.at, .end = (const uint8_t *)record.at + record.size };
	uint64_t format = reader_varint(&reader);
	struct partition_summary summary = { .nodes = reader_varint(&reader) };

	summary.series = reader_varint(&reader);
	summary.oldest_ns = reader_varint(&reader);
	summary.newest_ns = reader_varint(&reader);
	if (reader.failed || format != PARTITION_FORMAT)
		return -EBADMSG;
	*ret_summary = summary;
	return 0;
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
