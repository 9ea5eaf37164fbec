// SPDX-License-Identifier: Apache-2.0
// Finds chunks by their keys.
#pragma once

#include "collector/store/rocksdb/key.h"
#include "collector/store/rocksdb/partition.h"

/** Read the iterator's key if it is one of a minute's chunks. */
static inline bool chunk_read_key(struct db_iterator *chunks, struct chunk_key *ret_key)
{
	struct bytes key = db_iterator_key(chunks);

	if (key.size != KEY_CHUNK_BYTES)
		return false;
	*ret_key = key_read_chunk(key.at);
	return ret_key->minute != KEY_MERGED;
}

/** Find the first chunk at or after @wanted of its minute, kind and group. */
static inline bool chunk_find(struct db_iterator *chunks, const struct partition *partition,
			      const struct chunk_key *wanted, struct chunk_key *ret_found)
{
	struct key key = key_of_chunk(partition->start_ns, wanted);

	return db_iterator_seek(chunks, key_bytes(&key)) && chunk_read_key(chunks, ret_found) &&
	       ret_found->minute == wanted->minute && ret_found->kind == wanted->kind &&
	       ret_found->group == wanted->group;
}

/** Find the first merged chunk at or after @wanted of its group. */
static inline bool chunk_find_merged(struct db_iterator *chunks, const struct partition *partition,
				     const struct merged_key *wanted, struct merged_key *ret_found)
{
	struct key key = key_of_merged(partition->start_ns, wanted);

	if (!db_iterator_seek(chunks, key_bytes(&key)))
		return false;
	struct bytes found = db_iterator_key(chunks);
	if (found.size != KEY_MERGED_BYTES)
		return false;
	*ret_found = key_read_merged(found.at);
	return ret_found->group == wanted->group;
}

/** An iterator over the partition's chunks. NULL when out of memory. */
static inline struct db_iterator *chunk_iterator_open(struct db *db,
						      const struct partition *partition)
{
	struct key from = key_of_partition(partition->start_ns);
	struct key to = key_of_partition(partition->start_ns + 1);

	return db_iterator_open(db, DB_CHUNK, key_bytes(&from), key_bytes(&to), false);
}
