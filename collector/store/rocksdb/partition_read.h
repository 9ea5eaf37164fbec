// SPDX-License-Identifier: Apache-2.0
// Views of a partition's dictionaries for queries, which hold no lock. What takes time happens outside of it: appends never wait.
#pragma once

#include "collector/store/rocksdb/partition.h"

/** A view of the postings as they are now. Returns -ENOENT if the partition was dropped; or as partition_load_postings(). */
int partition_read_postings(struct partition *partition, struct db *db,
			    struct postings_view *ret_view, struct error *err);
/** A reference to a view of the forest as it is now. Returns as above. */
int partition_read_forest(struct partition *partition, struct db *db, struct forest_view **ret_view,
			  struct error *err);
