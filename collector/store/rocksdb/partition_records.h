// SPDX-License-Identifier: Apache-2.0
// Reads a partition's records of the dictionary, and notes which partition's cannot be read.
#pragma once

#include "collector/store/rocksdb/partition.h"

/** Dictionaries being read: the partition's, or a query's that it does not have yet. */
struct partition_loading {
	const struct partition *partition;
	const struct tombstone_list *tombstones; // NULL: none
	struct forest *forest;
	struct postings *postings;
	uint64_t *presence;     // by series, of the records of presence; NULL: of the postings
	struct db_batch *batch; // that changes the records of presence
};

/** @sequence: of the record's key. */
typedef int (*partition_record_fn)(struct partition_loading *loading, enum record_kind kind,
				   uint64_t sequence, struct bytes record, struct error *err);

/** Call @read for each record of the kinds [@from, @to]. Returns the first error; -EBADMSG; -EIO; -ENOMEM. */
int partition_each_record(struct partition_loading *loading, struct db *db, enum record_kind from,
			  enum record_kind to, partition_record_fn read, struct error *err);

// With the lock held:

/** A dictionary with a hole is of no use, and is not read again and again. Returns -EBADMSG. */
int partition_refuse_unreadable(const struct partition *partition, struct error *err);
/** Reading failed with @rc and @cause: note it if the dictionary is damaged. Returns @rc. */
int partition_note_unreadable(struct partition *partition, int rc, const struct error *cause,
			      struct error *err);
