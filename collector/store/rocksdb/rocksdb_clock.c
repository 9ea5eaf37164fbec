// SPDX-License-Identifier: Apache-2.0
// Judges the collector's clock by collector/store/clock_guard.h, and keeps its mark on disk.
#include "collector/store/rocksdb/rocksdb_store.h"

#include <errno.h>

#include "base/cleanup.h"

#define MARK_SAVE_NS (60 * NS_PER_SECOND) // how far the mark on disk may lie behind

static const char mark_name[] = "clock_mark";

enum clock_doubt rocksdb_check_clock(struct rocksdb_store *store, const struct clock_reading *now)
{
	pthread_mutex_lock(&store->clock_lock);
	enum clock_doubt doubt = clock_guard_check(&store->clock_guard, now);
	pthread_mutex_unlock(&store->clock_lock);
	return doubt;
}

bool rocksdb_clock_is_wrong(struct rocksdb_store *store, const struct store_batch_id *batch,
			    uint64_t to_ns, const struct clock_reading *now)
{
	pthread_mutex_lock(&store->clock_lock);
	if (to_ns)
		clock_guard_vote(&store->clock_guard, batch->clock, to_ns, now);
	clock_guard_check(&store->clock_guard, now);
	bool is_wrong = clock_guard_is_wrong(&store->clock_guard);
	pthread_mutex_unlock(&store->clock_lock);
	return is_wrong;
}

int rocksdb_restore_clock(struct rocksdb_store *store, bool accepted, struct error *err)
{
	struct clock_reading now = rocksdb_now(store);
	uint64_t mark_ns = 0;
	bool found;
	int rc = rocksdb_read_number(store->db, mark_name, &mark_ns, &found, err);

	if (rc == -EBADMSG) { // damaged: as in a store without one
		mark_ns = 0;
		rc = 0;
	}
	if (rc == 0)
		clock_guard_begin(&store->clock_guard, mark_ns, accepted, &now);
	store->mark_saved_ns = mark_ns;
	return rc;
}

int rocksdb_save_clock(struct rocksdb_store *store, struct error *err)
{
	pthread_mutex_lock(&store->clock_lock);
	uint64_t mark_ns = store->clock_guard.mark_ns;
	pthread_mutex_unlock(&store->clock_lock);

	// A mark that agents have corrected is lower.
	if (mark_ns >= store->mark_saved_ns && mark_ns - store->mark_saved_ns < MARK_SAVE_NS)
		return 0;
	_cleanup_(db_batch_freep) struct db_batch *batch = db_batch_new(store->db);
	if (!batch)
		return error_set(err, -ENOMEM, "store: out of memory");
	rocksdb_put_number(batch, mark_name, mark_ns);
	int rc = db_write(store->db, batch, false, err);
	if (rc == 0)
		store->mark_saved_ns = mark_ns;
	return rc;
}

void rocksdb_read_clock(struct rocksdb_store *store, char ret_text[STORE_CLOCK_TEXT_BYTES])
{
	pthread_mutex_lock(&store->clock_lock);
	clock_guard_describe(&store->clock_guard, ret_text, STORE_CLOCK_TEXT_BYTES);
	pthread_mutex_unlock(&store->clock_lock);
}
