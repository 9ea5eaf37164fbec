// SPDX-License-Identifier: Apache-2.0
// Keeps a store open, whatever its disk does. A failed write freezes the files (rocksdb_files.h): the
// keeper closes the store and opens it again, which recovers what was acknowledged as after a crash.
// While the disk cannot be written, the store is open for queries only, and batches are refused: agents
// keep theirs. On a disk that runs full, batches are refused early, and the oldest profiles go.
#include "collector/store/rocksdb/rocksdb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/utc_text.h"
#include "collector/store/disk_room.h"
#include "collector/store/rocksdb/rocksdb_store.h"

#define RETRY_NS_MIN NS_PER_SECOND
#define RETRY_NS_MAX (60 * NS_PER_SECOND) // a repaired disk is noticed within a minute

enum {
	REPAIR_MEMORY_BYTES = 64 << 20,
	CLOSE_WAIT_S = 2, // for running queries, before the store is closed; then the next try
};

/** Why batches are refused. */
enum refusal {
	REFUSAL_NONE,
	REFUSAL_ROOM,  // the disk is nearly full
	REFUSAL_WRITE, // a write failed, or the store is open for queries only
};

struct keeper {
	struct store base;
	struct store_options options;
	char *path;

	pthread_rwlock_t lock;       // shared: the store is used; exclusive: it is replaced
	struct rocksdb_store *store; // NULL: not even queries are possible
	enum db_mode mode;
	uint64_t opening; // counts the times it was opened: a selection is valid within one

	pthread_mutex_t health_lock; // guards the fields below
	enum refusal refusal;
	struct error cause;

	pthread_mutex_t maintain_lock;    // guards the fields below
	uint64_t retry_ns, retry_wait_ns; // monotonic: not opened again before
	uint64_t damaged_deleted_ns;      // start of the last partition dropped as damaged
	bool needs_repair, is_damaged;
	struct store_counters counters; // of stores that were closed

	atomic_ullong batches_refused, partitions_dropped, write_failures, repairs;
	atomic_ullong partitions_damaged_deleted, damaged_openings;
};

static struct keeper *keeper_of(struct store *base)
{
	return (struct keeper *)base;
}

// ---- whether batches are taken ------------------------------------------------------------------------

static void refuse(struct keeper *keeper, enum refusal refusal, const struct error *cause)
{
	pthread_mutex_lock(&keeper->health_lock);
	bool is_new = keeper->refusal != refusal;
	keeper->refusal = refusal;
	keeper->cause = *cause;
	pthread_mutex_unlock(&keeper->health_lock);
	if (is_new)
		log_error("store: not accepting batches: %s; queries still work, agents spool "
			  "their batches",
			  cause->text);
}

static void accept_batches(struct keeper *keeper)
{
	pthread_mutex_lock(&keeper->health_lock);
	bool is_new = keeper->refusal != REFUSAL_NONE;
	keeper->refusal = REFUSAL_NONE;
	pthread_mutex_unlock(&keeper->health_lock);
	if (is_new)
		log_info("store: accepting batches again");
}

static enum refusal read_refusal(struct keeper *keeper, struct error *err)
{
	pthread_mutex_lock(&keeper->health_lock);
	enum refusal refusal = keeper->refusal;
	if (refusal && err)
		*err = keeper->cause;
	pthread_mutex_unlock(&keeper->health_lock);
	return refusal;
}

/** The room at this moment: between two runs of maintenance a disk may fill. */
static int check_room(struct keeper *keeper, struct error *err)
{
	struct disk_room room;

	if (!keeper->options.disk_free_bytes ||
	    disk_room_read(keeper->path, keeper->options.disk_free_bytes, &room, NULL) < 0 ||
	    room.free_bytes >= room.refuse_bytes)
		return 0;
	return error_set(
		err, -ENOSPC,
		"store %s: the disk is nearly full (%llu MiB free, below %llu MiB batches are "
		"refused); free space, or lower --retention-size or --disk-free",
		keeper->path, (unsigned long long)room.free_bytes >> 20,
		(unsigned long long)room.refuse_bytes >> 20);
}

static int refuse_batch(struct keeper *keeper, const struct error *cause, struct error *err)
{
	keeper->batches_refused++;
	return error_set(err, cause->code, "%s", cause->text);
}

/** 0, or the reason why no batch is taken now. */
static int check_acceptance(struct keeper *keeper, struct error *err)
{
	struct error cause = { 0 };

	if (read_refusal(keeper, &cause))
		return refuse_batch(keeper, &cause, err);
	if (check_room(keeper, &cause)) {
		refuse(keeper, REFUSAL_ROOM, &cause);
		return refuse_batch(keeper, &cause, err);
	}
	return 0;
}

// ---- the calls -----------------------------------------------------------------------------------------

/** The store, to be released by release(); NULL and @err if there is none. */
static struct rocksdb_store *borrow(struct keeper *keeper, struct error *err)
{
	pthread_rwlock_rdlock(&keeper->lock);
	if (keeper->store)
		return keeper->store;
	pthread_rwlock_unlock(&keeper->lock);
	if (read_refusal(keeper, err) == REFUSAL_NONE)
		error_set(err, -EIO, "store %s: it could not be opened again", keeper->path);
	return NULL;
}

static void release(struct keeper *keeper)
{
	pthread_rwlock_unlock(&keeper->lock);
}

static int keeper_append(struct store *base, const struct store_batch_id *batch,
			 const struct profile *profile, struct store_append_result *ret_result,
			 struct error *err)
{
	struct keeper *keeper = keeper_of(base);
	struct rocksdb_store *store = borrow(keeper, err);
	struct error cause = { 0 };
	int rc = store ? check_acceptance(keeper, err) : -EIO;

	if (!store)
		return rc;
	if (rc == 0) {
		rc = rocksdb_append(store, batch, profile, ret_result, err);
		if (rc < 0 && db_failed(store->db, &cause))
			refuse(keeper, REFUSAL_WRITE, &cause);
	}
	release(keeper);
	return rc;
}

static int keeper_select(struct store *base, const struct selector *selector, const char *type,
			 struct time_range range, struct store_selection **ret_selection,
			 struct error *err)
{
	struct keeper *keeper = keeper_of(base);
	struct rocksdb_store *store = borrow(keeper, err);
	int rc;

	if (!store)
		return -EIO;
	rc = rocksdb_select(store, selector, type, range, ret_selection, err);
	if (rc == 0) {
		struct rocksdb_selection *selection = (*ret_selection)->private_;

		selection->base.ops = base->ops;
		selection->opening = keeper->opening;
	}
	release(keeper);
	return rc;
}

/** As borrow(), for a selection: its partitions are those of one opening. */
static struct rocksdb_store *borrow_for(struct keeper *keeper,
					const struct store_selection *selection, struct error *err)
{
	struct rocksdb_store *store = borrow(keeper, err);
	const struct rocksdb_selection *selected = selection->private_;

	if (store && selected->opening != keeper->opening) {
		release(keeper);
		error_set(err, -EIO, "store %s: it was opened again during the query; repeat it",
			  keeper->path);
		return NULL;
	}
	return store;
}

static int keeper_scan(struct store *base, const struct store_selection *selection,
		       const struct time_range *ranges, uint32_t range_count,
		       const struct store_scanner *scanner, struct error *err)
{
	struct rocksdb_store *store = borrow_for(keeper_of(base), selection, err);

	if (!store)
		return -EIO;
	int rc = rocksdb_scan(store, selection, ranges, range_count, scanner, err);
	release(keeper_of(base));
	return rc;
}

static int keeper_activity(struct store *base, const struct store_selection *selection,
			   struct time_range range, uint64_t slot_ns, const uint32_t *rows,
			   int64_t *counts, struct error *err)
{
	struct rocksdb_store *store = borrow_for(keeper_of(base), selection, err);

	if (!store)
		return -EIO;
	int rc = rocksdb_activity(store, selection, range, slot_ns, rows, counts, err);
	release(keeper_of(base));
	return rc;
}

static int keeper_label_names(struct store *base, const struct selector *selector,
			      struct time_range range, struct name_list *ret_list,
			      struct error *err)
{
	struct rocksdb_store *store = borrow(keeper_of(base), err);

	if (!store)
		return -EIO;
	int rc = rocksdb_label_names(store, selector, range, ret_list, err);
	release(keeper_of(base));
	return rc;
}

static int keeper_label_values(struct store *base, const char *name,
			       const struct selector *selector, struct time_range range,
			       struct name_list *ret_list, struct error *err)
{
	struct rocksdb_store *store = borrow(keeper_of(base), err);

	if (!store)
		return -EIO;
	int rc = rocksdb_label_values(store, name, selector, range, ret_list, err);
	release(keeper_of(base));
	return rc;
}

static int keeper_flush(struct store *base, struct error *err)
{
	struct rocksdb_store *store = borrow(keeper_of(base), err);

	if (!store)
		return -EIO;
	int rc = rocksdb_flush(store, err);
	release(keeper_of(base));
	return rc;
}

static int keeper_delete(struct store *base, const struct selector *selector,
			 struct time_range range, struct store_deletion *ret_deletion,
			 struct error *err)
{
	struct keeper *keeper = keeper_of(base);
	struct rocksdb_store *store = borrow(keeper, err);
	int rc;

	if (!store)
		return -EIO;
	if (keeper->mode == DB_READ_ONLY)
		rc = error_set(err, -EROFS,
			       "nothing can be deleted: the store is open for queries only, see "
			       "/readyz");
	else
		rc = rocksdb_delete(store, selector, range, ret_deletion, err);
	release(keeper);
	return rc;
}

static int keeper_backup(struct store *base, const char *folder, struct error *err)
{
	struct keeper *keeper = keeper_of(base);
	struct rocksdb_store *store = borrow(keeper, err);
	int rc;

	if (!store)
		return -EIO;
	if (keeper->mode == DB_READ_ONLY)
		rc = error_set(err, -EROFS,
			       "backup: the store is open for queries only, see /readyz");
	else
		rc = db_backup(store->db, folder, err);
	release(keeper);
	return rc;
}

/** Does not wait while the store is opened again: probes and metrics ask. */
static void keeper_read_stats(struct store *base, struct store_stats *ret_stats)
{
	struct keeper *keeper = keeper_of(base);
	struct store_stats stats = { 0 };
	struct disk_room room;

	if (pthread_rwlock_tryrdlock(&keeper->lock) == 0) {
		if (keeper->store)
			rocksdb_read_stats(keeper->store, &stats);
		release(keeper);
	}
	stats.batches_refused = keeper->batches_refused;
	stats.partitions_dropped = keeper->partitions_dropped;
	stats.write_failures = keeper->write_failures;
	stats.repairs = keeper->repairs;
	stats.damaged_openings = keeper->damaged_openings;
	stats.partitions_damaged_deleted = keeper->partitions_damaged_deleted;
	if (disk_room_read(keeper->path, 0, &room, NULL) == 0)
		stats.disk_free_bytes = room.free_bytes;
	*ret_stats = stats;
}

static void keeper_read_damage(struct store *base, struct time_range range,
			       struct store_damage *ret_damage)
{
	struct rocksdb_store *store = borrow(keeper_of(base), NULL);

	*ret_damage = (struct store_damage){ 0 };
	if (!store)
		return;
	rocksdb_read_damage(store, range, ret_damage);
	release(keeper_of(base));
}

static uint64_t keeper_resolution(struct store *base, struct time_range range)
{
	struct rocksdb_store *store = borrow(keeper_of(base), NULL);
	uint64_t resolution_ns = store ? rocksdb_resolution(store, range) : 0;

	if (store)
		release(keeper_of(base));
	return resolution_ns;
}

static void keeper_read_health(struct store *base, struct store_health *ret_health)
{
	struct error cause = { 0 };
	enum refusal refusal = read_refusal(keeper_of(base), &cause);
	struct store_health health = { .takes_batches = refusal == REFUSAL_NONE };

	memcpy(health.text, cause.text, sizeof(health.text));
	// Without a wait: while the store is being opened again, its clock says nothing.
	if (pthread_rwlock_tryrdlock(&keeper_of(base)->lock) == 0) {
		if (keeper_of(base)->store)
			rocksdb_read_clock(keeper_of(base)->store, health.clock);
		release(keeper_of(base));
	}
	*ret_health = health;
}

// ---- opening again ---------------------------------------------------------------------------------------

static bool is_disk_failure(int rc)
{
	return rc == -EIO || rc == -ENOSPC || rc == -EROFS;
}

/** Delete the ballast if the disk has less room than it takes. */
static void use_ballast(struct keeper *keeper)
{
	struct disk_room room;

	if (disk_room_read(keeper->path, keeper->options.disk_free_bytes, &room, NULL) < 0 ||
	    room.free_bytes >= room.keep_bytes / DISK_BALLAST_SHARE)
		return;
	uint64_t bytes = disk_ballast_delete(keeper->path);
	if (bytes)
		log_warn("store: deleted its ballast: disk full (%llu MiB free, ballast %llu MiB); "
			 "free space, or lower --retention-size",
			 (unsigned long long)room.free_bytes >> 20,
			 (unsigned long long)bytes >> 20);
}

/** Make the files that can be read a store again. */
static int repair(struct keeper *keeper, struct error *err)
{
	log_warn("store: repairing its files; unreadable files move to %s/lost", keeper->path);
	keeper->repairs++;
	keeper->needs_repair = false;
	return db_repair(keeper->path, REPAIR_MEMORY_BYTES, err);
}

static int open_to_write(struct keeper *keeper, struct error *err)
{
	struct error cause = { 0 };

	enum db_mode mode = keeper->is_damaged ? DB_READ_WRITE_DAMAGED : DB_READ_WRITE;

	use_ballast(keeper);
	int rc = rocksdb_core_open(&keeper->options, mode, &keeper->store, &cause);
	if (rc == -EUCLEAN) {
		log_error("store %s: damaged: %s; repairing it", keeper->path, cause.text);
		rc = repair(keeper, &cause);
		if (rc == 0)
			rc = rocksdb_core_open(&keeper->options, DB_READ_WRITE_DAMAGED,
					       &keeper->store, &cause);
	}
	if (rc == 0 && db_damage(keeper->store->db)[0]) {
		keeper->damaged_openings++;
		log_error(
			"store %s: damaged: %s; queries skip the damaged part; stop the collector "
			"and "
			"run --check to list it, or, without stopping, restore a backup elsewhere "
			"and run --check there",
			keeper->path, db_damage(keeper->store->db));
	}
	return rc ? error_set(err, rc == -EUCLEAN ? -EBADMSG : rc, "%s", cause.text) : 0;
}

/** Open the store for writing, or at least for queries. The lock is held exclusively. */
static int open_store(struct keeper *keeper, bool try_to_write, struct error *err)
{
	int rc = -EIO;

	if (try_to_write) {
		rc = open_to_write(keeper, err);
		if (rc == 0)
			keeper->mode = DB_READ_WRITE;
		if (rc < 0 && !is_disk_failure(rc))
			return rc;
	}
	keeper->opening++;
	if (rc < 0 && rocksdb_core_open(&keeper->options, DB_READ_ONLY, &keeper->store, NULL) == 0)
		keeper->mode = DB_READ_ONLY;
	if (keeper->store)
		memcpy(&keeper->store->counters, &keeper->counters, sizeof(keeper->counters));
	return rc;
}

static void close_store(struct keeper *keeper)
{
	if (!keeper->store)
		return;
	memcpy(&keeper->counters, &keeper->store->counters, sizeof(keeper->counters));
	rocksdb_core_close(take(keeper->store));
}

/** Lock exclusively, unless running queries take too long. */
static bool lock_exclusively(struct keeper *keeper)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += CLOSE_WAIT_S;
	return pthread_rwlock_timedwrlock(&keeper->lock, &until) == 0;
}

/** Close the store and open it again, for writing if the disk lets us. Returns 0 if it does. */
static int reopen(struct keeper *keeper, struct error *err)
{
	int probed = 0, rc;

	use_ballast(keeper);
	probed = disk_probe(keeper->path, err);
	if (probed && keeper->store && keeper->mode == DB_READ_ONLY)
		return probed; // it is all that can be had
	if (!lock_exclusively(keeper))
		return error_set(err, -EIO,
				 "store %s: queries use it still; opening it again after them",
				 keeper->path);
	keeper->write_failures += keeper->mode == DB_READ_WRITE && !keeper->needs_repair;
	close_store(keeper);
	if (keeper->needs_repair && probed == 0)
		probed = repair(keeper, err);
	rc = open_store(keeper, probed == 0, probed ? NULL : err);
	pthread_rwlock_unlock(&keeper->lock);
	return probed ? probed : rc;
}

/** Has the store to be opened again? @err: why. */
static bool needs_reopening(struct keeper *keeper, struct error *err)
{
	if (keeper->needs_repair)
		return error_set(err, -EUCLEAN, "store %s: damaged files are in the way of batches",
				 keeper->path) != 0;
	return !keeper->store || keeper->mode == DB_READ_ONLY ||
	       db_failed(keeper->store->db, err) != 0;
}

/** Open the store again when it is time to. maintain_lock is held. */
static int recover(struct keeper *keeper, struct error *err)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct error cause = { 0 };

	if (!needs_reopening(keeper, &cause)) {
		if (now_ns > keeper->retry_ns + RETRY_NS_MAX) // it has been well for so long
			keeper->retry_wait_ns = RETRY_NS_MIN;
		return 0;
	}
	if (cause.code)
		refuse(keeper, REFUSAL_WRITE, &cause);
	keeper->is_damaged = keeper->is_damaged || cause.code == -EBADMSG;
	if (now_ns < keeper->retry_ns)
		return -EAGAIN;
	keeper->retry_ns = now_ns + keeper->retry_wait_ns;
	keeper->retry_wait_ns =
		keeper->retry_wait_ns < RETRY_NS_MAX / 2 ? 2 * keeper->retry_wait_ns : RETRY_NS_MAX;
	if (reopen(keeper, &cause)) {
		refuse(keeper, REFUSAL_WRITE, &cause);
		return error_set(err, cause.code, "%s", cause.text);
	}
	log_info("store: opened again for writing%s",
		 db_damage(keeper->store->db)[0] ? "" : "; no acknowledged batch lost");
	return 0;
}

// ---- room ---------------------------------------------------------------------------------------------------

static void log_drop(const struct keeper *keeper, uint64_t start_ns, const char *which,
		     const char *why)
{
	char text[UTC_TEXT_BYTES];

	utc_text(start_ns / NS_PER_SECOND, text);
	log_warn("store %s: deleted the %s hour of profiles (from %s): %s", keeper->path, which,
		 text, why);
}

/** Damage is found as it is read: log it once for each partition. */
static void log_damage(struct keeper *keeper)
{
	char damage[PARTITION_DAMAGE_BYTES], text[UTC_TEXT_BYTES];
	uint64_t start_ns;

	while (rocksdb_next_damage(keeper->store, &start_ns, damage)) {
		utc_text(start_ns / NS_PER_SECOND, text);
		log_error("store %s: hour from %s damaged: %s; queries skip the damaged profiles; "
			  "to list "
			  "them, stop the collector and run cairn-collector --check, or check a "
			  "restored backup",
			  keeper->path, text, damage);
	}
}

/** Delete the oldest profiles if the store or the disk has too little room. One partition a run. */
static int make_room(struct keeper *keeper, const struct disk_room *room, struct error *err)
{
	uint64_t size_max = keeper->options.size_bytes_max, start_ns;
	bool too_large = size_max && db_stored_bytes(keeper->store->db) > size_max;
	bool too_full = room->free_bytes < room->keep_bytes;
	char why[128];

	if (!too_large && !too_full)
		return 0;
	int rc = rocksdb_drop_oldest(keeper->store, &start_ns, err);
	if (rc == -ENOENT)
		return 0; // what is left is needed for new batches
	if (rc < 0)
		return rc;
	keeper->partitions_dropped++;
	if (too_large)
		snprintf(why, sizeof(why),
			 "the store exceeds --retention-size (%llu MiB); raise it to keep more",
			 (unsigned long long)size_max >> 20);
	else
		snprintf(
			why, sizeof(why),
			"the disk has %llu MiB free, --disk-free keeps %llu MiB; use a larger disk",
			(unsigned long long)room->free_bytes >> 20,
			(unsigned long long)room->keep_bytes >> 20);
	log_drop(keeper, start_ns, "oldest", why);
	return 0;
}

/** Delete a damaged hour that batches need. If that does not help, files need a repair. */
static int delete_unreadable(struct keeper *keeper, struct error *err)
{
	char damage[PARTITION_DAMAGE_BYTES];
	uint64_t start_ns;
	int rc = rocksdb_drop_unreadable(keeper->store, &start_ns, damage, err);

	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	keeper->partitions_damaged_deleted++;
	keeper->needs_repair = start_ns == keeper->damaged_deleted_ns;
	keeper->damaged_deleted_ns = start_ns;
	char why[PARTITION_DAMAGE_BYTES + 32];

	snprintf(why, sizeof(why), "%s; a backup may have it", damage);
	log_drop(keeper, start_ns, "damaged", why);
	return 0;
}

/** Make room, and take or refuse batches by what there is. */
static int keep_room(struct keeper *keeper, struct error *err)
{
	struct error cause = { 0 };
	struct disk_room room;
	int rc = disk_room_read(keeper->path, keeper->options.disk_free_bytes, &room, err);

	if (rc < 0)
		return rc;
	rc = make_room(keeper, &room, err);
	disk_ballast_make(keeper->path, &room);
	// Some distance to the limit, so that it is not crossed with each batch.
	if (check_room(keeper, &cause))
		refuse(keeper, REFUSAL_ROOM, &cause);
	else if (!read_refusal(keeper, NULL) || room.free_bytes >= room.refuse_bytes / 4 * 5)
		accept_batches(keeper);
	return rc;
}

static int maintain(struct keeper *keeper, uint64_t now_ns, struct error *err)
{
	int rc = recover(keeper, err);

	if (rc < 0)
		return rc == -EAGAIN ? 0 : rc;
	log_damage(keeper);
	rc = keep_room(keeper, err);
	if (rc == 0)
		rc = delete_unreadable(keeper, err);
	int maintained = rocksdb_maintain(keeper->store, now_ns, rc ? NULL : err);
	return rc ? rc : maintained;
}

static int keeper_maintain(struct store *base, uint64_t now_ns, struct error *err)
{
	struct keeper *keeper = keeper_of(base);

	pthread_mutex_lock(&keeper->maintain_lock);
	int rc = maintain(keeper, now_ns, err);
	pthread_mutex_unlock(&keeper->maintain_lock);
	return rc;
}

// ---- life ---------------------------------------------------------------------------------------------------

static void keeper_close(struct store *base)
{
	struct keeper *keeper = keeper_of(base);

	rocksdb_core_close(keeper->store);
	pthread_rwlock_destroy(&keeper->lock);
	pthread_mutex_destroy(&keeper->health_lock);
	pthread_mutex_destroy(&keeper->maintain_lock);
	free(keeper->path);
	free(keeper);
}

static const struct store_ops keeper_ops = {
	.close = keeper_close,
	.append = keeper_append,
	.select = keeper_select,
	.selection_free = rocksdb_selection_free,
	.scan = keeper_scan,
	.activity = keeper_activity,
	.label_names = keeper_label_names,
	.label_values = keeper_label_values,
	.delete_series = keeper_delete,
	.maintain = keeper_maintain,
	.flush = keeper_flush,
	.backup = keeper_backup,
	.read_stats = keeper_read_stats,
	.read_damage = keeper_read_damage,
	.resolution = keeper_resolution,
	.read_health = keeper_read_health,
};

static struct keeper *keeper_new(const struct store_options *options)
{
	struct keeper *keeper = calloc(1, sizeof(*keeper));

	if (!keeper || !(keeper->path = strdup(options->path))) {
		free(keeper);
		return NULL;
	}
	keeper->base.ops = &keeper_ops;
	keeper->options = *options;
	keeper->options.path = keeper->path;
	keeper->retry_wait_ns = RETRY_NS_MIN;
	pthread_rwlock_init(&keeper->lock, NULL);
	pthread_mutex_init(&keeper->health_lock, NULL);
	pthread_mutex_init(&keeper->maintain_lock, NULL);
	return keeper;
}

int rocksdb_store_open(const struct store_options *options, struct store **ret_store,
		       struct error *err)
{
	struct keeper *keeper = keeper_new(options);
	struct error cause = { 0 };

	if (!keeper)
		return error_set(err, -ENOMEM, "store: out of memory");
	int rc = open_store(keeper, true, &cause);
	if (!keeper->store) {
		keeper_close(&keeper->base);
		return error_set(err, rc, "%s", cause.text);
	}
	if (rc < 0)
		refuse(keeper, REFUSAL_WRITE, &cause);
	keeper->options.accept_clock = false; // for one start
	*ret_store = &keeper->base;
	return 0;
}

int rocksdb_store_restore(const char *folder, const char *path, struct error *err)
{
	return db_restore(folder, path, err);
}

bool rocksdb_store_is_open(const char *path)
{
	return db_is_open_elsewhere(path);
}
