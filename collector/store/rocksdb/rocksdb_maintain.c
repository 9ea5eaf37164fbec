// SPDX-License-Identifier: Apache-2.0
// Maintenance: closes minutes that are due, drops old partitions, goes on with rewriting those of which
// something is deleted, frees memory. One thread at a time
// (maintain_lock); appends and queries run meanwhile.
#include "collector/store/rocksdb/rocksdb_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/array.h"
#include "collector/store/rocksdb/key.h"

#define CLOSE_DELAY_NS \
	(90 * NS_PER_SECOND) // after a minute's end: agents send every 5 s, and retry
#define LATE_ROWS_DELAY_NS \
	(15 * NS_PER_SECOND)       // rows of a closed minute are collected for this long
#define NEVER_NS        UINT64_MAX // the minute's rows are damaged: they are read, but not closed
#define AGENT_EXPIRE_NS (7 * 24 * 3600 * NS_PER_SECOND) // longer than any spool

enum {
	// Of the store's memory, which is half of --memory, open minutes may use 1/4. A minute above half of that is closed early.
	HEAD_MEMORY_SHARE = 4,
	PARTITION_MEMORY_SHARE = 2, // dictionaries and open minutes
};

// ---- minutes that are due --------------------------------------------------------------------------

struct minute_list {
	uint32_t *numbers;
	uint32_t count, capacity;
};

static bool is_due(const struct partition *partition, struct minute *minute, uint64_t now_ns)
{
	uint64_t end_ns = partition->start_ns + (minute->number + 1ULL) * MINUTE_NS;

	if (!minute->due_ns)
		minute->due_ns = end_ns + CLOSE_DELAY_NS > now_ns ? end_ns + CLOSE_DELAY_NS
								  : now_ns + LATE_ROWS_DELAY_NS;
	return minute->due_ns <= now_ns;
}

static int list_due(struct partition *partition, uint64_t now_ns, uint64_t minute_bytes_max,
		    struct minute_list *list)
{
	int rc = 0;

	pthread_mutex_lock(&partition->lock);
	for (uint32_t i = 0; i < partition->head.count && rc == 0; i++) {
		struct minute *minute = &partition->head.minutes[i];

		if (!minute->runs.count || minute->due_ns == NEVER_NS ||
		    (!is_due(partition, minute, now_ns) && minute->bytes <= minute_bytes_max))
			continue;
		rc = array_reserve(&list->numbers, sizeof(*list->numbers), &list->capacity,
				   list->count, 1, UINT16_MAX + 1);
		if (rc == 0)
			list->numbers[list->count++] = minute->number;
	}
	pthread_mutex_unlock(&partition->lock);
	return rc;
}

/** Late batches leave many small open minutes, which may be too much together. */
static uint64_t head_bytes(struct partition_list *list)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < list->count; i++) {
		pthread_mutex_lock(&list->partitions[i]->lock);
		bytes += list->partitions[i]->head.bytes;
		pthread_mutex_unlock(&list->partitions[i]->lock);
	}
	return bytes;
}

/** What cannot be closed because it is damaged stays as it is. */
static void give_up_minute(struct partition *partition, uint32_t number, const struct error *cause)
{
	pthread_mutex_lock(&partition->lock);
	partition_note_damage(partition, cause->text);
	for (uint32_t i = 0; i < partition->head.count; i++)
		if (partition->head.minutes[i].number == number)
			partition->head.minutes[i].due_ns = NEVER_NS;
	pthread_mutex_unlock(&partition->lock);
}

static int close_due(struct rocksdb_store *store, struct partition *partition, uint64_t now_ns,
		     uint64_t minute_bytes_max, struct error *err)
{
	struct minute_list list = { 0 };
	int rc = list_due(partition, now_ns, minute_bytes_max, &list);

	if (rc < 0)
		error_set(err, rc, "store: out of memory");
	// A minute that cannot be closed must not keep the others open.
	for (uint32_t i = 0; i < list.count; i++) {
		struct error cause = { 0 };
		int failed = rocksdb_close_minute(store, partition, list.numbers[i], &cause);

		if (failed == -EBADMSG && !db_failed(store->db, NULL))
			give_up_minute(partition, list.numbers[i], &cause);
		else if (failed && rc == 0)
			rc = error_set(err, failed, "%s", cause.text);
	}
	free(list.numbers);
	return rc;
}

static int close_all_due(struct rocksdb_store *store, struct partition_list *list, uint64_t now_ns,
			 struct error *err)
{
	uint64_t head_max = store->memory_bytes / HEAD_MEMORY_SHARE;
	uint64_t minute_bytes_max = head_bytes(list) > head_max ? 0 : head_max / 2;
	int rc = 0;

	for (uint32_t i = 0; i < list->count; i++) {
		int failed = close_due(store, list->partitions[i], now_ns, minute_bytes_max,
				       rc ? NULL : err);

		rc = rc ? rc : failed;
	}
	return rc;
}

// ---- retention and memory -----------------------------------------------------------------------------

static int drop_keys(struct rocksdb_store *store, const struct partition *partition,
		     struct error *err)
{
	static const enum db_family families[] = { DB_RAW, DB_DICTIONARY, DB_CHUNK };
	struct key from = key_of_partition(partition->start_ns);
	struct key to = key_of_partition(partition->start_ns + 1);
	_cleanup_(db_batch_freep) struct db_batch *batch = db_batch_new(store->db);

	if (!batch)
		return error_set(err, -ENOMEM, "store: out of memory");
	for (size_t i = 0; i < ARRAY_SIZE(families); i++)
		db_batch_delete_range(batch, families[i], key_bytes(&from), key_bytes(&to));
	int rc = db_write(store->db, batch, true, err);
	for (size_t i = 0; i < ARRAY_SIZE(families) && rc == 0; i++)
		rc = db_drop_files(store->db, families[i], key_bytes(&from), key_bytes(&to), err);
	return rc;
}

/**
 * Stops commits, which could write into the range that is being deleted. The partition is invisible at
 * once, and listed until its keys are deleted: if that fails, retention tries again.
 */
static int drop_partition(struct rocksdb_store *store, struct partition *partition,
			  struct error *err)
{
	rocksdb_commit_stop(store);
	pthread_mutex_lock(&partition->lock);
	partition->dropped = true;
	head_deinit(&partition->head);
	pthread_mutex_unlock(&partition->lock);
	int rc = drop_keys(store, partition, err);
	if (rc == 0)
		rocksdb_remove_partition(store, partition);
	rocksdb_commit_resume(store);
	return rc;
}

/** May retention drop another partition in this hour? One is always allowed, however long. */
static bool may_drop(struct rocksdb_store *store, uint64_t monotonic_ns)
{
	if (ns_between(store->hour_begun_ns, monotonic_ns) >= 3600 * NS_PER_SECOND ||
	    !store->hour_begun_ns) {
		store->hour_begun_ns = monotonic_ns;
		store->hour_dropped_ns = 0;
	}
	if (store->hour_dropped_ns &&
	    store->hour_dropped_ns + store->partition_ns > RETENTION_NS_PER_HOUR) {
		store->counters.retention_put_off++;
		return false;
	}
	store->hour_dropped_ns += store->partition_ns;
	return true;
}

/** Drop what is older than the retention by a clock that is not in doubt. */
static int drop_old(struct rocksdb_store *store, struct partition_list *list,
		    const struct clock_reading *now, struct error *err)
{
	int rc = 0;

	if (!store->retention_ns || now->realtime_ns < store->retention_ns)
		return 0;
	for (uint32_t i = 0; i < list->count && rc == 0; i++) {
		if (partition_end_ns(list->partitions[i]) > now->realtime_ns - store->retention_ns)
			continue;
		if (!may_drop(store, now->monotonic_ns))
			return 0;
		rc = drop_partition(store, list->partitions[i], err);
	}
	return rc;
}

static bool stops_batches(struct partition *partition, char damage[PARTITION_DAMAGE_BYTES])
{
	pthread_mutex_lock(&partition->lock);
	bool stops = partition->stops_batches && !partition->dropped;
	memcpy(damage, partition->damage, PARTITION_DAMAGE_BYTES);
	pthread_mutex_unlock(&partition->lock);
	return stops;
}

int rocksdb_drop_unreadable(struct rocksdb_store *store, uint64_t *ret_start_ns,
			    char ret_damage[PARTITION_DAMAGE_BYTES], struct error *err)
{
	_cleanup_(partition_list_deinit) struct partition_list list = { 0 };
	struct time_range all = { 0, UINT64_MAX };
	uint32_t i = 0;
	int rc;

	pthread_mutex_lock(&store->maintain_lock);
	rc = rocksdb_list_partitions(store, all, &list);
	if (rc < 0)
		error_set(err, rc, "store: out of memory");
	while (rc == 0 && i < list.count && !stops_batches(list.partitions[i], ret_damage))
		i++;
	if (rc == 0 && i < list.count) {
		*ret_start_ns = list.partitions[i]->start_ns;
		rc = drop_partition(store, list.partitions[i], err);
	} else if (rc == 0) {
		rc = -ENOENT;
	}
	pthread_mutex_unlock(&store->maintain_lock);
	return rc;
}

void rocksdb_compact_partition(struct rocksdb_store *store, const struct partition *partition)
{
	static const enum db_family families[] = { DB_RAW, DB_DICTIONARY, DB_CHUNK };
	struct key from = key_of_partition(partition->start_ns);
	struct key to = key_of_partition(partition->start_ns + 1);

	for (size_t i = 0; i < ARRAY_SIZE(families); i++)
		db_compact_range(store->db, families[i], key_bytes(&from), key_bytes(&to));
}

int rocksdb_drop_oldest(struct rocksdb_store *store, uint64_t *ret_start_ns, struct error *err)
{
	_cleanup_(partition_list_deinit) struct partition_list list = { 0 };
	struct time_range all = { 0, UINT64_MAX };
	int rc;

	pthread_mutex_lock(&store->maintain_lock);
	rc = rocksdb_list_partitions(store, all, &list);
	if (rc < 0) {
		error_set(err, rc, "store: out of memory");
	} else if (list.count <= PARTITIONS_KEPT) {
		rc = -ENOENT;
	} else {
		rc = drop_partition(store, list.partitions[0], err);
		// Files of level 0, and those that neighbours share, did not go with the others.
		if (rc == 0)
			rocksdb_compact_partition(store, list.partitions[0]);
		*ret_start_ns = list.partitions[0]->start_ns;
	}
	pthread_mutex_unlock(&store->maintain_lock);
	return rc;
}

void rocksdb_delete_agent(void *context, const struct agent_entry *entry)
{
	const struct store_batch_id batch = { .agent = entry->agent,
					      .boot = entry->boot,
					      .identity = entry->identity };
	struct key key = key_of_agent(&batch);

	db_batch_delete(context, DB_META, key_bytes(&key));
}

static int expire_agents(struct rocksdb_store *store, uint64_t now_ns, struct error *err)
{
	_cleanup_(db_batch_freep) struct db_batch *batch = db_batch_new(store->db);
	int rc = 0;

	if (!batch)
		return error_set(err, -ENOMEM, "store: out of memory");
	if (now_ns < AGENT_EXPIRE_NS)
		return 0;
	rocksdb_commit_stop(store);
	pthread_mutex_lock(&store->commit_lock);
	uint32_t before = store->agents.count;
	agent_table_expire(&store->agents, now_ns - AGENT_EXPIRE_NS, batch, rocksdb_delete_agent);
	bool any = store->agents.count < before;
	pthread_mutex_unlock(&store->commit_lock);
	if (any)
		rc = db_write(store->db, batch, false, err);
	rocksdb_commit_resume(store);
	return rc;
}

static int by_use(const void *a, const void *b)
{
	const struct partition *const *left = a, *const *right = b;

	return ((*left)->used_ns > (*right)->used_ns) - ((*left)->used_ns < (*right)->used_ns);
}

/** Evict the dictionaries of the least recently used partitions until the rest fits. */
static void limit_memory(struct rocksdb_store *store, struct partition_list *list)
{
	uint64_t bytes = 0, bytes_max = store->memory_bytes / PARTITION_MEMORY_SHARE;

	for (uint32_t i = 0; i < list->count; i++) {
		pthread_mutex_lock(&list->partitions[i]->lock);
		bytes += partition_memory(list->partitions[i]);
		pthread_mutex_unlock(&list->partitions[i]->lock);
	}
	if (bytes <= bytes_max)
		return;
	qsort(list->partitions, list->count, sizeof(struct partition *), by_use);
	for (uint32_t i = 0; i < list->count && bytes > bytes_max; i++) {
		struct partition *partition = list->partitions[i];

		pthread_mutex_lock(&partition->lock);
		bytes -= partition_memory(partition);
		partition_evict(partition);
		bytes += partition_memory(partition);
		pthread_mutex_unlock(&partition->lock);
	}
}

// ---- the calls ----------------------------------------------------------------------------------------

static int maintain(struct rocksdb_store *store, uint64_t now_ns, struct error *err)
{
	_cleanup_(partition_list_deinit) struct partition_list list = { 0 };
	struct time_range all = { 0, UINT64_MAX };
	const struct clock_reading now = { now_ns, store->clock->monotonic_ns() };
	bool clock_is_trusted = rocksdb_check_clock(store, &now) == CLOCK_TRUSTED;
	int rc = rocksdb_list_partitions(store, all, &list);

	if (rc < 0)
		return error_set(err, rc, "store: out of memory");
	for (uint32_t i = 0; i < list.count; i++) // left by refused batches
		rocksdb_remove_empty_partition(store, list.partitions[i]);
	if (clock_is_trusted)
		rc = drop_old(store, &list, &now, err);
	if (rc == 0)
		rc = close_all_due(store, &list, now_ns, err);
	if (rc == 0)
		rc = rocksdb_rewrite(store, &list, err);
	if (rc == 0 && clock_is_trusted) // by age
		rc = rocksdb_merge(store, &list, now_ns, err);
	if (rc == 0 && clock_is_trusted)
		rc = expire_agents(store, now_ns, err);
	if (rc == 0 && clock_is_trusted)
		rc = rocksdb_save_clock(store, err);
	limit_memory(store, &list);
	return rc;
}

int rocksdb_maintain(struct rocksdb_store *store, uint64_t now_ns, struct error *err)
{
	pthread_mutex_lock(&store->maintain_lock);
	int rc = maintain(store, now_ns, err);
	pthread_mutex_unlock(&store->maintain_lock);
	return rc;
}

int rocksdb_flush(struct rocksdb_store *store, struct error *err)
{
	_cleanup_(partition_list_deinit) struct partition_list list = { 0 };
	struct time_range all = { 0, UINT64_MAX };
	int rc;

	pthread_mutex_lock(&store->maintain_lock);
	rc = rocksdb_list_partitions(store, all, &list);
	if (rc < 0)
		error_set(err, rc, "store: out of memory");
	for (uint32_t i = 0; i < list.count && rc == 0; i++)
		rc = close_due(store, list.partitions[i], UINT64_MAX - LATE_ROWS_DELAY_NS, 0, err);
	if (rc == 0) {
		db_compact(store->db, DB_RAW);
		db_compact(store->db, DB_CHUNK);
	}
	pthread_mutex_unlock(&store->maintain_lock);
	return rc;
}
