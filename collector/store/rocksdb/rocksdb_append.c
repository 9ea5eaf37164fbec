// SPDX-License-Identifier: Apache-2.0
// Turns a batch into runs of rows: assigns its samples to partitions and minutes, its stacks and
// series to numbers of the partition, sorts and encodes the rows, and commits them.
#include "collector/store/rocksdb/rocksdb_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/array.h"
#include "collector/store/rocksdb/partition_load.h"

enum {
	DONORS_MAX = 8, // partitions to search for a stack that the batch does not define
	TARGET_NONE = 0xff,
};

#define NODE_NEEDED (HASH_TABLE_NONE - 1) // not looked up yet

/** A partition with samples of the batch. */
struct target {
	struct partition *partition; // a reference and a pin
	uint64_t start_ns;
	uint32_t sample_count;
	uint32_t *nodes;  // by stack of the profile
	uint32_t *series; // by series of the profile; HASH_TABLE_NONE: dropped at a limit
	uint8_t *levels;  // enum series_level, by series of the profile: whose excess it went to
};

struct append {
	struct rocksdb_store *store;
	const struct profile *profile;
	struct target targets[BATCH_PARTITIONS_MAX];
	uint32_t target_count;
	uint8_t *sample_targets;               // by sample, TARGET_NONE: dropped
	uint64_t late, future, series_dropped; // rows refused, by reason
	uint64_t other;                        // rows that went to series of the excess
	uint64_t tenant;                       // of which the tenant's limit was the reason
	uint32_t tenant_series_max;
	struct time_range accepted;
	struct id128 *unknown;
	uint32_t unknown_count;
	struct commit_part *parts;
	uint32_t part_count, part_capacity;
	struct partition_list donors;
	bool donors_listed;
};

static void append_deinit(struct append *append)
{
	for (uint32_t i = 0; i < append->part_count; i++)
		raw_run_unref(append->parts[i].run);
	for (uint32_t i = 0; i < append->target_count; i++) {
		struct target *target = &append->targets[i];

		rocksdb_unpin_partition(target->partition);
		free(target->nodes);
		free(target->series);
		free(target->levels);
	}
	free(append->parts);
	free(append->sample_targets);
	free(append->unknown);
	partition_list_deinit(&append->donors);
}

// ---- partitions of the samples ---------------------------------------------------------------------

static int find_target(struct append *append, uint64_t time_ns, uint32_t *ret_target,
		       struct error *err)
{
	uint64_t start_ns = time_ns - time_ns % append->store->partition_ns;

	for (uint32_t i = append->target_count; i-- > 0;) {
		if (append->targets[i].start_ns == start_ns) {
			*ret_target = i;
			return 0;
		}
	}
	if (append->target_count == BATCH_PARTITIONS_MAX)
		return error_set(
			err, -EINVAL,
			"samples: their slots lie in more than %d partitions of time; send "
			"one batch for each",
			BATCH_PARTITIONS_MAX);
	append->targets[append->target_count] = (struct target){ .start_ns = start_ns };
	*ret_target = append->target_count++;
	return 0;
}

static struct time_range accepted_range(const struct rocksdb_store *store, uint64_t now_ns)
{
	return (struct time_range){ store->retention_ns ? ns_before(now_ns, store->retention_ns)
							: 0,
				    now_ns + STORE_FUTURE_NS_MAX };
}

static int place_samples(struct append *append, const struct store_batch_id *batch,
			 struct error *err)
{
	const struct profile *profile = append->profile;
	struct clock_reading now = rocksdb_now(append->store);
	bool clock_is_wrong = rocksdb_clock_is_wrong(append->store, batch, profile->to_ns, &now);
	uint32_t target = 0;

	append->accepted = accepted_range(append->store, now.realtime_ns);
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		uint64_t slot = profile->samples[i].slot, time_ns = slot * profile->slot_ns;

		append->sample_targets[i] = TARGET_NONE;
		if (slot > UINT64_MAX / profile->slot_ns || time_ns > append->accepted.to_ns) {
			append->future++;
		} else if (time_ns < append->accepted.from_ns) {
			append->late++;
		} else {
			int rc = find_target(append, time_ns, &target, err);
			if (rc < 0)
				return rc;
			append->targets[target].sample_count++;
			append->sample_targets[i] = (uint8_t)target;
		}
	}
	if (clock_is_wrong && append->late + append->future)
		return error_set(err, -EAGAIN,
				 "store: samples lie outside of the accepted time range, and the "
				 "collector's clock is in doubt; set it, or restart the collector "
				 "with --accept-clock");
	return 0;
}

// ---- numbers of stacks and series ------------------------------------------------------------------

static int by_age(const void *a, const void *b)
{
	const struct partition *const *left = a, *const *right = b;

	return ((*left)->start_ns < (*right)->start_ns) - ((*left)->start_ns > (*right)->start_ns);
}

/** List all partitions, the newest first: donors of stacks that the batch does not define. */
static int list_donors(struct append *append, struct error *err)
{
	struct time_range all = { 0, UINT64_MAX };
	int rc = rocksdb_list_partitions(append->store, all, &append->donors);

	if (rc < 0)
		return error_set(err, rc, "store: out of memory");
	qsort(append->donors.partitions, append->donors.count, sizeof(struct partition *), by_age);
	append->donors_listed = true;
	return 0;
}

/**
 * Copy the stack from another partition. Only the partition before the target is loaded for it: so
 * agents need not define their stacks again each hour, nor after the collector's restart.
 */
static int borrow_stack(struct append *append, struct target *target, struct id128 id,
			uint32_t *ret_node)
{
	uint32_t searched = 0;
	bool is_before = true;

	for (uint32_t i = 0; i < append->donors.count && searched < DONORS_MAX; i++) {
		struct partition *donor = append->donors.partitions[i];
		int rc = -ENOENT;

		if (donor == target->partition)
			continue;
		pthread_mutex_lock(&donor->lock);
		if (donor->start_ns < target->start_ns && is_before && !donor->dropped) {
			is_before = false;
			// Ignore damage in the past: the agent defines its stacks again.
			partition_load_forest(donor, append->store->db, NULL);
		}
		uint32_t node =
			donor->forest ? forest_find_stack(donor->forest, id) : HASH_TABLE_NONE;
		if (node != HASH_TABLE_NONE)
			rc = forest_copy_stack(target->partition->forest, donor->forest, id, node,
					       ret_node);
		searched += donor->forest != NULL;
		pthread_mutex_unlock(&donor->lock);
		if (rc != -ENOENT)
			return rc;
	}
	return -ENOENT;
}

static int add_unknown(struct append *append, struct id128 id)
{
	if (!append->unknown)
		append->unknown = malloc(append->profile->stack_count * sizeof(*append->unknown));
	if (!append->unknown)
		return -ENOMEM;
	for (uint32_t i = 0; append->target_count > 1 && i < append->unknown_count; i++)
		if (id128_equal(append->unknown[i], id))
			return 0; // unknown in two partitions
	append->unknown[append->unknown_count++] = id;
	return 0;
}

static int resolve_stack(struct append *append, struct target *target, uint32_t number,
			 struct error *err)
{
	const struct stack *stack = &append->profile->stacks[number];
	struct forest *forest = target->partition->forest;
	uint32_t *node = &target->nodes[number];
	int rc = 0;

	*node = forest_find_stack(forest, stack->id);
	if (*node != HASH_TABLE_NONE)
		return 0;
	if (stack->defined)
		return forest_add_stack(forest, append->profile, number, node);
	if (forest_is_full(forest)) {
		forest->stacks_dropped++;
		return forest_add_lost(forest, node);
	}
	if (!append->donors_listed)
		rc = list_donors(append, err);
	if (rc == 0)
		rc = borrow_stack(append, target, stack->id, node);
	return rc == -ENOENT ? add_unknown(append, stack->id) : rc;
}

static int resolve_stacks(struct append *append, struct target *target, struct error *err)
{
	struct forest *forest = target->partition->forest;
	uint32_t refused = forest->stacks_dropped;
	int rc = forest_copy_names(forest, append->profile);

	for (uint32_t i = 0; i < append->profile->stack_count && rc == 0; i++)
		if (target->nodes[i] == NODE_NEEDED)
			rc = resolve_stack(append, target, i, err);
	append->store->counters.stacks_dropped += forest->stacks_dropped - refused;
	return rc;
}

static int resolve_series(struct append *append, struct target *target)
{
	const struct profile *profile = append->profile;
	struct postings *postings = target->partition->postings;

	for (uint32_t i = 0; i < profile->series_count; i++) {
		const struct series *series = &profile->series[i];

		if (target->series[i] != NODE_NEEDED)
			continue;
		target->series[i] = postings_find(postings, series->id, profile->slot_ns);
		if (target->series[i] != HASH_TABLE_NONE)
			continue;
		enum series_level level;
		int rc = postings_place(postings, &series->labels,
					profile_string(profile, series->type), profile->slot_ns,
					append->tenant_series_max, &target->series[i], &level);
		target->levels[i] = (uint8_t)level;
		if (rc < 0 && rc != -E2BIG)
			return rc;
	}
	return 0;
}

/** Mark the stacks and series with samples in @target. */
static int mark_needed(struct append *append, struct target *target)
{
	const struct profile *profile = append->profile;
	uint32_t number = (uint32_t)(target - append->targets);

	target->nodes = malloc((profile->stack_count + 1) * sizeof(*target->nodes));
	target->series = malloc((profile->series_count + 1) * sizeof(*target->series));
	target->levels = malloc(profile->series_count + 1);
	if (!target->nodes || !target->series || !target->levels)
		return -ENOMEM;
	memset(target->levels, SERIES_LEVELS, profile->series_count);
	memset(target->nodes, 0xff, profile->stack_count * sizeof(*target->nodes));
	memset(target->series, 0xff, profile->series_count * sizeof(*target->series));
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		if (append->sample_targets[i] != number)
			continue;
		target->nodes[profile->samples[i].stack] = NODE_NEEDED;
		target->series[profile->samples[i].series] = NODE_NEEDED;
	}
	return 0;
}

static int resolve_locked(struct append *append, struct target *target, struct error *err)
{
	struct partition *partition = target->partition;
	struct db *db = append->store->db;
	int rc = partition_load_forest(partition, db, err);

	if (rc == 0)
		rc = partition_load_postings(partition, db, err);
	if (rc == 0)
		rc = resolve_stacks(append, target, err);
	if (rc == 0 && !append->unknown_count)
		rc = resolve_series(append, target);
	return rc == -ENOMEM ? error_set(err, rc, "store: out of memory") : rc;
}

static int resolve_target(struct append *append, struct target *target, struct error *err)
{
	int rc = mark_needed(append, target);

	if (rc < 0)
		return error_set(err, rc, "store: out of memory");
	target->partition = rocksdb_pin_partition(append->store, target->start_ns);
	if (!target->partition)
		return error_set(err, -ENOSPC,
				 "store: no memory for another partition, or the limit of %d is "
				 "reached; shorten --retention",
				 PARTITIONS_MAX);
	pthread_mutex_lock(&append->store->resolve_lock);
	pthread_mutex_lock(&target->partition->lock);
	rc = resolve_locked(append, target, err);
	if (rc == -EBADMSG)
		target->partition->stops_batches = true;
	pthread_mutex_unlock(&target->partition->lock);
	pthread_mutex_unlock(&append->store->resolve_lock);
	return rc;
}

// ---- rows -----------------------------------------------------------------------------------------

/** Minutes are read independently of each other: cut an interval at the end of its minute. */
static uint32_t more_slots_in_minute(const struct sample *sample, uint64_t end_slot)
{
	uint64_t left = end_slot - sample->slot - 1;

	return sample->more_slots < left ? sample->more_slots : (uint32_t)left;
}

/** Sort the rows of @target by minute. @starts: the first row of each minute, and one more. */
static void gather_rows(struct append *append, struct target *target, struct row *rows,
			uint32_t *starts, uint32_t minute_count)
{
	const struct profile *profile = append->profile;
	uint32_t number = (uint32_t)(target - append->targets);

	for (uint32_t i = 0; i < profile->sample_count; i++)
		if (append->sample_targets[i] == number)
			starts[(profile->samples[i].slot * profile->slot_ns - target->start_ns) /
				       MINUTE_NS +
			       1]++;
	for (uint32_t i = 0; i < minute_count; i++)
		starts[i + 1] += starts[i];
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct sample *sample = &profile->samples[i];

		if (append->sample_targets[i] != number)
			continue;
		uint64_t minute = (sample->slot * profile->slot_ns - target->start_ns) / MINUTE_NS;
		uint64_t start_ns = target->start_ns + minute * MINUTE_NS;
		uint64_t first = slot_at(start_ns, profile->slot_ns);
		append->other += target->levels[sample->series] != SERIES_LEVELS;
		append->tenant += target->levels[sample->series] == SERIES_TENANT;
		rows[starts[minute]++] = (struct row){
			.series = target->series[sample->series],
			.slot = (uint32_t)(sample->slot - first),
			.node = target->nodes[sample->stack],
			.more_slots = more_slots_in_minute(
				sample, slot_at(start_ns + MINUTE_NS, profile->slot_ns)),
			.value = sample->value,
		};
	}
}

/** Rows without a series are last: HASH_TABLE_NONE is the largest number. */
static uint32_t drop_rows(struct append *append, const struct row *rows, uint32_t count)
{
	uint32_t kept = count;

	while (kept > 0 && rows[kept - 1].series == HASH_TABLE_NONE)
		kept--;
	append->series_dropped += count - kept;
	return kept;
}

static void note_times(const struct profile *profile, const struct row *rows, uint32_t count,
		       uint64_t first_slot, struct commit_part *part)
{
	uint32_t oldest = UINT32_MAX, newest = 0;

	for (uint32_t i = 0; i < count; i++) {
		oldest = rows[i].slot < oldest ? rows[i].slot : oldest;
		uint32_t last = rows[i].slot + rows[i].more_slots;
		newest = last > newest ? last : newest;
	}
	part->oldest_ns = (first_slot + oldest) * profile->slot_ns;
	part->newest_ns = (first_slot + newest) * profile->slot_ns;
}

static int add_part(struct append *append, struct target *target, uint32_t minute, struct row *rows,
		    uint32_t count)
{
	_cleanup_(buffer_deinit) struct buffer record = { 0 };
	uint64_t slot_ns = append->profile->slot_ns;
	struct commit_part part = { .partition = target->partition };

	note_times(append->profile, rows, count,
		   slot_at(target->start_ns + minute * MINUTE_NS, slot_ns), &part);
	int rc = raw_rows_encode(rows, count, slot_ns, &record);
	if (rc == 0)
		rc = array_reserve(&append->parts, sizeof(part), &append->part_capacity,
				   append->part_count, 1, UINT16_MAX * BATCH_PARTITIONS_MAX);
	if (rc == 0)
		rc = raw_run_new(minute, (struct bytes){ record.bytes, record.size }, &part.run);
	if (rc == 0)
		append->parts[append->part_count++] = part;
	return rc;
}

/** Add a minute's rows, as runs of at most the store's run_rows_max. */
static int add_minute(struct append *append, struct target *target, uint32_t minute,
		      struct row *rows, uint32_t count)
{
	uint32_t run_max = append->store->run_rows_max;
	int rc = rows_sort_by_slot(rows, count);

	count = rc ? 0 : drop_rows(append, rows, count);
	for (uint32_t i = 0; i < count && rc == 0; i += run_max)
		rc = add_part(append, target, minute, rows + i,
			      count - i < run_max ? count - i : run_max);
	return rc;
}

static int encode_target(struct append *append, struct target *target)
{
	uint32_t minute_count = (uint32_t)(append->store->partition_ns / MINUTE_NS), from = 0;
	_cleanup_free_ uint32_t *ends = calloc(minute_count + 2, sizeof(*ends));
	_cleanup_free_ struct row *rows = malloc((size_t)target->sample_count * sizeof(*rows));
	int rc = ends && rows ? 0 : -ENOMEM;

	if (rc == 0)
		gather_rows(append, target, rows, ends, minute_count);
	// gather_rows() has moved each start to the minute's end.
	for (uint32_t minute = 0; minute < minute_count && rc == 0; minute++) {
		if (ends[minute] > from)
			rc = add_minute(append, target, minute, rows + from, ends[minute] - from);
		from = ends[minute];
	}
	return rc;
}

// ---- the batch ------------------------------------------------------------------------------------

static int prepare(struct append *append, const struct store_batch_id *batch, struct error *err)
{
	append->sample_targets = malloc(append->profile->sample_count + 1);
	int rc = append->sample_targets ? place_samples(append, batch, err)
					: error_set(err, -ENOMEM, "store: out of memory");

	for (uint32_t i = 0; i < append->target_count && rc == 0; i++)
		rc = resolve_target(append, &append->targets[i], err);
	for (uint32_t i = 0; i < append->target_count && rc == 0 && !append->unknown_count; i++) {
		rc = encode_target(append, &append->targets[i]);
		if (rc < 0)
			error_set(err, rc, "store: out of memory");
	}
	return rc;
}

static int commit_batch(struct append *append, const struct store_batch_id *batch,
			struct store_append_result *ret_result, struct error *err)
{
	struct rocksdb_store *store = append->store;
	struct commit commit = { .batch = batch,
				 .parts = append->parts,
				 .part_count = append->part_count };
	// Not one row is accepted: nothing is recorded that would make the batch a duplicate.
	bool is_refused = append->profile->sample_count && !append->part_count;
	int rc = is_refused ? 0 : rocksdb_commit(store, &commit);

	if (rc < 0)
		return error_set(err, rc, "%s", commit.err.text);
	ret_result->duplicate = commit.duplicate;
	if (commit.duplicate) {
		store->counters.batches_duplicate++;
	} else {
		store->counters.rows_late += append->late;
		store->counters.rows_future += append->future;
		store->counters.rows_series += append->series_dropped;
		ret_result->rows_late = append->late;
		ret_result->rows_future = append->future;
		store->counters.rows_other += append->other;
		ret_result->rows_series = append->series_dropped;
		ret_result->rows_other = append->other;
		ret_result->rows_tenant = append->tenant;
		ret_result->accepted = append->accepted;
	}
	return 0;
}

static bool is_duplicate(struct rocksdb_store *store, const struct store_batch_id *batch)
{
	pthread_mutex_lock(&store->commit_lock);
	bool is_stored = agent_table_find(&store->agents, batch) >= batch->sequence;
	pthread_mutex_unlock(&store->commit_lock);
	if (is_stored)
		store->counters.batches_duplicate++;
	return is_stored;
}

int rocksdb_append(struct rocksdb_store *store, const struct store_batch_id *batch,
		   const struct profile *profile, struct store_append_result *ret_result,
		   struct error *err)
{
	struct store_append_result result = { 0 };
	_cleanup_(append_deinit) struct append append = {
		.store = store, .profile = profile, .tenant_series_max = batch->tenant_series_max
	};
	int rc = 0;

	result.duplicate = is_duplicate(store, batch); // a shortcut; the commit decides
	if (!result.duplicate) {
		rc = prepare(&append, batch, err);
		if (rc == 0 && append.unknown_count) {
			result.unknown_stack_count = append.unknown_count;
			result.unknown_stacks = take(append.unknown);
		} else if (rc == 0) {
			rc = commit_batch(&append, batch, &result, err);
		}
	}
	if (rc == 0)
		*ret_result = result;
	return rc;
}
