// SPDX-License-Identifier: Apache-2.0
// Any bytes as the records of a partition's dictionaries, forest and series: refused as damaged, or
// restored to what can be encoded and decoded again. A record is a kind, two bytes of length, bytes.

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/contract/label_names.h"
#include "collector/store/rocksdb/forest.h"
#include "collector/store/rocksdb/postings.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t size_max);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t size_max, unsigned int seed);

static void check(bool condition)
{
	if (!condition)
		abort();
}

static void check_forest(const struct forest *forest)
{
	struct forest *again = forest_new();

	check(again);
	for (uint32_t i = 1; i < forest->node_count; i++)
		check(forest->parents[i] < i);
	for (int kind = RECORD_STRINGS; kind <= RECORD_STACKS; kind++) {
		struct forest_mark mark = forest_mark_of(again);
		struct buffer record = { 0 };

		forest_encode(forest, (enum record_kind)kind, &mark, &record);
		check(!record.size ||
		      !forest_decode(again, (enum record_kind)kind,
				     (struct bytes){ record.bytes, record.size }, NULL));
		buffer_deinit(&record);
	}
	check(again->node_count == forest->node_count && again->stack_count == forest->stack_count);
	forest_free(again);
}

static void check_postings(const struct postings *postings)
{
	struct postings *again = postings_new();
	struct buffer record = { 0 };

	check(again);
	postings_encode(postings, 0, &record);
	check(!record.size ||
	      !postings_decode(again, (struct bytes){ record.bytes, record.size }, NULL));
	check(again->series_count == postings->series_count);
	buffer_deinit(&record);
	postings_unref(again);
}

/** Decode the records until one is damaged. */
static void decode_records(const uint8_t *bytes, size_t size, struct forest *forest,
			   struct postings *postings)
{
	int rc = 0;

	while (size >= 3 && rc == 0) {
		enum record_kind kind = (enum record_kind)(bytes[0] % (RECORD_SERIES + 1));
		size_t length = (size_t)bytes[1] << 8 | bytes[2];

		bytes += 3;
		size -= 3;
		length = length < size ? length : size;
		rc = kind == RECORD_SERIES
			     ? postings_decode(postings, (struct bytes){ bytes, length }, NULL)
			     : forest_decode(forest, kind, (struct bytes){ bytes, length }, NULL);
		bytes += length;
		size -= length;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct forest *forest = forest_new();
	struct postings *postings = postings_new();

	check(forest && postings);
	decode_records(bytes, size, forest, postings);
	// What a damaged record left is not used by the store: only its memory must be sound.
	check_forest(forest);
	check_postings(postings);
	forest_free(forest);
	postings_unref(postings);
	return 0;
}

static void append_record(struct buffer *bytes, enum record_kind kind, const struct buffer *record)
{
	buffer_append_byte(bytes, (uint8_t)kind);
	buffer_append_byte(bytes, (uint8_t)(record->size >> 8));
	buffer_append_byte(bytes, (uint8_t)record->size);
	buffer_append(bytes, record->bytes, record->size);
}

static struct forest *good_forest(void)
{
	struct forest *forest = forest_new();
	struct profile *profile = profile_new(20 * NS_PER_MS);
	struct line line = { .number = 3 };
	uint32_t locations[3], stack, node;

	check(forest && profile);
	profile_add_string(profile, "main", &line.name);
	for (uint32_t i = 0; i < 3; i++) {
		struct location location = { .id = { i, i }, .kind = FRAME_KIND_NATIVE };

		profile_add_location(profile, &location, &line, i & 1, &locations[i]);
	}
	for (uint32_t i = 1; i <= 3; i++) {
		profile_add_stack(profile, locations, i, STACK_END_COMPLETE, &stack);
		check(!forest_add_stack(forest, profile, stack, &node));
	}
	profile_free(profile);
	return forest;
}

static void append_good_records(struct buffer *bytes)
{
	struct forest *forest = good_forest();
	struct postings *postings = postings_new();
	struct forest_mark none = { .nodes = 1 };
	struct labels labels = { 0 };
	struct buffer record = { 0 };
	uint32_t series;

	for (int kind = RECORD_STRINGS; kind <= RECORD_STACKS; kind++) {
		struct forest *empty = forest_new();

		none = forest_mark_of(empty);
		forest_free(empty);
		buffer_clear(&record);
		forest_encode(forest, (enum record_kind)kind, &none, &record);
		append_record(bytes, (enum record_kind)kind, &record);
	}
	check(postings && !labels_set(&labels, LABEL_SERVICE, "llm"));
	check(!postings_add(postings, (struct id128){ 1, 2 }, &labels, PROFILE_TYPE_CPU,
			    20 * NS_PER_MS, &series));
	buffer_clear(&record);
	postings_encode(postings, 0, &record);
	append_record(bytes, RECORD_SERIES, &record);
	labels_deinit(&labels);
	buffer_deinit(&record);
	postings_unref(postings);
	forest_free(forest);
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t size_max, unsigned int seed)
{
	(void)seed;
	if (size < 8) { // good records, which a fuzzer would hardly find
		struct buffer good = { 0 };

		append_good_records(&good);
		size = good.size <= size_max ? good.size : 0;
		memcpy(bytes, good.bytes, size);
		buffer_deinit(&good);
	}
	return LLVMFuzzerMutate(bytes, size, size_max);
}
