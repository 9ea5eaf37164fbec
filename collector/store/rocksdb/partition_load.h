// SPDX-License-Identifier: Apache-2.0
// Reads the dictionaries of a partition, the forest and the postings, and loads them for appending.
#pragma once

#include "collector/store/rocksdb/partition.h"

/** Read the dictionary of @partition, which stays as it is. Returns 0; -EBADMSG; -EIO; -ENOMEM. */
int partition_decode_forest(const struct partition *partition, struct db *db,
			    struct forest **ret_forest, struct error *err);
int partition_decode_postings(const struct partition *partition, struct db *db,
			      const struct tombstone_list *tombstones,
			      struct postings **ret_postings, struct error *err);

// With the lock held:

/** @postings become the partition's. */
void partition_install_postings(struct partition *partition, struct postings *postings);
/** Load the dictionary unless it is loaded. Returns 0, -EBADMSG (recorded), -EIO or -ENOMEM. */
int partition_load_forest(struct partition *partition, struct db *db, struct error *err);
int partition_load_postings(struct partition *partition, struct db *db, struct error *err);
