// SPDX-License-Identifier: Apache-2.0
#include "collector/store/rocksdb/postings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/array.h"
#include "base/contract/label_names.h"
#include "base/shared_array.h"

enum { TEXT_BLOCK_BYTES_MIN = 4 << 10, TEXT_BLOCK_BYTES_MAX = 1 << 20 };

/** Names and values of label pairs. A block never moves. */
struct text_block {
	struct text_block *older;
	size_t size, used;
	char bytes[];
};

struct pair_key {
	const char *name, *value;
};

struct series_key {
	struct id128 id;
	uint64_t slot_ns;
};

struct group_key {
	uint32_t service, type;
	uint64_t slot_ns;
};

static bool pair_equal(const void *context, uint32_t item, const void *key)
{
	const struct label_pair *pair = &((const struct postings *)context)->pairs[item];
	const struct pair_key *wanted = key;

	return !strcmp(pair->value, wanted->value) && !strcmp(pair->name, wanted->name);
}

static bool series_equal(const void *context, uint32_t item, const void *key)
{
	const struct indexed_series *series = &((const struct postings *)context)->series[item];
	const struct series_key *wanted = key;

	return id128_equal(series->id, wanted->id) && series->slot_ns == wanted->slot_ns;
}

static bool group_equal(const void *context, uint32_t item, const void *key)
{
	const struct series_group *group = &((const struct postings *)context)->groups[item];
	const struct group_key *wanted = key;

	return group->service == wanted->service && group->type == wanted->type &&
	       group->slot_ns == wanted->slot_ns;
}

struct postings *postings_new(void)
{
	struct postings *postings = calloc(1, sizeof(*postings));

	if (postings)
		atomic_init(&postings->refs, 1);
	return postings;
}

void postings_unref(struct postings *postings)
{
	if (!postings || atomic_fetch_sub(&postings->refs, 1) != 1)
		return;
	for (struct text_block *block = postings->text, *older; block; block = older) {
		older = block->older;
		free(block);
	}
	shared_array_unref(postings->pairs);
	shared_array_unref(postings->series);
	shared_array_unref(postings->series_pairs);
	free(postings->groups);
	hash_table_deinit(&postings->pair_index);
	hash_table_deinit(&postings->series_index);
	hash_table_deinit(&postings->group_index);
	partition_quota_deinit(&postings->quota);
	free(postings);
}

struct postings_view postings_view(struct postings *postings)
{
	atomic_fetch_add(&postings->refs, 1);
	return (struct postings_view){
		.postings = postings,
		.pairs = shared_array_ref(postings->pairs),
		.series = shared_array_ref(postings->series),
		.series_pairs = shared_array_ref(postings->series_pairs),
		.pair_count = postings->pair_count,
		.series_count = postings->series_count,
		.group_count = postings->group_count,
	};
}

void postings_view_deinit(struct postings_view *view)
{
	shared_array_unref(view->pairs);
	shared_array_unref(view->series);
	shared_array_unref(view->series_pairs);
	postings_unref(view->postings);
	*view = (struct postings_view){ 0 };
}

static uint64_t table_memory(const struct hash_table *table)
{
	return (uint64_t)table->slot_count * sizeof(*table->slots);
}

uint64_t postings_memory(const struct postings *postings)
{
	return sizeof(*postings) + postings->text_bytes + partition_quota_memory(&postings->quota) +
	       (uint64_t)postings->pair_capacity * sizeof(*postings->pairs) +
	       (uint64_t)postings->series_capacity * sizeof(*postings->series) +
	       4ULL * postings->series_pair_capacity + table_memory(&postings->pair_index) +
	       table_memory(&postings->series_index);
}

static uint64_t series_hash(struct series_key key)
{
	return key.id.low ^ key.slot_ns * 0x9e3779b97f4a7c15ULL;
}

uint32_t postings_find(const struct postings *postings, struct id128 id, uint64_t slot_ns)
{
	struct series_key key = { .id = id, .slot_ns = slot_ns };

	return hash_table_find(&postings->series_index, series_hash(key), series_equal, postings,
			       &key);
}

/** Room for @size bytes of text that never moves, or NULL. */
static char *reserve_text(struct postings *postings, size_t size)
{
	struct text_block *block = postings->text;
	size_t wanted = block ? 2 * block->size : TEXT_BLOCK_BYTES_MIN;

	if (block && block->size - block->used >= size)
		return block->bytes + block->used;
	wanted = wanted > TEXT_BLOCK_BYTES_MAX ? TEXT_BLOCK_BYTES_MAX : wanted;
	wanted = wanted > size ? wanted : size;
	block = malloc(sizeof(*block) + wanted);
	if (!block)
		return NULL;
	*block = (struct text_block){ .older = postings->text, .size = wanted };
	postings->text = block;
	postings->text_bytes += sizeof(*block) + wanted;
	return block->bytes;
}

/** Copy the key's strings to the room that was reserved for them. */
static struct label_pair copy_text(struct postings *postings, struct pair_key key, char *room)
{
	size_t name_size = strlen(key.name) + 1, value_size = strlen(key.value) + 1;

	memcpy(room, key.name, name_size);
	memcpy(room + name_size, key.value, value_size);
	postings->text->used += name_size + value_size;
	return (struct label_pair){ .name = room, .value = room + name_size };
}

static int append_pair(struct postings *postings, struct pair_key key, uint64_t hash,
		       uint32_t *ret_pair)
{
	uint32_t at = postings->pair_count;
	int rc = shared_array_reserve(&postings->pairs, sizeof(*postings->pairs),
				      &postings->pair_capacity, at, 1, POSTINGS_PAIRS_MAX);

	if (rc < 0)
		return rc;
	char *room = reserve_text(postings, strlen(key.name) + strlen(key.value) + 2);
	if (!room)
		return -ENOMEM;
	rc = hash_table_add(&postings->pair_index, hash, at);
	if (rc < 0)
		return rc;
	postings->pairs[at] = copy_text(postings, key, room);
	postings->pair_count++;
	*ret_pair = at;
	return 0;
}

static int add_pair(struct postings *postings, const char *name, const char *value,
		    uint32_t *ret_pair)
{
	struct pair_key key = { name, value };
	uint64_t hash = hash64_of(name, strlen(name)) * 31 + hash64_of(value, strlen(value));
	uint32_t at = hash_table_find(&postings->pair_index, hash, pair_equal, postings, &key);

	if (at == HASH_TABLE_NONE)
		return append_pair(postings, key, hash, ret_pair);
	*ret_pair = at;
	return 0;
}

static int add_group(struct postings *postings, struct group_key key, uint32_t *ret_group)
{
	uint64_t hash = hash64_of(&key, sizeof(key));
	uint32_t at = hash_table_find(&postings->group_index, hash, group_equal, postings, &key);

	if (at == HASH_TABLE_NONE) {
		at = postings->group_count;
		int rc = array_reserve(&postings->groups, sizeof(*postings->groups),
				       &postings->group_capacity, at, 1, POSTINGS_SERIES_MAX);
		if (rc == 0)
			rc = hash_table_add(&postings->group_index, hash, at);
		if (rc < 0)
			return rc;
		postings->groups[at] = (struct series_group){ .service = key.service,
							      .type = key.type,
							      .slot_ns = key.slot_ns };
		postings->group_count++;
	}
	*ret_group = at;
	return 0;
}

/** Reserve all memory first: a failure must not leave half a series. */
static int reserve_series(struct postings *postings, const struct indexed_series *series)
{
	int rc =
		shared_array_reserve(&postings->series, sizeof(*series), &postings->series_capacity,
				     postings->series_count, 1, POSTINGS_SERIES_MAX);

	if (rc == 0)
		rc = shared_array_reserve(&postings->series_pairs, sizeof(uint32_t),
					  &postings->series_pair_capacity,
					  postings->series_pair_count, series->pair_count,
					  POSTINGS_SERIES_MAX * LABELS_MAX);
	return rc;
}

static int count_series(struct postings *postings, const struct indexed_series *series,
			const uint32_t *pairs)
{
	struct label labels[LABELS_MAX];

	for (uint32_t i = 0; i < series->pair_count; i++)
		labels[i] = (struct label){ (char *)postings->pairs[pairs[i]].name,
					    (char *)postings->pairs[pairs[i]].value };
	return partition_quota_add(&postings->quota, labels, series->pair_count);
}

/** Fills in @series' group and first pair. */
static int append_series(struct postings *postings, struct indexed_series *series,
			 const uint32_t *pairs, uint32_t *ret_series)
{
	struct group_key group = { HASH_TABLE_NONE, series->type, series->slot_ns };
	struct series_key key = { series->id, series->slot_ns };
	uint32_t number = postings->series_count;

	for (uint32_t i = 0; i < series->pair_count; i++)
		if (!strcmp(postings->pairs[pairs[i]].name, LABEL_SERVICE))
			group.service = pairs[i];

	int rc = reserve_series(postings, series);
	if (rc == 0)
		rc = add_group(postings, group, &series->group);
	if (rc == 0)
		rc = count_series(postings, series, pairs);
	if (rc == 0)
		rc = hash_table_add(&postings->series_index, series_hash(key), number);
	if (rc < 0)
		return rc;

	series->first_pair = postings->series_pair_count;
	if (series->pair_count)
		memcpy(&postings->series_pairs[series->first_pair], pairs,
		       series->pair_count * sizeof(*pairs));
	postings->series_pair_count += series->pair_count;
	postings->series[number] = *series;
	postings->series_count++;
	postings->groups[series->group].series_count += !series_is_deleted(series);
	*ret_series = number;
	return 0;
}

int postings_add(struct postings *postings, struct id128 id, const struct labels *labels,
		 const char *type, uint64_t slot_ns, uint32_t *ret_series)
{
	struct indexed_series series = { .id = id, .slot_ns = slot_ns };
	uint32_t pairs[LABELS_MAX];
	int rc = add_pair(postings, POSTINGS_TYPE, type, &series.type);

	for (uint32_t i = 0; i < labels->count && i < LABELS_MAX && rc == 0; i++)
		rc = add_pair(postings, labels->pairs[i].name, labels->pairs[i].value,
			      &pairs[series.pair_count++]);
	return rc ? rc : append_series(postings, &series, pairs, ret_series);
}

// ---- records ------------------------------------------------------------------------------------

/** Series being written. */
struct series_encoder {
	const struct postings *postings;
	struct buffer *record;
	uint32_t known;         // pairs that are written
	const bool *pairs_used; // by series that keep their labels; NULL: all series do
};

static void append_pair_text(struct buffer *record, const char *name, const char *value)
{
	buffer_append_varint(record, strlen(name));
	buffer_append_string(record, name);
	buffer_append_varint(record, strlen(value));
	buffer_append_string(record, value);
}

/**
 * What stands for a pair that is deleted: pairs keep their numbers. No label has such a name, or such a
 * value, which is not UTF-8. A service stays one, because it makes the group.
 */
static void encode_deleted_pair(const struct series_encoder *encoder, uint32_t pair)
{
	bool is_service = !strcmp(encoder->postings->pairs[pair].name, LABEL_SERVICE);
	char value[16];

	snprintf(value, sizeof(value), "\xff%u", pair);
	append_pair_text(encoder->record, is_service ? LABEL_SERVICE : "", value);
}

// A pair is written in full where it first occurs. Pairs are numbered in that order.
static void encode_pair_once(struct series_encoder *encoder, uint32_t pair)
{
	const struct label_pair *pairs = encoder->postings->pairs;

	buffer_append_varint(encoder->record, pair);
	// A failed add leaves pairs that no series uses: they are written too.
	for (uint32_t at = encoder->known; at <= pair; at++, encoder->known++) {
		if (encoder->pairs_used && !encoder->pairs_used[at])
			encode_deleted_pair(encoder, at);
		else
			append_pair_text(encoder->record, pairs[at].name, pairs[at].value);
	}
}

/** The number of pairs that the series before @first use. */
static uint32_t pairs_known(const struct postings *postings, uint32_t first)
{
	uint32_t known = 0;

	for (uint32_t i = 0; i < first; i++) {
		const struct indexed_series *series = &postings->series[i];

		if (series->type >= known)
			known = series->type + 1;
		for (uint32_t j = 0; j < series->pair_count; j++)
			if (postings->series_pairs[series->first_pair + j] >= known)
				known = postings->series_pairs[series->first_pair + j] + 1;
	}
	return known;
}

static void encode_series(struct series_encoder *encoder, const struct indexed_series *series,
			  struct id128 id)
{
	const struct postings *postings = encoder->postings;
	uint8_t id_bytes[ID128_BYTES];

	id128_encode(id, id_bytes);
	buffer_append(encoder->record, id_bytes, sizeof(id_bytes));
	buffer_append_varint(encoder->record, series->slot_ns);
	encode_pair_once(encoder, series->type);
	buffer_append_varint(encoder->record, series->pair_count);
	for (uint32_t i = 0; i < series->pair_count; i++)
		encode_pair_once(encoder, postings->series_pairs[series->first_pair + i]);
}

void postings_encode(const struct postings *postings, uint32_t first, struct buffer *record)
{
	struct series_encoder encoder = { .postings = postings,
					  .record = record,
					  .known = pairs_known(postings, first) };

	if (first == postings->series_count)
		return;
	buffer_append_varint(record, first);
	buffer_append_varint(record, postings->series_count - first);
	for (uint32_t i = first; i < postings->series_count; i++)
		encode_series(&encoder, &postings->series[i], postings->series[i].id);
}

static bool *find_pairs_used(const struct postings *postings)
{
	bool *used = calloc(postings->pair_count + 1ULL, sizeof(*used));

	for (uint32_t i = 0; used && i < postings->series_count; i++) {
		const struct indexed_series *series = &postings->series[i];

		used[series->type] = true; // a profile's type is nobody's secret
		for (uint32_t j = 0; series->presence && j < series->pair_count; j++)
			used[postings->series_pairs[series->first_pair + j]] = true;
	}
	return used;
}

int postings_encode_present(const struct postings *postings, struct buffer *record)
{
	_cleanup_free_ bool *pairs_used = find_pairs_used(postings);
	struct series_encoder encoder = { .postings = postings,
					  .record = record,
					  .pairs_used = pairs_used };

	if (!pairs_used)
		return -ENOMEM;
	buffer_append_varint(record, 0);
	buffer_append_varint(record, postings->series_count);
	for (uint32_t i = 0; i < postings->series_count; i++) {
		const struct indexed_series *series = &postings->series[i];

		encode_series(&encoder, series,
			      series->presence ? series->id : (struct id128){ UINT64_MAX, i });
	}
	return record->rc;
}

static int decode_pair(struct postings *postings, struct reader *reader)
{
	char name[LABEL_NAME_BYTES_MAX + 1] = { 0 }, value[LABEL_VALUE_BYTES_MAX + 1] = { 0 };
	uint64_t name_size = reader_varint(reader);
	const void *name_bytes = reader_bytes(reader, name_size);
	uint64_t value_size = reader_varint(reader);
	const void *value_bytes = reader_bytes(reader, value_size);
	uint32_t expected = postings->pair_count, pair;

	if (reader->failed || name_size > LABEL_NAME_BYTES_MAX ||
	    value_size > LABEL_VALUE_BYTES_MAX)
		return -EBADMSG;
	memcpy(name, name_bytes, name_size);
	memcpy(value, value_bytes, value_size);
	int rc = add_pair(postings, name, value, &pair);
	return rc ? rc : pair == expected ? 0 : -EBADMSG;
}

static int decode_pair_once(struct postings *postings, struct reader *reader, uint32_t *ret_pair)
{
	uint64_t pair = reader_varint(reader);
	int rc = 0;

	while (rc == 0 && !reader->failed && postings->pair_count <= pair)
		rc = decode_pair(postings, reader);
	if (rc == 0 && reader->failed)
		rc = -EBADMSG;
	if (rc == 0)
		*ret_pair = (uint32_t)pair;
	return rc;
}

/** No series that was stored has a pair twice: such a record is damaged. */
static bool has_repeated_pair(const struct indexed_series *series, const uint32_t *pairs)
{
	for (uint32_t i = 0; i < series->pair_count; i++) {
		if (pairs[i] == series->type)
			return true;
		for (uint32_t j = 0; j < i; j++)
			if (pairs[i] == pairs[j])
				return true;
	}
	return false;
}

static int decode_series(struct postings *postings, struct reader *reader)
{
	const uint8_t *id = reader_bytes(reader, ID128_BYTES);
	struct indexed_series series = { .slot_ns = reader_varint(reader) };
	uint32_t pairs[LABELS_MAX], number;
	int rc = decode_pair_once(postings, reader, &series.type);

	if (rc < 0)
		return rc;
	uint64_t pair_count = reader_varint(reader);
	if (reader->failed || pair_count > LABELS_MAX)
		return -EBADMSG;
	series.id = id128_decode(id);
	series.pair_count = (uint32_t)pair_count;
	for (uint32_t i = 0; i < series.pair_count && rc == 0; i++)
		rc = decode_pair_once(postings, reader, &pairs[i]);
	if (rc == 0 && (has_repeated_pair(&series, pairs) ||
			postings_find(postings, series.id, series.slot_ns) != HASH_TABLE_NONE))
		rc = -EBADMSG;
	return rc ? rc : append_series(postings, &series, pairs, &number);
}

int postings_decode(struct postings *postings, struct bytes record, struct error *err)
{
	struct reader reader = { .at = record.at, .end = (const uint8_t *)record.at + record.size };
	uint64_t first = reader_varint(&reader), count = reader_varint(&reader);
	int rc = reader.failed || first != postings->series_count ? -EBADMSG : 0;

	for (uint64_t i = 0; i < count && rc == 0; i++)
		rc = decode_series(postings, &reader);
	if (rc == 0 && (reader.failed || reader_left(&reader)))
		rc = -EBADMSG;
	if (rc == -EBADMSG || rc == -E2BIG)
		return error_set(err, -EBADMSG,
				 "store: a record of series is damaged; restore the "
				 "store from a backup, or move it away");
	return rc ? error_set(err, rc, "store: out of memory for series") : 0;
}
