// SPDX-License-Identifier: Apache-2.0
#include "collector/store/rocksdb/partition_read.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/memory_account.h"
#include "collector/store/rocksdb/partition_load.h"
#include "collector/store/rocksdb/partition_records.h"

enum {
	// A query's load is lost if an append loads first. After so many the query loads like an append.
	READ_ATTEMPTS_MAX = 3,
};

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
	partition_note_unreadable(partition, rc, cause, err);
	pthread_mutex_unlock(&partition->lock);
	return rc;
}

/** With the lock: what a reader begins with. -ENOENT: dropped; as partition_refuse_unreadable() unless it @is_loaded. */
static int begin_read(struct partition *partition, bool is_loaded, struct missing *missing,
		      struct error *err)
{
	partition->used_ns = clock_monotonic_ns();
	missing->generation = partition->generation;
	if (partition->dropped)
		return -ENOENT;
	return partition->unreadable && !is_loaded ? partition_refuse_unreadable(partition, err)
						   : 0;
}

/** A view, if the postings are loaded. -EAGAIN: they are not. */
static int find_postings(struct partition *partition, struct db *db, struct missing *missing,
			 struct postings_view *ret_view, struct error *err)
{
	pthread_mutex_lock(&partition->lock);
	int rc = begin_read(partition, partition->postings, missing, err);
	if (rc == 0 && missing->is_last)
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
		partition_install_postings(partition, take(postings));
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
		rc = partition_decode_postings(partition, db, missing.tombstones, &postings,
					       &cause);
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
	pthread_mutex_lock(&partition->lock);
	int rc = begin_read(partition, partition->view || partition->forest, missing, err);
	if (rc == 0 && missing->is_last && !partition->view)
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
		rc = partition_decode_forest(partition, db, &forest, &cause);
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
