// SPDX-License-Identifier: Apache-2.0
// The embedded store: an implementation of collector/store/store.h on RocksDB.
#pragma once

#include "collector/store/store.h"

/**
 * Open the store in @options->path, or create it. Returns 0; -EBUSY (another process holds its lock),
 * -EBADMSG (not a store, damaged, or of another format), -EINVAL, -ENOSPC, -EIO, -ENOMEM; @err says what to
 * do.
 */
int rocksdb_store_open(const struct store_options *options, struct store **ret_store,
		       struct error *err);
