// SPDX-License-Identifier: Apache-2.0
// Group commit: batches that wait at the same time share one write and one sync. A thread that finds
// no writer becomes the leader: it writes all waiting batches and wakes their threads. There is one
// leader at a time, so a write contains each dictionary entry that its rows refer to.
#include "collector/store/rocksdb/rocksdb_store.h"

#include <assert.h>
#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "collector/store/rocksdb/key.h"
#include "collector/store/rocksdb/partition_presence.h"

/** A partition in the write, and how much of its dictionaries the write saves. */
struct touched {
	struct partition *partition;
	struct forest_mark forest;
	uint32_t series;
};

enum {
	// More batches wait for the next write: this bounds memory, and the time to an acknowledgement.
	GROUP_COMMITS_MAX = 256,
	TOUCHED_MAX = GROUP_COMMITS_MAX * BATCH_PARTITIONS_MAX,
};

struct group {
	struct commit *commits; // oldest first
	struct touched touched[TOUCHED_MAX];
	uint32_t touched_count;
	uint64_t sequence;
	uint64_t now_ns;
};

static void put_agent(struct db_batch *batch, const struct store_batch_id *id, uint64_t seen_ns)
{
	struct key key = key_of_agent(id);
	_cleanup_(buffer_deinit) struct buffer value = { 0 };

	buffer_append_varint(&value, id->sequence);
	buffer_append_varint(&value, seen_ns);
	if (!value.rc)
		db_batch_put(batch, DB_META, key_bytes(&key),
			     (struct bytes){ value.bytes, value.size });
}

static void put_sequence(struct db_batch *batch, uint64_t sequence)
{
	struct key key = key_of_meta("sequence"), value = { .size = 0 };

	key_append(&value, sequence, 8);
	db_batch_put(batch, DB_META, key_bytes(&key), key_bytes(&value));
}

static void note_times(struct partition *partition, const struct commit_part *part)
{
	struct partition_summary *summary = &partition->summary;

	if (!summary->oldest_ns || part->oldest_ns < summary->oldest_ns)
		summary->oldest_ns = part->oldest_ns;
	if (part->newest_ns > summary->newest_ns)
		summary->newest_ns = part->newest_ns;
}

static void cancel_parts(struct commit *commit, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct partition *partition = commit->parts[i].partition;

		pthread_mutex_lock(&partition->lock);
		if (!partition->dropped)
			head_cancel(&partition->head, commit->parts[i].run->minute);
		pthread_mutex_unlock(&partition->lock);
	}
}

/** Reserve room in the heads: nothing may fail once the rows are on disk. */
static int prepare_parts(struct commit *commit)
{
	for (uint32_t i = 0; i < commit->part_count; i++) {
		struct commit_part *part = &commit->parts[i];
		struct partition *partition = part->partition;
		int rc = 0;

		pthread_mutex_lock(&partition->lock);
		if (!partition->dropped) {
			rc = head_prepare(&partition->head, part->run->minute);
			note_times(partition, part);
		}
		pthread_mutex_unlock(&partition->lock);
		if (rc < 0) {
			cancel_parts(commit, i);
			return error_set(&commit->err, rc, "store: out of memory");
		}
	}
	return 0;
}

static void put_part(struct rocksdb_store *store, struct group *group, struct db_batch *batch,
		     struct commit_part *part)
{
	struct partition *partition = part->partition;
	struct raw_run *run = part->run;

	if (partition->dropped) { // by retention, which does not run during a commit
		store->counters.rows_late += run->rows.row_count;
		return;
	}
	run->sequence = ++group->sequence;
	struct key key = key_of_raw(partition->start_ns, run->minute, run->sequence);
	db_batch_put(batch, DB_RAW, key_bytes(&key), (struct bytes){ run->bytes, run->size });
	for (uint32_t i = 0; i < group->touched_count; i++)
		if (group->touched[i].partition == partition)
			return;
	group->touched[group->touched_count++] = (struct touched){ .partition = partition };
}

/** Does the group have an equal or later batch of the agent before @commit? */
static bool is_repeated(const struct group *group, const struct commit *commit)
{
	for (const struct commit *other = group->commits; other != commit; other = other->next)
		if (other->rc == 0 && !other->duplicate &&
		    id128_equal(other->batch->identity, commit->batch->identity) &&
		    id128_equal(other->batch->agent, commit->batch->agent) &&
		    id128_equal(other->batch->boot, commit->batch->boot) &&
		    other->batch->sequence >= commit->batch->sequence)
			return true;
	return false;
}

/** A leap of the sequence would make each batch after it a duplicate. */
static int check_sequence(uint64_t last, struct commit *commit)
{
	uint64_t sequence = commit->batch->sequence;

	if (!last || sequence <= last + SEQUENCE_JUMP_MAX)
		return 0;
	return error_set(&commit->err, -EINVAL,
			 "sequence: %llu is more than %d above the last one, %llu",
			 (unsigned long long)sequence, SEQUENCE_JUMP_MAX, (unsigned long long)last);
}

/** Is the batch new? Reserves the agent's entry then; otherwise sets rc or duplicate. */
static bool check_agent(struct rocksdb_store *store, struct group *group, struct db_batch *batch,
			struct commit *commit)
{
	pthread_mutex_lock(&store->commit_lock);
	uint64_t last = agent_table_find(&store->agents, commit->batch);
	commit->duplicate = last >= commit->batch->sequence || is_repeated(group, commit);
	if (!commit->duplicate)
		commit->rc = check_sequence(last, commit);
	if (!commit->duplicate && commit->rc == 0) {
		commit->rc = agent_table_reserve(&store->agents, commit->batch, group->now_ns,
						 batch, rocksdb_delete_agent);
		if (commit->rc < 0)
			error_set(&commit->err, commit->rc, "store: out of memory for an agent");
	}
	pthread_mutex_unlock(&store->commit_lock);
	return commit->rc == 0 && !commit->duplicate;
}

static void put_commit(struct rocksdb_store *store, struct group *group, struct db_batch *batch,
		       struct commit *commit)
{
	if (!check_agent(store, group, batch, commit))
		return;
	commit->rc = prepare_parts(commit);
	if (commit->rc < 0)
		return;
	for (uint32_t i = 0; i < commit->part_count; i++)
		put_part(store, group, batch, &commit->parts[i]);
	put_agent(batch, commit->batch, group->now_ns);
}

static int save_touched(struct group *group, struct db_batch *batch, struct error *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < group->touched_count && rc == 0; i++) {
		struct touched *touched = &group->touched[i];
		struct partition *partition = touched->partition;

		pthread_mutex_lock(&partition->lock);
		if (!partition->dropped)
			rc = partition_save(partition, batch, ++group->sequence, err);
		if (partition->forest)
			touched->forest = forest_mark_of(partition->forest);
		touched->series = partition->postings ? partition->postings->series_count : 0;
		pthread_mutex_unlock(&partition->lock);
	}
	return rc;
}

/** The rows are on disk: make them visible to queries. */
static void publish_commit(struct rocksdb_store *store, struct commit *commit)
{
	uint64_t rows = 0;

	for (uint32_t i = 0; i < commit->part_count; i++) {
		struct partition *partition = commit->parts[i].partition;
		struct raw_run *run = commit->parts[i].run;

		pthread_mutex_lock(&partition->lock);
		if (!partition->dropped) {
			head_add(&partition->head, run);
			partition_note_presence(partition, run);
			partition_publish(partition);
			rows += run->rows.row_count;
		}
		pthread_mutex_unlock(&partition->lock);
	}
	store->counters.rows_appended += rows;
	store->counters.batches_appended++;
}

static void finish_group(struct rocksdb_store *store, struct group *group)
{
	for (uint32_t i = 0; i < group->touched_count; i++) {
		struct touched *touched = &group->touched[i];

		pthread_mutex_lock(&touched->partition->lock);
		partition_saved(touched->partition, &touched->forest, touched->series);
		pthread_mutex_unlock(&touched->partition->lock);
	}
	for (struct commit *commit = group->commits; commit; commit = commit->next) {
		if (commit->rc < 0 || commit->duplicate)
			continue;
		publish_commit(store, commit);
		pthread_mutex_lock(&store->commit_lock);
		agent_table_set(&store->agents, commit->batch);
		pthread_mutex_unlock(&store->commit_lock);
	}
}

static void fail_group(struct group *group, int rc, const struct error *err)
{
	for (struct commit *commit = group->commits; commit; commit = commit->next) {
		if (commit->rc < 0 || commit->duplicate)
			continue;
		cancel_parts(commit, commit->part_count);
		commit->rc = rc;
		commit->err = *err;
	}
}

/** Nothing has been prepared for them. */
static void refuse_for_memory(struct commit *commits)
{
	for (struct commit *commit = commits; commit; commit = commit->next)
		commit->rc = error_set(&commit->err, -ENOMEM, "store: out of memory");
}

static bool has_writes(const struct group *group)
{
	for (const struct commit *commit = group->commits; commit; commit = commit->next)
		if (commit->rc == 0 && !commit->duplicate)
			return true;
	return false;
}

/** Write the commits of @group and set the rc of each. The caller is the leader. */
static void write_group(struct rocksdb_store *store, struct group *group)
{
	_cleanup_(db_batch_freep) struct db_batch *batch = db_batch_new(store->db);
	struct error err = { 0 };

	if (!batch) {
		refuse_for_memory(group->commits);
		return;
	}
	group->now_ns = clock_realtime_ns();
	group->sequence = store->sequence;
	pthread_mutex_lock(&store->commit_lock);
	agent_table_begin(&store->agents);
	pthread_mutex_unlock(&store->commit_lock);
	for (struct commit *commit = group->commits; commit; commit = commit->next)
		put_commit(store, group, batch, commit);
	if (!has_writes(group))
		return;
	int rc = save_touched(group, batch, &err);
	if (rc == 0) {
		put_sequence(batch, group->sequence);
		rc = db_write(store->db, batch, true, &err);
	}
	if (rc < 0) {
		fail_group(group, rc, &err);
		return;
	}
	store->sequence = group->sequence;
	finish_group(store, group);
}

/** Remove the oldest waiting commits, at most GROUP_COMMITS_MAX. commit_lock is held. */
static struct commit *take_waiting(struct rocksdb_store *store)
{
	struct commit *oldest = NULL, **from = &store->waiting;
	uint32_t count = 0;

	for (struct commit *commit = store->waiting; commit; commit = commit->next)
		count++;
	for (; count > GROUP_COMMITS_MAX; count--)
		from = &(*from)->next;
	for (struct commit *commit = take(*from), *next; commit; commit = next) {
		next = commit->next;
		commit->next = oldest;
		oldest = commit;
	}
	return oldest;
}

/** Write the waiting commits. Releases commit_lock while it writes. */
static void lead(struct rocksdb_store *store)
{
	struct group *group = malloc(sizeof(*group));
	struct commit *commits = take_waiting(store), *next;

	store->commit_busy = true;
	pthread_mutex_unlock(&store->commit_lock);
	if (group) {
		group->commits = commits;
		group->touched_count = 0;
		write_group(store, group);
	} else {
		refuse_for_memory(commits);
	}
	free(group);
	pthread_mutex_lock(&store->commit_lock);
	store->commit_busy = false;
	for (struct commit *commit = commits; commit; commit = next) {
		next = commit->next; // once done, its owner may free it
		commit->done = true;
	}
	pthread_cond_broadcast(&store->commit_done);
}

int rocksdb_commit(struct rocksdb_store *store, struct commit *commit)
{
	pthread_mutex_lock(&store->commit_lock);
	commit->next = store->waiting;
	store->waiting = commit;
	while (!commit->done) {
		if (store->commit_busy)
			pthread_cond_wait(&store->commit_done, &store->commit_lock);
		else
			lead(store);
	}
	pthread_mutex_unlock(&store->commit_lock);
	return commit->rc;
}

void rocksdb_commit_stop(struct rocksdb_store *store)
{
	pthread_mutex_lock(&store->commit_lock);
	while (store->commit_busy)
		pthread_cond_wait(&store->commit_done, &store->commit_lock);
	store->commit_busy = true;
	pthread_mutex_unlock(&store->commit_lock);
}

void rocksdb_commit_resume(struct rocksdb_store *store)
{
	pthread_mutex_lock(&store->commit_lock);
	store->commit_busy = false;
	pthread_cond_broadcast(&store->commit_done);
	pthread_mutex_unlock(&store->commit_lock);
}
