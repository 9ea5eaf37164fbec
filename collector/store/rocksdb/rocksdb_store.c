// SPDX-License-Identifier: Apache-2.0
// Opens and closes the store: finds its partitions, and restores the open minutes and acknowledged
// sequences of the last process.
#include "collector/store/rocksdb/rocksdb_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/array.h"
#include "base/version.h"
#include "collector/store/rocksdb/key.h"
#include "collector/store/rocksdb/partition_presence.h"

// docs/format.md, docs/upgrade.md
enum {
	STORE_FORMAT_OLDEST = 2,          // that this program reads, and goes on with as it is
	STORE_FORMAT = STORE_FORMAT_SUMS, // of new stores, and the newest that it knows
	// A program that knows this one can read and write what this program writes.
	STORE_FORMAT_SUFFICES = STORE_FORMAT,
	VERSION_BYTES = 32,
};

// ---- partitions -----------------------------------------------------------------------------------

/**
 * The index of the partition that begins at @start_ns, or where to insert it. partitions_lock is
 * held.
 */
static uint32_t position_of(const struct rocksdb_store *store, uint64_t start_ns)
{
	uint32_t low = 0, high = store->partition_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (store->partitions[middle]->start_ns < start_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct partition *find_at(const struct rocksdb_store *store, uint32_t at, uint64_t start_ns)
{
	return at < store->partition_count && store->partitions[at]->start_ns == start_ns
		       ? partition_ref(store->partitions[at])
		       : NULL;
}

static struct partition *insert_at(struct rocksdb_store *store, uint32_t at, uint64_t start_ns)
{
	if (array_reserve(&store->partitions, sizeof(struct partition *),
			  &store->partition_capacity, store->partition_count, 1,
			  PARTITIONS_MAX) < 0)
		return NULL;
	struct partition *partition = partition_new(start_ns, store->partition_ns);
	if (!partition)
		return NULL;
	memmove(&store->partitions[at + 1], &store->partitions[at],
		(store->partition_count - at) * sizeof(struct partition *));
	store->partitions[at] = partition;
	store->partition_count++;
	return partition_ref(partition);
}

struct partition *rocksdb_pin_partition(struct rocksdb_store *store, uint64_t start_ns)
{
	pthread_mutex_lock(&store->partitions_lock);
	uint32_t at = position_of(store, start_ns);
	struct partition *partition = find_at(store, at, start_ns);
	if (!partition)
		partition = insert_at(store, at, start_ns);
	if (partition)
		atomic_fetch_add(&partition->pins, 1);
	pthread_mutex_unlock(&store->partitions_lock);
	return partition;
}

void rocksdb_unpin_partition(struct partition *partition)
{
	if (!partition)
		return;
	atomic_fetch_sub(&partition->pins, 1);
	partition_unref(partition);
}

/** partitions_lock is held. */
static void remove_partition(struct rocksdb_store *store, struct partition *partition)
{
	uint32_t at = position_of(store, partition->start_ns);

	if (at == store->partition_count || store->partitions[at] != partition)
		return;
	store->partition_count--;
	memmove(&store->partitions[at], &store->partitions[at + 1],
		(store->partition_count - at) * sizeof(struct partition *));
	partition_unref(partition);
}

void rocksdb_remove_partition(struct rocksdb_store *store, struct partition *partition)
{
	pthread_mutex_lock(&store->partitions_lock);
	remove_partition(store, partition);
	pthread_mutex_unlock(&store->partitions_lock);
}

void rocksdb_remove_empty_partition(struct rocksdb_store *store, struct partition *partition)
{
	pthread_mutex_lock(&partition->lock);
	pthread_mutex_lock(&store->partitions_lock);
	// A saved partition has at least the root.
	if (!partition->summary.nodes && !partition->damage[0] && !atomic_load(&partition->pins)) {
		partition->dropped = true;
		remove_partition(store, partition);
	}
	pthread_mutex_unlock(&store->partitions_lock);
	pthread_mutex_unlock(&partition->lock);
}

int rocksdb_list_partitions(struct rocksdb_store *store, struct time_range range,
			    struct partition_list *ret_list)
{
	struct partition_list list = { 0 };

	pthread_mutex_lock(&store->partitions_lock);
	list.partitions = malloc((store->partition_count + 1) * sizeof(*list.partitions));
	for (uint32_t i = 0; list.partitions && i < store->partition_count; i++) {
		struct partition *partition = store->partitions[i];

		if (partition->start_ns < range.to_ns &&
		    partition_end_ns(partition) > range.from_ns)
			list.partitions[list.count++] = partition_ref(partition);
	}
	pthread_mutex_unlock(&store->partitions_lock);
	if (!list.partitions)
		return -ENOMEM;
	*ret_list = list;
	return 0;
}

void partition_list_deinit(struct partition_list *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		partition_unref(list->partitions[i]);
	free(list->partitions);
	*list = (struct partition_list){ 0 };
}

// ---- opening --------------------------------------------------------------------------------------

int rocksdb_read_number(struct db *db, const char *name, uint64_t *ret_number, bool *ret_found,
			struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer value = { 0 };
	struct key key = key_of_meta(name);
	int rc = db_get(db, DB_META, key_bytes(&key), &value, err);

	*ret_found = rc != -ENOENT;
	if (rc == -ENOENT)
		return 0;
	if (rc < 0)
		return rc;
	if (value.size != 8)
		return error_set(err, -EBADMSG, "store: the entry \"%s\" is damaged", name);
	*ret_number = key_number(value.bytes, 8);
	return 0;
}

void rocksdb_put_number(struct db_batch *batch, const char *name, uint64_t number)
{
	struct key key = key_of_meta(name), value = { .size = 0 };

	key_append(&value, number, 8);
	db_batch_put(batch, DB_META, key_bytes(&key), key_bytes(&value));
}

/** Record what is written, what a program must know to go on with it, and who wrote it. */
static int write_format(struct rocksdb_store *store, struct error *err)
{
	_cleanup_(db_batch_freep) struct db_batch *batch = db_batch_new(store->db);
	struct key version_key = key_of_meta("written_by");

	if (!batch)
		return error_set(err, -ENOMEM, "store: out of memory");
	rocksdb_put_number(batch, "format", STORE_FORMAT);
	rocksdb_put_number(batch, "format_suffices", STORE_FORMAT_SUFFICES);
	rocksdb_put_number(batch, "partition_ns", store->partition_ns);
	db_batch_put(batch, DB_META, key_bytes(&version_key),
		     (struct bytes){ CAIRN_VERSION, strlen(CAIRN_VERSION) });
	return db_write(store->db, batch, true, err);
}

/** The version that wrote the store's format, "?" if it is not known. */
static void read_version(struct db *db, char version[VERSION_BYTES])
{
	_cleanup_(buffer_deinit) struct buffer value = { 0 };
	struct key key = key_of_meta("written_by");
	int rc = db_get(db, DB_META, key_bytes(&key), &value, NULL);

	if (rc < 0 || value.size >= VERSION_BYTES)
		strcpy(version, "?");
	else
		snprintf(version, VERSION_BYTES, "%.*s", (int)value.size,
			 (const char *)value.bytes);
}

static int check_format(struct db *db, uint64_t format, const char *path, struct error *err)
{
	uint64_t suffices = format;
	char version[VERSION_BYTES];
	bool found;
	int rc = rocksdb_read_number(db, "format_suffices", &suffices, &found, err);

	if (rc < 0)
		return rc == -EBADMSG ? -EUCLEAN : rc;
	if ((format >= STORE_FORMAT_OLDEST && format <= STORE_FORMAT) ||
	    (format > STORE_FORMAT && suffices <= STORE_FORMAT))
		return 0;
	read_version(db, version);
	return error_set(
		err, -EBADMSG,
		"store %s: its format is %llu, %s than this program's %d; use the "
		"cairn-collector that wrote it (version %s), or choose another folder with --data",
		path, (unsigned long long)format, format > STORE_FORMAT ? "newer" : "older",
		format > STORE_FORMAT ? STORE_FORMAT : STORE_FORMAT_OLDEST, version);
}

int rocksdb_read_partition_ns(struct db *db, const char *path, uint64_t *ret_partition_ns,
			      struct error *err)
{
	uint64_t format = 0, partition_ns = 0;
	bool found, partition_found = false;
	int rc = rocksdb_read_number(db, "format", &format, &found, err);

	if (rc == 0 && !found)
		return -ENOENT;
	if (rc == 0)
		rc = check_format(db, format, path, err);
	else
		rc = rc == -EBADMSG ? -EUCLEAN : rc;
	if (rc == 0)
		rc = rocksdb_read_number(db, "partition_ns", &partition_ns, &partition_found, err);
	if (rc < 0)
		return rc;
	if (!partition_found || !partition_ns || partition_ns % MINUTE_NS)
		return error_set(err, -EUCLEAN, "store %s: the length of its partitions is damaged",
				 path);
	*ret_partition_ns = partition_ns;
	return 0;
}

/**
 * The store's numbers are damaged. Its records have versions of their own, and any sequence does that is
 * above those in use: they count commits.
 */
static int replace_numbers(struct rocksdb_store *store, enum db_mode mode, struct error *err)
{
	store->counters.agents_damaged++;
	store->sequence = clock_realtime_ns();
	store->format = STORE_FORMAT;
	return mode == DB_READ_ONLY ? 0 : write_format(store, err);
}

/** Read which format the store is written in, and begin to write the newest if that is asked for. */
static int choose_format(struct rocksdb_store *store, const struct store_options *options,
			 enum db_mode mode, struct error *err)
{
	bool found;
	int rc = rocksdb_read_number(store->db, "format", &store->format, &found, err);

	if (rc < 0 || store->format >= STORE_FORMAT || !options->upgrade || mode == DB_READ_ONLY)
		return rc;
	store->format = STORE_FORMAT;
	return write_format(store, err);
}

/** Write the format of a new store, or check that of an existing one. */
static int open_format(struct rocksdb_store *store, const struct store_options *options,
		       enum db_mode mode, struct error *err)
{
	uint64_t asked_ns = options->partition_ns;
	bool found;
	int rc = rocksdb_read_partition_ns(store->db, options->path, &store->partition_ns, err);

	if (rc == -EUCLEAN)
		return replace_numbers(store, mode, err);
	if (rc == -ENOENT) {
		store->format = STORE_FORMAT;
		return write_format(store, err);
	}
	if (rc == 0 && asked_ns && asked_ns != store->partition_ns)
		return error_set(err, -EINVAL,
				 "store %s: its partitions are %llu s long; ask for the same, or "
				 "choose another folder with --data",
				 options->path,
				 (unsigned long long)(store->partition_ns / NS_PER_SECOND));
	if (rc == 0)
		rc = choose_format(store, options, mode, err);
	if (rc < 0)
		return rc;
	rc = rocksdb_read_number(store->db, "sequence", &store->sequence, &found, err);
	return rc == -EBADMSG ? replace_numbers(store, mode, err) : rc;
}

/** List the partition that begins at @start_ns. @summary: its first record, NULL if it is damaged. */
static int list_partition(struct rocksdb_store *store, uint64_t start_ns,
			  const struct bytes *summary)
{
	struct partition *partition = rocksdb_pin_partition(store, start_ns);

	if (!partition)
		return -ENOMEM;
	if (!summary || partition_summary_decode(*summary, &partition->summary) < 0)
		partition_note_damage(partition, "the partition's summary is damaged");
	partition_publish(partition);
	rocksdb_unpin_partition(partition);
	return 0;
}

typedef int (*found_fn)(struct rocksdb_store *store, uint64_t start_ns, struct bytes key,
			struct bytes value);

/** Call @found with the first entry of each partition in @family: one seek per partition. */
static int walk_partitions(struct rocksdb_store *store, enum db_family family, found_fn found,
			   struct error *err)
{
	struct key from = key_of_partition(0), to = key_of_partition(UINT64_MAX);
	_cleanup_(db_iterator_freep) struct db_iterator *iterator =
		db_iterator_open(store->db, family, key_bytes(&from), key_bytes(&to), true);
	int rc = iterator ? 0 : -ENOMEM;

	for (bool more = rc == 0 && db_iterator_next(iterator); more && rc == 0;) {
		struct bytes key = db_iterator_key(iterator);
		uint64_t start_ns = key.size >= 8 ? key_number(key.at, 8) : 0;
		struct key next = key_of_partition(start_ns + 1);

		if (key.size >= 8 && start_ns % store->partition_ns == 0)
			rc = found(store, start_ns, key, db_iterator_value(iterator));
		more = rc == 0 && db_iterator_seek(iterator, key_bytes(&next));
	}
	return rc ? error_set(err, rc, "store: out of memory") : db_iterator_check(iterator, err);
}

static int found_in_dictionary(struct rocksdb_store *store, uint64_t start_ns, struct bytes key,
			       struct bytes value)
{
	bool is_summary =
		key.size == KEY_RECORD_BYTES && ((const uint8_t *)key.at)[8] == RECORD_PARTITION;

	return list_partition(store, start_ns, is_summary ? &value : NULL);
}

/** Rows of a partition that the damaged dictionary has not shown. */
static int found_in_rows(struct rocksdb_store *store, uint64_t start_ns, struct bytes key,
			 struct bytes value)
{
	_cleanup_(buffer_deinit) struct buffer record = { 0 };
	struct key summary_key = key_of_record(start_ns, RECORD_PARTITION, 0);

	(void)key, (void)value;
	pthread_mutex_lock(&store->partitions_lock);
	uint32_t at = position_of(store, start_ns);
	bool is_listed = at < store->partition_count && store->partitions[at]->start_ns == start_ns;
	pthread_mutex_unlock(&store->partitions_lock);
	if (is_listed)
		return 0;
	int rc = db_get(store->db, DB_DICTIONARY, key_bytes(&summary_key), &record, NULL);
	struct bytes summary = { record.bytes, record.size };
	return rc == -ENOMEM ? rc : list_partition(store, start_ns, rc ? NULL : &summary);
}

static int find_partitions(struct rocksdb_store *store, struct error *err)
{
	static const enum db_family families[] = { DB_CHUNK, DB_RAW };
	int rc = walk_partitions(store, DB_DICTIONARY, found_in_dictionary, err);

	if (rc != -EBADMSG)
		return rc;
	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		rc = walk_partitions(store, families[i], found_in_rows, err);
		if (rc < 0 && rc != -EBADMSG)
			return rc;
	}
	return 0;
}

static int restore_run(struct partition *partition, struct bytes key, struct bytes value)
{
	const uint8_t *at = key.at;
	struct raw_run *run;

	if (key.size != KEY_RAW_BYTES)
		return -EBADMSG;
	int rc = raw_run_new((uint32_t)key_number(at + 8, 2), value, &run);
	if (rc < 0)
		return rc;
	run->sequence = key_number(at + 10, 8);
	rc = head_prepare(&partition->head, run->minute);
	if (rc == 0)
		head_add(&partition->head, run);
	partition_publish(partition);
	raw_run_unref(run);
	return rc;
}

/** Restore a partition's open minutes: rows that the last process acknowledged and did not close. */
static int restore_head(struct rocksdb_store *store, struct partition *partition, struct error *err)
{
	struct key from = key_of_partition(partition->start_ns);
	struct key to = key_of_partition(partition->start_ns + 1);
	_cleanup_(db_iterator_freep) struct db_iterator *iterator =
		db_iterator_open(store->db, DB_RAW, key_bytes(&from), key_bytes(&to), false);
	int rc = iterator ? 0 : -ENOMEM;

	while (rc == 0 && db_iterator_next(iterator)) {
		rc = restore_run(partition, db_iterator_key(iterator), db_iterator_value(iterator));
		if (rc == -EBADMSG) {
			partition_note_damage(partition, "open rows are damaged");
			rc = 0;
		}
	}
	if (rc < 0)
		return error_set(err, rc, "store: out of memory");
	rc = db_iterator_check(iterator, err);
	if (rc == -EBADMSG)
		partition_note_damage(partition, "a block of open rows is damaged");
	return rc == -EBADMSG ? 0 : rc;
}

static int restore_heads(struct rocksdb_store *store, struct error *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < store->partition_count && rc == 0; i++) {
		rc = partition_load_tombstones(store->partitions[i], store->db, err);
		if (rc == 0)
			rc = rocksdb_restore_merge(store, store->partitions[i], err);
		if (rc == 0)
			rc = restore_head(store, store->partitions[i], err);
	}
	return rc;
}

/** An agent's acknowledged sequence, as it is on disk. */
struct saved_agent {
	struct store_batch_id batch;
	uint64_t seen_ns;
};

struct saved_agents {
	struct saved_agent *agents;
	uint32_t count, capacity;
};

static int read_agent(struct saved_agents *saved, struct bytes key, struct bytes value)
{
	struct reader reader = { .at = value.at, .end = (const uint8_t *)value.at + value.size };
	const uint8_t *at = key.at;
	struct saved_agent agent = { .batch.sequence = reader_varint(&reader),
				     .seen_ns = reader_varint(&reader) };
	int rc = array_reserve(&saved->agents, sizeof(agent), &saved->capacity, saved->count, 1,
			       UINT32_MAX / 2);

	if (reader.failed || !key_read_agent(at, key.size, &agent.batch))
		return -EBADMSG;
	if (rc < 0)
		return rc;
	saved->agents[saved->count++] = agent;
	return 0;
}

static int by_seen(const void *a, const void *b)
{
	const struct saved_agent *left = a, *right = b;

	return (left->seen_ns > right->seen_ns) - (left->seen_ns < right->seen_ns);
}

/** Of an agent whose entry is damaged, a batch that it repeats would count twice: rather that than no store. */
static int read_agents(struct rocksdb_store *store, struct saved_agents *saved, struct error *err)
{
	static const uint8_t first[] = { KEY_META_AGENT }, last[] = { KEY_META_AGENT + 1 };
	struct bytes from = { first, 1 }, to = { last, 1 };
	_cleanup_(db_iterator_freep) struct db_iterator *iterator =
		db_iterator_open(store->db, DB_META, from, to, false);
	int rc = iterator ? 0 : -ENOMEM;

	while (rc == 0 && db_iterator_next(iterator)) {
		rc = read_agent(saved, db_iterator_key(iterator), db_iterator_value(iterator));
		store->counters.agents_damaged += rc == -EBADMSG;
		rc = rc == -EBADMSG ? 0 : rc;
	}
	if (rc < 0)
		return error_set(err, rc, "store: out of memory");
	rc = db_iterator_check(iterator, err);
	store->counters.agents_damaged += rc == -EBADMSG;
	return rc == -EBADMSG ? 0 : rc;
}

static int restore_agents(struct rocksdb_store *store, struct error *err)
{
	struct saved_agents saved = { 0 };
	int rc = read_agents(store, &saved, err);

	if (rc == 0 && saved.count)
		qsort(saved.agents, saved.count, sizeof(*saved.agents), by_seen);
	uint32_t first = saved.count > AGENTS_MAX ? saved.count - AGENTS_MAX : 0;
	for (uint32_t i = first; i < saved.count && rc == 0; i++) {
		agent_table_begin(&store->agents);
		rc = agent_table_restore(&store->agents, &saved.agents[i].batch,
					 saved.agents[i].seen_ns);
		if (rc < 0)
			error_set(err, rc, "store: out of memory");
	}
	agent_table_begin(&store->agents);
	free(saved.agents);
	return rc;
}

// ---- life -------------------------------------------------------------------------------------------

void rocksdb_core_close(struct rocksdb_store *store)
{
	if (!store)
		return;
	chunk_helpers_free(store->helpers);
	// Open minutes stay open: they are in the database, and are restored at the next start.
	for (uint32_t i = 0; i < store->partition_count; i++)
		partition_unref(store->partitions[i]);
	free(store->partitions);
	rewrite_deinit(&store->rewrite);
	merge_deinit(&store->merge);
	agent_table_deinit(&store->agents);
	chunk_encoder_freep(&store->encoder);
	pthread_mutex_destroy(&store->partitions_lock);
	pthread_mutex_destroy(&store->resolve_lock);
	pthread_mutex_destroy(&store->commit_lock);
	pthread_mutex_destroy(&store->maintain_lock);
	pthread_mutex_destroy(&store->clock_lock);
	pthread_cond_destroy(&store->commit_done);
	db_close(store->db);
	free(store);
}

/** Takes no partition's lock: a probe must not wait for a batch, nor for a query. */
static void read_partition_stats(struct rocksdb_store *store, struct store_stats *stats)
{
	struct partition_list list;
	struct time_range all = { 0, UINT64_MAX };

	if (rocksdb_list_partitions(store, all, &list) < 0)
		return;
	stats->partitions = list.count;
	for (uint32_t i = 0; i < list.count; i++) {
		struct partition *partition = list.partitions[i];

		struct partition_figures *figures = &partition->figures;
		uint64_t oldest_ns = figures->oldest_ns, newest_ns = figures->newest_ns;

		stats->nodes += figures->nodes;
		stats->series += figures->series;
		if (oldest_ns && (!stats->oldest_ns || oldest_ns < stats->oldest_ns))
			stats->oldest_ns = oldest_ns;
		if (newest_ns > stats->newest_ns)
			stats->newest_ns = newest_ns;
		stats->memory_bytes += figures->memory_bytes;
		stats->partitions_damaged += figures->damaged;
		stats->partitions_merged += figures->merged;
	}
	partition_list_deinit(&list);
}

void rocksdb_read_tombstones(struct rocksdb_store *store, struct store_stats *stats)
{
	stats->tombstones = 0;
	stats->tombstone_series = 0;
	pthread_mutex_lock(&store->partitions_lock);
	for (uint32_t i = 0; i < store->partition_count; i++) {
		stats->tombstones += store->partitions[i]->figures.tombstones;
		stats->tombstone_series += store->partitions[i]->figures.tombstone_series;
	}
	pthread_mutex_unlock(&store->partitions_lock);
}

void rocksdb_read_stats(struct rocksdb_store *store, struct store_stats *ret_stats)
{
	struct store_counters *counters = &store->counters;
	struct store_stats stats = {
		.rows_appended = counters->rows_appended,
		.batches_appended = counters->batches_appended,
		.batches_duplicate = counters->batches_duplicate,
		.stored_bytes = db_stored_bytes(store->db),
		.memory_bytes = db_memory_bytes(store->db),
		.rows_late_dropped = counters->rows_late,
		.rows_future_dropped = counters->rows_future,
		.rows_series_dropped = counters->rows_series,
		.rows_other = counters->rows_other,
		.stacks_dropped = counters->stacks_dropped,
		.retention_put_off = counters->retention_put_off,
		.chunk_bytes = counters->chunk_bytes,
		.chunk_rows = counters->chunk_rows,
		.agents_damaged = counters->agents_damaged,
		.series_deleted = counters->series_deleted,
		.rows_deleted = counters->rows_deleted,
		.rows_merged = counters->rows_merged,
	};

	pthread_mutex_lock(&store->clock_lock);
	stats.clock_doubted = store->clock_guard.doubt != CLOCK_TRUSTED;
	pthread_mutex_unlock(&store->clock_lock);
	pthread_mutex_lock(&store->commit_lock);
	stats.agents = store->agents.count - store->agents.pushes;
	stats.pushes = store->agents.pushes;
	stats.agents_evicted = store->agents.evicted;
	stats.pushes_evicted = store->agents.evicted_pushes;
	pthread_mutex_unlock(&store->commit_lock);
	read_partition_stats(store, &stats);
	rocksdb_read_tombstones(store, &stats);
	*ret_stats = stats;
}

void rocksdb_read_damage(struct rocksdb_store *store, struct time_range range,
			 struct store_damage *ret_damage)
{
	struct store_damage damage = { 0 };
	struct partition_list list;

	if (rocksdb_list_partitions(store, range, &list) < 0)
		list = (struct partition_list){ 0 };
	for (uint32_t i = list.count; i-- > 0;) {
		pthread_mutex_lock(&list.partitions[i]->lock);
		if (list.partitions[i]->damage[0]) {
			damage.partitions++;
			damage.first_ns = list.partitions[i]->start_ns;
		}
		pthread_mutex_unlock(&list.partitions[i]->lock);
	}
	partition_list_deinit(&list);
	*ret_damage = damage;
}

uint64_t rocksdb_resolution(struct rocksdb_store *store, struct time_range range)
{
	struct partition_list list;
	uint64_t resolution_ns = 0;

	if (rocksdb_list_partitions(store, range, &list) < 0)
		return MINUTE_NS; // out of memory: it may be as long
	for (uint32_t i = 0; i < list.count; i++)
		if (list.partitions[i]->figures.resolution_ns > resolution_ns)
			resolution_ns = list.partitions[i]->figures.resolution_ns;
	partition_list_deinit(&list);
	return resolution_ns;
}

bool rocksdb_next_damage(struct rocksdb_store *store, uint64_t *ret_start_ns,
			 char ret_text[PARTITION_DAMAGE_BYTES])
{
	struct time_range all = { 0, UINT64_MAX };
	struct partition_list list;
	bool found = false;

	if (rocksdb_list_partitions(store, all, &list) < 0)
		return false;
	for (uint32_t i = 0; i < list.count && !found; i++) {
		struct partition *partition = list.partitions[i];

		pthread_mutex_lock(&partition->lock);
		found = partition->damage[0] && !partition->damage_logged;
		partition->damage_logged = partition->damage_logged || found;
		*ret_start_ns = partition->start_ns;
		memcpy(ret_text, partition->damage, PARTITION_DAMAGE_BYTES);
		pthread_mutex_unlock(&partition->lock);
	}
	partition_list_deinit(&list);
	return found;
}

static const struct store_clock system_clock = { clock_realtime_ns, clock_monotonic_ns };

static struct rocksdb_store *store_new(const struct store_options *options)
{
	struct rocksdb_store *store = calloc(1, sizeof(*store));

	if (!store)
		return NULL;
	store->retention_ns = options->retention_ns;
	store->partition_ns =
		options->partition_ns ? options->partition_ns : STORE_PARTITION_NS_DEFAULT;
	store->memory_bytes =
		options->memory_bytes ? options->memory_bytes : STORE_MEMORY_BYTES_DEFAULT;
	store->clock = options->clock ? options->clock : &system_clock;
	store->seconds_after_ns = options->seconds_after_ns;
	store->minutes_after_ns = options->minutes_after_ns;
	store->close_rows_max = options->close_rows_max ? options->close_rows_max : CLOSE_ROWS_MAX;
	store->alone_rows = options->alone_rows ? options->alone_rows : ALONE_ROWS_DEFAULT;
	store->run_rows_max =
		store->close_rows_max < RUN_ROWS_MAX ? store->close_rows_max : RUN_ROWS_MAX;
	pthread_mutex_init(&store->partitions_lock, NULL);
	pthread_mutex_init(&store->resolve_lock, NULL);
	pthread_mutex_init(&store->commit_lock, NULL);
	pthread_mutex_init(&store->maintain_lock, NULL);
	pthread_mutex_init(&store->clock_lock, NULL);
	pthread_cond_init(&store->commit_done, NULL);
	return store;
}

static int check_options(const struct store_options *options, struct error *err)
{
	enum { PARTITION_MINUTES_MAX = 7 * 24 * 60, MEMORY_MIN = 32 << 20 };

	if (options->partition_ns % MINUTE_NS ||
	    options->partition_ns > PARTITION_MINUTES_MAX * MINUTE_NS)
		return error_set(err, -EINVAL, "partition: must be whole minutes, at most a week");
	if (options->memory_bytes && options->memory_bytes < MEMORY_MIN)
		return error_set(err, -EINVAL, "memory: must be 32 MiB or more");
	return 0;
}

int rocksdb_core_open(const struct store_options *options, enum db_mode mode,
		      struct rocksdb_store **ret_store, struct error *err)
{
	int rc = check_options(options, err);
	if (rc < 0)
		return rc;
	struct rocksdb_store *store = store_new(options);
	if (!store)
		return error_set(err, -ENOMEM, "store: out of memory");

	rc = db_open(options->path, store->memory_bytes, mode, &store->db, err);
	if (rc == 0)
		rc = open_format(store, options, mode, err);
	if (rc == 0)
		rc = find_partitions(store, err);
	if (rc == 0)
		rc = restore_heads(store, err);
	if (rc == 0)
		rc = restore_agents(store, err);
	if (rc == 0)
		rc = rocksdb_restore_clock(store, options->accept_clock, err);
	if (rc == 0 && (!(store->encoder = chunk_encoder_new()) ||
			!(store->helpers = chunk_helpers_new(options->helpers))))
		rc = error_set(err, -ENOMEM, "store: out of memory");
	if (rc == 0 && store->format >= STORE_FORMAT_SUMS)
		chunk_encoder_write_sums(store->encoder);
	if (rc < 0) {
		rocksdb_core_close(store);
		return rc;
	}
	*ret_store = store;
	return 0;
}
