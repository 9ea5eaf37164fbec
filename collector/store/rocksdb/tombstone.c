// SPDX-License-Identifier: Apache-2.0
// A tombstone's record (docs/format.md), in varints: format, sequence, first minute, minutes after it,
// count of series, and each one's distance to the one before.
#include "collector/store/rocksdb/tombstone.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"

enum { TOMBSTONE_FORMAT = 1 };

// ---- one ----------------------------------------------------------------------------------------------

struct tombstone *tombstone_new(uint32_t series_count)
{
	struct tombstone *tombstone =
		calloc(1, sizeof(*tombstone) + series_count * sizeof(tombstone->series[0]));

	if (!tombstone)
		return NULL;
	atomic_init(&tombstone->refs, 1);
	tombstone->series_count = series_count;
	return tombstone;
}

static struct tombstone *tombstone_ref(struct tombstone *tombstone)
{
	atomic_fetch_add(&tombstone->refs, 1);
	return tombstone;
}

void tombstone_unref(struct tombstone *tombstone)
{
	if (tombstone && atomic_fetch_sub(&tombstone->refs, 1) == 1)
		free(tombstone);
}

void tombstone_encode(const struct tombstone *tombstone, struct buffer *record)
{
	uint32_t before = 0;

	buffer_append_varint(record, TOMBSTONE_FORMAT);
	buffer_append_varint(record, tombstone->sequence);
	buffer_append_varint(record, tombstone->first_minute);
	buffer_append_varint(record, tombstone->last_minute - tombstone->first_minute);
	buffer_append_varint(record, tombstone->series_count);
	for (uint32_t i = 0; i < tombstone->series_count; i++) {
		buffer_append_varint(record, tombstone->series[i] - before);
		before = tombstone->series[i];
	}
}

static int decode_series(struct reader *reader, struct tombstone *tombstone)
{
	uint64_t series = 0;

	for (uint32_t i = 0; i < tombstone->series_count; i++) {
		uint64_t delta = reader_varint(reader);

		if (reader->failed || delta >= POSTINGS_SERIES_MAX || (i && !delta))
			return -EBADMSG;
		series += delta;
		if (series >= POSTINGS_SERIES_MAX)
			return -EBADMSG;
		tombstone->series[i] = (uint32_t)series;
	}
	return reader_left(reader) ? -EBADMSG : 0;
}

int tombstone_decode(uint64_t number, struct bytes record, struct tombstone **ret_tombstone)
{
	struct reader reader = { .at = record.at, .end = (const uint8_t *)record.at + record.size };
	uint64_t format = reader_varint(&reader), sequence = reader_varint(&reader);
	uint64_t first_minute = reader_varint(&reader), more_minutes = reader_varint(&reader);
	uint64_t series_count = reader_varint(&reader);

	if (reader.failed || format != TOMBSTONE_FORMAT || first_minute > UINT16_MAX ||
	    more_minutes > UINT16_MAX || series_count > POSTINGS_SERIES_MAX)
		return -EBADMSG;
	struct tombstone *tombstone = tombstone_new((uint32_t)series_count);
	if (!tombstone)
		return -ENOMEM;
	tombstone->number = number;
	tombstone->sequence = sequence;
	tombstone->first_minute = (uint32_t)first_minute;
	tombstone->last_minute = (uint32_t)(first_minute + more_minutes);
	int rc = decode_series(&reader, tombstone);
	if (rc < 0)
		tombstone_unref(tombstone);
	else
		*ret_tombstone = tombstone;
	return rc;
}

// ---- a list -------------------------------------------------------------------------------------------

static struct tombstone_list *list_new(uint32_t capacity)
{
	struct tombstone_list *list =
		calloc(1, sizeof(*list) + capacity * sizeof(list->tombstones[0]));

	if (list)
		atomic_init(&list->refs, 1);
	return list;
}

static void list_append(struct tombstone_list *list, struct tombstone *tombstone)
{
	list->tombstones[list->count++] = tombstone_ref(tombstone);
	list->series_count += tombstone->series_count;
}

int tombstone_list_add(const struct tombstone_list *list, struct tombstone *tombstone,
		       struct tombstone_list **ret_list)
{
	uint32_t count = list ? list->count : 0;

	if (count == TOMBSTONES_MAX)
		return -E2BIG;
	struct tombstone_list *longer = list_new(count + 1);
	if (!longer)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		list_append(longer, list->tombstones[i]);
	list_append(longer, tombstone);
	*ret_list = longer;
	return 0;
}

static bool list_has(const struct tombstone_list *list, const struct tombstone *tombstone)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (list->tombstones[i] == tombstone)
			return true;
	return false;
}

int tombstone_list_remove(const struct tombstone_list *list, const struct tombstone_list *done,
			  struct tombstone_list **ret_list)
{
	struct tombstone_list *left = list_new(list->count);

	if (!left)
		return -ENOMEM;
	for (uint32_t i = 0; i < list->count; i++)
		if (!list_has(done, list->tombstones[i]))
			list_append(left, list->tombstones[i]);
	if (!left->count)
		tombstone_list_unrefp(&left);
	*ret_list = left;
	return 0;
}

struct tombstone_list *tombstone_list_ref(struct tombstone_list *list)
{
	if (list)
		atomic_fetch_add(&list->refs, 1);
	return list;
}

void tombstone_list_unref(struct tombstone_list *list)
{
	if (!list || atomic_fetch_sub(&list->refs, 1) != 1)
		return;
	for (uint32_t i = 0; i < list->count; i++)
		tombstone_unref(list->tombstones[i]);
	free(list);
}

void tombstone_list_unrefp(struct tombstone_list **list)
{
	tombstone_list_unref(take(*list));
}

uint64_t tombstone_list_covering(const struct tombstone_list *list, uint32_t minute,
				 uint64_t sequence)
{
	uint64_t covering = 0;

	for (uint32_t i = 0; list && i < list->count; i++) {
		const struct tombstone *tombstone = list->tombstones[i];

		if (sequence <= tombstone->sequence && minute >= tombstone->first_minute &&
		    minute <= tombstone->last_minute)
			covering |= 1ULL << i;
	}
	return covering;
}

static bool tombstone_has(const struct tombstone *tombstone, uint32_t series)
{
	uint32_t low = 0, high = tombstone->series_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (tombstone->series[middle] == series)
			return true;
		if (tombstone->series[middle] < series)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

bool tombstone_list_has(const struct tombstone_list *list, uint64_t covering, uint32_t series)
{
	for (uint32_t i = 0; covering; i++, covering >>= 1)
		if (covering & 1 && tombstone_has(list->tombstones[i], series))
			return true;
	return false;
}
