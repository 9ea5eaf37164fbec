// SPDX-License-Identifier: Apache-2.0
// Which series have rows in which minutes of a partition, less what tombstones say: a record for each minute of each commit.
#pragma once

#include "collector/store/rocksdb/partition_records.h"

/** Append a record of the series that have rows in @minute. @series ascend. */
void presence_encode(uint32_t minute, const uint32_t *series, uint32_t count,
		     struct buffer *record);

/** Add what @record, of commit @sequence, says to the presence that @loading has. Returns 0 or -EBADMSG. */
int partition_decode_presence(struct partition_loading *loading, uint64_t sequence,
			      struct bytes record, struct error *err);

/** One bit per 64th of the partition that [from, to) overlaps. */
uint64_t partition_presence(const struct partition *partition, uint64_t from_ns, uint64_t to_ns);

// With the lock held:

/** Record the presence of @run's series. */
void partition_note_presence(struct partition *partition, const struct raw_run *run);
/** Load the tombstones. Returns 0; -ENOMEM; -EIO. One that is damaged makes the partition unreadable. */
int partition_load_tombstones(struct partition *partition, struct db *db, struct error *err);
/**
 * Put @tombstones, a reference, in force in place of those before: no series is present any more where
 * all of its rows are deleted. On failure they are in force, but presence is as it was.
 */
int partition_set_tombstones(struct partition *partition, struct db *db,
			     struct tombstone_list *tombstones, struct error *err);
/** Add to @batch what makes the records of presence be without what @tombstones are about. */
int partition_clean_presence(struct partition *partition, struct db *db,
			     const struct tombstone_list *tombstones, struct db_batch *batch,
			     struct error *err);
