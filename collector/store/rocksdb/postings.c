// SPDX-License-Identifier: Apache-2.0
#include "collector/store/rocksdb/postings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/array.h"
#include "base/contract/label_names.h"

struct pair_key {
	uint32_t name, value;
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

	return pair->name == wanted->name && pair->value == wanted->value;
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

	if (postings && string_table_init(&postings->strings) < 0) {
		free(postings);
		return NULL;
	}
	return postings;
}

void postings_free(struct postings *postings)
{
	if (!postings)
		return;
	for (uint32_t i = 0; i < postings->pair_count; i++)
		free(postings->pairs[i].series);
	free(postings->pairs);
	free(postings->series);
	free(postings->series_pairs);
	free(postings->groups);
	hash_table_deinit(&postings->pair_index);
	hash_table_deinit(&postings->series_index);
	hash_table_deinit(&postings->group_index);
	string_table_deinit(&postings->strings);
	partition_quota_deinit(&postings->quota);
	free(postings);
}

static uint64_t table_memory(const struct hash_table *table)
{
	return (uint64_t)table->slot_count * sizeof(*table->slots);
}

uint64_t postings_memory(const struct postings *postings)
{
	return sizeof(*postings) + postings->memory + partition_quota_memory(&postings->quota) +
	       postings->strings.bytes_capacity + 4ULL * postings->strings.capacity +
	       table_memory(&postings->strings.index) +
	       (uint64_t)postings->pair_capacity * sizeof(*postings->pairs) +
	       (uint64_t)postings->series_capacity * sizeof(*postings->series) +
	       4ULL * postings->series_pair_capacity + table_memory(&postings->pair_index) +
	       table_memory(&postings->series_index);
}

const char *postings_name(const struct postings *postings, uint32_t pair)
{
	return string_table_get(&postings->strings, postings->pairs[pair].name);
}

const char *postings_value(const struct postings *postings, uint32_t pair)
{
	return string_table_get(&postings->strings, postings->pairs[pair].value);
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

static int add_pair(struct postings *postings, const char *name, const char *value,
		    uint32_t *ret_pair)
{
	struct pair_key key;
	int rc = string_table_add(&postings->strings, name, strlen(name), &key.name);

	if (rc == 0)
		rc = string_table_add(&postings->strings, value, strlen(value), &key.value);
	if (rc < 0)
		return rc;
	uint64_t hash = hash64_of(&key, sizeof(key));
	uint32_t at = hash_table_find(&postings->pair_index, hash, pair_equal, postings, &key);
	if (at == HASH_TABLE_NONE) {
		at = postings->pair_count;
		rc = array_reserve(&postings->pairs, sizeof(*postings->pairs),
				   &postings->pair_capacity, at, 1, POSTINGS_PAIRS_MAX);
		if (rc == 0)
			rc = hash_table_add(&postings->pair_index, hash, at);
		if (rc < 0)
			return rc;
		postings->pairs[at] = (struct label_pair){ .name = key.name, .value = key.value };
		postings->pair_count++;
	}
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

static int reserve_posting(struct postings *postings, uint32_t pair)
{
	struct label_pair *posting = &postings->pairs[pair];
	uint32_t before = posting->series_capacity;
	int rc = array_reserve(&posting->series, sizeof(uint32_t), &posting->series_capacity,
			       posting->series_count, 1, POSTINGS_SERIES_MAX);

	postings->memory += 4ULL * (posting->series_capacity - before);
	return rc;
}

/** Reserve all memory first: a failure must not leave half a series. */
static int reserve_series(struct postings *postings, const struct indexed_series *series,
			  const uint32_t *pairs)
{
	int rc = array_reserve(&postings->series, sizeof(*series), &postings->series_capacity,
			       postings->series_count, 1, POSTINGS_SERIES_MAX);

	if (rc == 0)
		rc = array_reserve(&postings->series_pairs, sizeof(uint32_t),
				   &postings->series_pair_capacity, postings->series_pair_count,
				   series->pair_count, POSTINGS_SERIES_MAX * LABELS_MAX);
	if (rc == 0)
		rc = reserve_posting(postings, series->type);
	for (uint32_t i = 0; i < series->pair_count && rc == 0; i++)
		rc = reserve_posting(postings, pairs[i]);
	return rc;
}

static int count_series(struct postings *postings, const struct indexed_series *series,
			const uint32_t *pairs)
{
	struct label labels[LABELS_MAX];

	for (uint32_t i = 0; i < series->pair_count; i++)
		labels[i] = (struct label){ (char *)postings_name(postings, pairs[i]),
					    (char *)postings_value(postings, pairs[i]) };
	return partition_quota_add(&postings->quota, labels, series->pair_count);
}

static void add_posting(struct postings *postings, uint32_t pair, uint32_t series)
{
	struct label_pair *posting = &postings->pairs[pair];

	posting->series[posting->series_count++] = series;
}

/** Fills in @series' group and first pair. */
static int append_series(struct postings *postings, struct indexed_series *series,
			 const uint32_t *pairs, uint32_t *ret_series)
{
	struct group_key group = { HASH_TABLE_NONE, series->type, series->slot_ns };
	struct series_key key = { series->id, series->slot_ns };
	uint32_t number = postings->series_count;

	for (uint32_t i = 0; i < series->pair_count; i++)
		if (!strcmp(postings_name(postings, pairs[i]), LABEL_SERVICE))
			group.service = pairs[i];

	int rc = reserve_series(postings, series, pairs);
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
	postings->groups[series->group].series_count++;
	for (uint32_t i = 0; i < series->pair_count; i++)
		add_posting(postings, pairs[i], number);
	add_posting(postings, series->type, number);
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

static void encode_pair(const struct postings *postings, uint32_t pair, struct buffer *record)
{
	const char *name = postings_name(postings, pair);
	const char *value = postings_value(postings, pair);

	buffer_append_varint(record, strlen(name));
	buffer_append_string(record, name);
	buffer_append_varint(record, strlen(value));
	buffer_append_string(record, value);
}

// A pair is written in full where it first occurs. Pairs are numbered in that order.
static void encode_pair_once(const struct postings *postings, uint32_t pair, uint32_t *known,
			     struct buffer *record)
{
	buffer_append_varint(record, pair);
	if (pair < *known)
		return;
	// A failed add leaves pairs that no series uses: they are written too.
	for (; *known <= pair; (*known)++)
		encode_pair(postings, *known, record);
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

void postings_encode(const struct postings *postings, uint32_t first, struct buffer *record)
{
	uint8_t id[ID128_BYTES];

	if (first == postings->series_count)
		return;
	uint32_t known = pairs_known(postings, first);
	buffer_append_varint(record, first);
	buffer_append_varint(record, postings->series_count - first);
	for (uint32_t i = first; i < postings->series_count; i++) {
		const struct indexed_series *series = &postings->series[i];

		id128_encode(series->id, id);
		buffer_append(record, id, sizeof(id));
		buffer_append_varint(record, series->slot_ns);
		encode_pair_once(postings, series->type, &known, record);
		buffer_append_varint(record, series->pair_count);
		for (uint32_t j = 0; j < series->pair_count; j++)
			encode_pair_once(postings, postings->series_pairs[series->first_pair + j],
					 &known, record);
	}
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

/** A pair twice would be twice in a posting list, which has room for one. */
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
