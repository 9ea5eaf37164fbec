// SPDX-License-Identifier: Apache-2.0
// Any bytes as a tombstone's record: refused as damaged, or ascending series in minutes, which are written as a record that reads the
// same, and found.

#include <stdlib.h>
#include <string.h>

#include "collector/store/rocksdb/tombstone.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check(bool condition)
{
	if (!condition)
		abort();
}

static void check_list(struct tombstone *tombstone)
{
	struct tombstone_list *list = NULL;

	check(!tombstone_list_add(NULL, tombstone, &list));
	uint64_t covering =
		tombstone_list_covering(list, tombstone->first_minute, tombstone->sequence);
	check(covering == 1);
	for (uint32_t i = 0; i < tombstone->series_count; i++) {
		check(!i || tombstone->series[i] > tombstone->series[i - 1]);
		check(tombstone_list_has(list, covering, tombstone->series[i]));
	}
	tombstone_list_unref(list);
}

static void check_record(const struct tombstone *tombstone)
{
	struct tombstone *again = NULL;
	struct buffer record = { 0 };

	tombstone_encode(tombstone, &record);
	check(!tombstone_decode(tombstone->number, (struct bytes){ record.bytes, record.size },
				&again));
	check(again->sequence == tombstone->sequence &&
	      again->first_minute == tombstone->first_minute &&
	      again->last_minute == tombstone->last_minute &&
	      again->series_count == tombstone->series_count);
	check(!memcmp(again->series, tombstone->series,
		      again->series_count * sizeof(again->series[0])));
	tombstone_unref(again);
	buffer_deinit(&record);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct tombstone *tombstone = NULL;
	// A block of its own size shows who reads too far.
	uint8_t *copy = malloc(size + !size);

	check(copy);
	memcpy(copy, bytes, size);
	if (!tombstone_decode(7, (struct bytes){ copy, size }, &tombstone)) {
		check_list(tombstone);
		check_record(tombstone);
		tombstone_unref(tombstone);
	}
	free(copy);
	return 0;
}
