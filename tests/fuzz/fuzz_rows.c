// SPDX-License-Identifier: Apache-2.0
// Any bytes as a chunk and as a run of rows: refused as damaged, or rows within the minute. The first
// byte says which, and what is read of it.

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "collector/store/rocksdb/chunk.h"
#include "collector/store/rocksdb/raw_rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t size_max);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t size_max, unsigned int seed);

enum { FIRST_SLOT = 1000000, SEED_ROWS = 40 };

static void check(bool condition)
{
	if (!condition)
		abort();
}

static int receive(void *context, const struct store_rows *rows)
{
	uint64_t *sum = context;

	for (uint32_t i = 0; i < rows->count; i++) {
		*sum += (uint64_t)rows->values[i] + (rows->nodes ? rows->nodes[i] : 0);
		check(!rows->slots || (rows->slots[i] >= FIRST_SLOT &&
				       rows->slots[i] < FIRST_SLOT + MINUTE_SLOTS_MAX));
	}
	return 0;
}

static void read_chunk(struct bytes bytes, const struct row_query *query)
{
	struct chunk_decoder *decoder = chunk_decoder_new();

	check(decoder);
	chunk_decode(decoder, bytes, query);
	chunk_decoder_freep(&decoder);
}

static void read_run(struct bytes bytes, const struct row_query *query)
{
	struct row_columns scratch = { 0 };
	struct raw_rows rows;

	if (raw_rows_open(bytes, &rows))
		return;
	raw_rows_scan(&rows, query, &scratch);
	raw_rows_deinit(&rows);
	row_columns_deinit(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	uint8_t way = size ? bytes[0] : 0;
	uint64_t sum = 0;
	static const struct slot_range parts[] = { { FIRST_SLOT + 1, FIRST_SLOT + 2 },
						   { FIRST_SLOT + 4, FIRST_SLOT + 9 } };
	struct bytes rest = { bytes + (size ? 1 : 0), size ? size - 1 : 0 };
	struct row_query query = { .first_slot = FIRST_SLOT,
				   .from_slot = way & 2 ? FIRST_SLOT + 10 : 0,
				   .to_slot = way & 4 ? FIRST_SLOT + 20 : UINT64_MAX,
				   .parts = parts,
				   .part_count = way & 64 ? 2 : 0,
				   .detail = (enum scan_detail)(way >> 3 & 3) % (SCAN_SUMS + 1),
				   .without_nodes = way & 32,
				   .context = &sum,
				   .rows = receive };

	(way & 1 ? read_chunk : read_run)(rest, &query);
	return 0;
}

/** A good chunk or run, which a fuzzer would hardly find. */
static size_t good_rows(uint8_t *bytes, size_t size_max, unsigned int seed)
{
	struct chunk_encoder *encoder = chunk_encoder_new();
	struct row rows[SEED_ROWS] = { 0 };
	struct buffer buffer = { 0 };
	uint32_t count;

	check(encoder);
	for (uint32_t i = 0; i < SEED_ROWS; i++)
		rows[i] = (struct row){ .series = i / 8,
					.slot = i % 8,
					.node = i % 5,
					.more_slots = seed & 2 && i % 3 == 0 ? 2 : 0,
					.value = 10000 * (int64_t)(i % 7) };
	buffer_append_byte(&buffer, (uint8_t)seed);
	if (seed & 256)
		chunk_encoder_write_sums(encoder);
	if (seed & 1)
		chunk_encode(encoder, rows, SEED_ROWS, 20 * NS_PER_MS, seed / 4 % 3, &buffer,
			     &count);
	else
		raw_rows_encode(rows, SEED_ROWS, 20 * NS_PER_MS, &buffer);
	size_t size = buffer.size <= size_max ? buffer.size : 0;
	memcpy(bytes, buffer.bytes, size);
	buffer_deinit(&buffer);
	chunk_encoder_freep(&encoder);
	return size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t size_max, unsigned int seed)
{
	if (size < 8)
		size = good_rows(bytes, size_max, seed);
	return LLVMFuzzerMutate(bytes, size, size_max);
}
