// SPDX-License-Identifier: Apache-2.0
// The layout of the store's keys, by column family (docs/format.md). Numbers are big-endian, so that
// keys sort by number. Each key but those of DB_META begins with its partition: a partition is one
// range.
//
//   meta        "format" | "partition_ns" | "sequence" | "clock_mark" -> number(8)
//               'a' agent(16) boot(16) identity(16)               -> last sequence, time seen
//   raw         partition(8) minute(2) sequence(8)                -> rows of one batch
//   dictionary  partition(8) kind(1) sequence(8)                  -> records of enum record_kind
//   chunk       partition(8) minute(2) kind(1) group(4) sequence(8) last_series(4)
//               partition(8) 0xffff(2) group(4) first_minute(2) minutes(1) rollups(1) sequence(8) last_series(4)
//
// The sequence counts the store's commits and is never reused. Keys are in order of time: files of
// different times do not overlap, and compaction has little to rewrite.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/id128.h"
#include "collector/store/rocksdb/rocksdb_db.h"
#include "collector/store/store.h"

/** Records of the dictionary, in the order in which they are read. On disk: append only. */
enum record_kind {
	RECORD_PARTITION = 0, // the partition's summary and format
	RECORD_STRINGS = 1,
	RECORD_LOCATIONS = 2,
	RECORD_NODES = 3,
	RECORD_STACKS = 4,
	RECORD_SERIES = 5,
	RECORD_PRESENCE = 6,  // which series have rows in a minute
	RECORD_TOMBSTONE = 7, // which series' rows are deleted, and may be on disk still
	RECORD_MERGE = 8,     // how far the partition's chunks are merged
};

/** On disk: append only. 1 is free. */
enum chunk_kind {
	CHUNK_TOTALS = 0, // rollup: a group's values per slot, summed over its series
	CHUNK_SUMS = 2,   // rollup: a group's values per node, summed over series and slots
	CHUNK_ROWS = 3,
};

/** A key being built. */
struct key {
	uint8_t bytes[56];
	size_t size;
};

static inline void key_append(struct key *key, uint64_t number, size_t size)
{
	for (size_t i = 0; i < size; i++)
		key->bytes[key->size++] = (uint8_t)(number >> (8 * (size - 1 - i)));
}

static inline uint64_t key_number(const void *bytes, size_t size)
{
	uint64_t number = 0;

	for (size_t i = 0; i < size; i++)
		number = number << 8 | ((const uint8_t *)bytes)[i];
	return number;
}

static inline struct bytes key_bytes(const struct key *key)
{
	return (struct bytes){ key->bytes, key->size };
}

static inline struct key key_of_partition(uint64_t partition)
{
	struct key key = { .size = 0 };

	key_append(&key, partition, 8);
	return key;
}

static inline struct key key_of_raw(uint64_t partition, uint32_t minute, uint64_t sequence)
{
	struct key key = key_of_partition(partition);

	key_append(&key, minute, 2);
	key_append(&key, sequence, 8);
	return key;
}
enum { KEY_RAW_BYTES = 18 };

static inline struct key key_of_record(uint64_t partition, enum record_kind kind, uint64_t sequence)
{
	struct key key = key_of_partition(partition);

	key_append(&key, kind, 1);
	key_append(&key, sequence, 8);
	return key;
}
enum { KEY_RECORD_BYTES = 17 };

/** A chunk's key after its partition. */
struct chunk_key {
	uint32_t minute;
	enum chunk_kind kind;
	uint32_t group;
	uint64_t sequence;
	uint32_t last_series; // the chunk's highest series, numbered by the partition
};
enum { KEY_CHUNK_BYTES = 27 };

static inline struct key key_of_chunk(uint64_t partition, const struct chunk_key *chunk)
{
	struct key key = key_of_partition(partition);

	key_append(&key, chunk->minute, 2);
	key_append(&key, chunk->kind, 1);
	key_append(&key, chunk->group, 4);
	key_append(&key, chunk->sequence, 8);
	key_append(&key, chunk->last_series, 4);
	return key;
}

/** @bytes has KEY_CHUNK_BYTES. */
static inline struct chunk_key key_read_chunk(const uint8_t *bytes)
{
	return (struct chunk_key){
		.minute = (uint32_t)key_number(bytes + 8, 2),
		.kind = (enum chunk_kind)bytes[10],
		.group = (uint32_t)key_number(bytes + 11, 4),
		.sequence = key_number(bytes + 15, 8),
		.last_series = (uint32_t)key_number(bytes + 23, 4),
	};
}

/** Instead of a minute: after all minutes of a partition come its merged chunks. */
#define KEY_MERGED 0xffff

/** Which rollups of a merged chunk's minutes there may be: a bit by enum chunk_kind. */
#define MERGED_HAS(kind) (1U << (kind))

/** A merged chunk's key after its partition. */
struct merged_key {
	uint32_t group;
	uint32_t first_minute, minutes; // that it covers
	uint32_t rollups;               // MERGED_HAS
	uint64_t sequence;              // the last commit that it may have rows of
	uint32_t last_series;           // as in a chunk's
};
enum { KEY_MERGED_BYTES = 30 };

static inline struct key key_of_merged(uint64_t partition, const struct merged_key *merged)
{
	struct key key = key_of_partition(partition);

	key_append(&key, KEY_MERGED, 2);
	key_append(&key, merged->group, 4);
	key_append(&key, merged->first_minute, 2);
	key_append(&key, merged->minutes, 1);
	key_append(&key, merged->rollups, 1);
	key_append(&key, merged->sequence, 8);
	key_append(&key, merged->last_series, 4);
	return key;
}

/** @bytes has KEY_MERGED_BYTES. */
static inline struct merged_key key_read_merged(const uint8_t *bytes)
{
	return (struct merged_key){
		.group = (uint32_t)key_number(bytes + 10, 4),
		.first_minute = (uint32_t)key_number(bytes + 14, 2),
		.minutes = bytes[16],
		.rollups = bytes[17],
		.sequence = key_number(bytes + 18, 8),
		.last_series = (uint32_t)key_number(bytes + 26, 4),
	};
}

/** Do the chunks with these keys have the same group, minutes and sequence? */
static inline bool merged_key_is_of(const struct merged_key *a, const struct merged_key *b)
{
	return a->group == b->group && a->first_minute == b->first_minute &&
	       a->minutes == b->minutes && a->rollups == b->rollups && a->sequence == b->sequence;
}

static inline struct key key_of_meta(const char *name)
{
	struct key key = { .size = strlen(name) };

	memcpy(key.bytes, name, key.size);
	return key;
}

#define KEY_META_AGENT 'a'

/** The identity is left out where there is none (zero). */
static inline struct key key_of_agent(const struct store_batch_id *batch)
{
	struct key key = { .bytes = { KEY_META_AGENT }, .size = 1 + 2 * ID128_BYTES };

	id128_encode(batch->agent, key.bytes + 1);
	id128_encode(batch->boot, key.bytes + 1 + ID128_BYTES);
	if (batch->identity.high || batch->identity.low) {
		id128_encode(batch->identity, key.bytes + key.size);
		key.size += ID128_BYTES;
	}
	return key;
}

/** False if it is damaged. */
static inline bool key_read_agent(const uint8_t *bytes, size_t size, struct store_batch_id *batch)
{
	bool has_identity = size == 1 + 3 * ID128_BYTES;

	if (!has_identity && size != 1 + 2 * ID128_BYTES)
		return false;
	batch->agent = id128_decode(bytes + 1);
	batch->boot = id128_decode(bytes + 1 + ID128_BYTES);
	if (has_identity)
		batch->identity = id128_decode(bytes + 1 + 2 * ID128_BYTES);
	return true;
}
