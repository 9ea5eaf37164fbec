// SPDX-License-Identifier: Apache-2.0
#include "collector/store/rocksdb/partition_records.h"

#include <errno.h>

#include "base/cleanup.h"
#include "collector/store/rocksdb/key.h"

int partition_each_record(struct partition_loading *loading, struct db *db, enum record_kind from,
			  enum record_kind to, partition_record_fn read, struct error *err)
{
	struct key first = key_of_record(loading->partition->start_ns, from, 0);
	struct key last = key_of_record(loading->partition->start_ns, to, UINT64_MAX);
	_cleanup_(db_iterator_freep) struct db_iterator *iterator =
		db_iterator_open(db, DB_DICTIONARY, key_bytes(&first), key_bytes(&last), true);

	if (!iterator)
		return error_set(err, -ENOMEM, "store: out of memory");
	while (db_iterator_next(iterator)) {
		struct bytes key = db_iterator_key(iterator);

		if (key.size != KEY_RECORD_BYTES)
			return error_set(err, -EBADMSG,
					 "store: a key of the dictionary is damaged");
		const uint8_t *at = key.at;
		int rc = read(loading, at[8], key_number(at + 9, 8), db_iterator_value(iterator),
			      err);
		if (rc < 0)
			return rc;
	}
	return db_iterator_check(iterator, err);
}

int partition_refuse_unreadable(const struct partition *partition, struct error *err)
{
	return error_set(err, -EBADMSG, "%s", partition->damage);
}

int partition_note_unreadable(struct partition *partition, int rc, const struct error *cause,
			      struct error *err)
{
	if (rc == -EBADMSG) {
		partition_note_damage(partition, cause->text);
		partition->unreadable = true;
	}
	return error_set(err, rc, "%s", cause->text);
}
