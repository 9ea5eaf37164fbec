// SPDX-License-Identifier: Apache-2.0
// Chunks and raw runs give back the rows that they were made of, whole or in part, and damaged ones
// are refused without harm.
#include "tests/unit/collector/store/store_fixture.h"

#include "collector/store/rocksdb/chunk.h"
#include "collector/store/rocksdb/chunk_format.h"
#include "collector/store/rocksdb/record_limits.h"
#include "collector/store/rocksdb/raw_rows.h"

enum { ROWS_MAX = 6000 };

static uint64_t random_state = 1;

static uint32_t random_below(uint32_t below)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)((random_state >> 33) % below);
}

// ---- rows to compare ----------------------------------------------------------------------------------

struct rows {
	struct row rows[ROWS_MAX];
	uint32_t count;
};

static int compare_rows(const void *a, const void *b)
{
	const struct row *left = a, *right = b;

	if (left->series != right->series)
		return left->series < right->series ? -1 : 1;
	if (left->slot != right->slot)
		return left->slot < right->slot ? -1 : 1;
	if (left->more_slots != right->more_slots)
		return left->more_slots < right->more_slots ? -1 : 1;
	return left->node < right->node ? -1 : left->node > right->node;
}

/** Sort and add up equal rows. */
static void join(struct rows *rows)
{
	uint32_t kept = 0;

	qsort(rows->rows, rows->count, sizeof(*rows->rows), compare_rows);
	for (uint32_t i = 1; i < rows->count; i++) {
		if (compare_rows(&rows->rows[kept], &rows->rows[i]) == 0)
			rows->rows[kept].value = (int64_t)((uint64_t)rows->rows[kept].value +
							   (uint64_t)rows->rows[i].value);
		else
			rows->rows[++kept] = rows->rows[i];
	}
	rows->count = rows->count ? kept + 1 : 0;
}

/** What random rows are like. */
struct shape {
	const char *what;
	uint32_t count, series, slots, nodes;
	uint32_t values; // distinct ones; 0: any 64 bits
	uint32_t more;   // slots that a row covers beside its first, at most
};

static const struct shape shapes[] = {
	{ "one row", 1, 1, 1, 1, 1, 0 },
	{ "one series, one slot", 500, 1, 1, 400, 3, 0 },
	{ "one node", 3000, 5, 3000, 1, 1, 0 },
	{ "dense", 6000, 3, 50, 20, 4, 0 },
	{ "sparse", 6000, 400, 3000, 4000000, 30, 0 },
	{ "more values than a palette holds", 6000, 40, 3000, 500, 2000, 0 },
	{ "any value", 2000, 40, 3000, 500, 0, 0 },
	{ "slots of 1 ms", 6000, 4, 60000, 100, 10, 0 },
	{ "an interval", 1, 1, 1, 1, 1, 3000 },
	{ "short intervals", 6000, 5, 300, 20, 10, 2 },
	{ "long intervals", 1000, 40, 1500, 500, 0, 1500 },
	{ "intervals in slots of 1 ms", 300, 40, 60000, 500, 0, 60000 },
};

static int64_t random_value(const struct shape *shape)
{
	if (shape->values)
		return 10000000 + 1000 * (int64_t)random_below(shape->values);
	return (int64_t)((uint64_t)random_below(UINT32_MAX) << 33 ^ random_below(UINT32_MAX));
}

static struct rows *random_rows(const struct shape *shape)
{
	struct rows *rows = malloc(sizeof(*rows));

	rows->count = shape->count;
	for (uint32_t i = 0; i < shape->count; i++) {
		struct row *row = &rows->rows[i];

		*row = (struct row){ .series = random_below(shape->series) * 3 + 7,
				     .slot = random_below(shape->slots),
				     .node = random_below(shape->nodes) + 1,
				     .value = random_value(shape) };
		if (shape->more && row->series % 2)
			row->more_slots =
				random_below(shape->more + 1) % (MINUTE_SLOTS_MAX - row->slot);
	}
	return rows;
}

// ---- reading --------------------------------------------------------------------------------------------

enum { FIRST_SLOT = 1000000, PARTS_MAX = 3 };

struct receiving {
	struct rows *rows;
	bool with_slots;
};

static int receive(void *context, const struct store_rows *found)
{
	struct receiving *receiving = context;

	assert_int_equal(receiving->with_slots, found->slots != NULL);
	assert_true(found->slots || !found->more_slots);
	for (uint32_t i = 0; i < found->count; i++) {
		struct rows *rows = receiving->rows;

		assert_true(rows->count < ROWS_MAX);
		rows->rows[rows->count++] = (struct row){
			.series = found->series,
			.slot = found->slots ? (uint32_t)(found->slots[i] - FIRST_SLOT) : 0,
			.node = found->nodes[i],
			.more_slots = found->more_slots ? found->more_slots[i] : 0,
			.value = found->values[i],
		};
	}
	return 0;
}

static bool is_wanted_slot(const struct row_query *query, uint64_t slot)
{
	bool in_part = !query->part_count;

	for (uint32_t i = 0; i < query->part_count; i++)
		in_part |= slot >= query->parts[i].from && slot < query->parts[i].to;
	return in_part && slot >= query->from_slot && slot < query->to_slot;
}

static bool has_wanted_slot(const struct row_query *query, const struct row *row)
{
	for (uint64_t i = 0; i <= row->more_slots; i++)
		if (is_wanted_slot(query, FIRST_SLOT + row->slot + i))
			return true;
	return false;
}

/** What each slot has of an interval, one by one. */
static int64_t value_in_range(const struct row *row, const struct row_query *query)
{
	int64_t slots = (int64_t)row->more_slots + 1, rest = row->value % slots;
	uint64_t sum = 0;

	for (int64_t i = 0; i < slots; i++) {
		uint64_t slot = FIRST_SLOT + row->slot + (uint64_t)i;

		if (!is_wanted_slot(query, slot))
			continue;
		sum += (uint64_t)(row->value / slots);
		sum += (uint64_t)(i < rest) - (uint64_t)(i < -rest);
	}
	return (int64_t)sum;
}

/** Rows of @all that a query would give: every second series, numbered anew; slots in the range. */
static struct rows *expected_rows(const struct rows *all, const struct row_query *query)
{
	struct rows *rows = calloc(1, sizeof(*rows));

	for (uint32_t i = 0; i < all->count; i++) {
		struct row row = all->rows[i];

		if (!has_wanted_slot(query, &row) ||
		    row_query_number(query, row.series) == SERIES_UNWANTED)
			continue;
		row.series = row_query_number(query, row.series);
		if (query->detail == SCAN_SUMS)
			row.series = 0;
		if (query->detail != SCAN_ROWS) {
			row.value = value_in_range(&row, query);
			row.slot = row.more_slots = 0;
		}
		rows->rows[rows->count++] = row;
	}
	join(rows);
	return rows;
}

typedef int (*scan_fn)(struct bytes bytes, const struct row_query *query);

static int scan_chunk(struct bytes bytes, const struct row_query *query)
{
	struct chunk_decoder *decoder = chunk_decoder_new();
	int rc = chunk_decode(decoder, bytes, query);

	chunk_decoder_freep(&decoder);
	return rc;
}

static int scan_raw(struct bytes bytes, const struct row_query *query)
{
	struct row_columns scratch = { 0 };
	struct raw_rows rows;
	int rc = raw_rows_open(bytes, &rows);

	if (rc == 0) {
		rc = raw_rows_scan(&rows, query, &scratch);
		raw_rows_deinit(&rows);
	}
	row_columns_deinit(&scratch);
	return rc;
}

static void expect_rows(const struct rows *all, struct bytes bytes, scan_fn scan,
			struct row_query query, const char *what)
{
	struct rows *expected = expected_rows(all, &query);
	struct rows *actual = calloc(1, sizeof(*actual));
	struct receiving receiving = { actual, query.detail == SCAN_ROWS };

	query.context = &receiving;
	query.rows = receive;
	EXPECT_EQ(0, scan(bytes, &query), what);
	join(actual);
	EXPECT_EQ(expected->count, actual->count, what);
	for (uint32_t i = 0; i < expected->count; i++) {
		EXPECT_EQ(0, compare_rows(&expected->rows[i], &actual->rows[i]), what);
		EXPECT_EQ(expected->rows[i].value, actual->rows[i].value, what);
	}
	free(expected);
	free(actual);
}

/** Want some ranges of slots within the query's. */
static void choose_parts(struct row_query *query, const struct shape *shape,
			 struct slot_range ret_parts[PARTS_MAX])
{
	uint64_t at = query->from_slot;

	query->parts = ret_parts;
	while (query->part_count < PARTS_MAX) {
		struct slot_range *part = &ret_parts[query->part_count++];

		part->from = at + random_below(shape->slots / 3 + 1);
		at = part->to = part->from + 1 + random_below(shape->slots / 3 + 1);
	}
	query->to_slot = at;
}

/** All of it, parts of it, with and without slots. */
static void expect_all_ways(const struct rows *all, struct bytes bytes, scan_fn scan,
			    const struct shape *shape)
{
	struct slot_range parts[PARTS_MAX];
	uint32_t wanted[2000];

	for (uint32_t i = 0; i < ARRAY_SIZE(wanted); i++)
		wanted[i] = i % 2 ? i / 2 : SERIES_UNWANTED;
	for (int way = 0; way < 24; way++) {
		struct row_query query = { .first_slot = FIRST_SLOT, .to_slot = UINT64_MAX };

		query.wanted = way & 1 ? wanted : NULL;
		query.wanted_count = shape->series * 3; // some at the end are left out
		query.detail = (enum scan_detail)(way % 3);
		if (way & 4) {
			query.from_slot = FIRST_SLOT + random_below(shape->slots);
			query.to_slot = query.from_slot + random_below(shape->slots);
		}
		if (way >= 12) {
			query.from_slot = FIRST_SLOT;
			choose_parts(&query, shape, parts);
		}
		expect_rows(all, bytes, scan, query, shape->what);
	}
}

static int compare_series(const void *a, const void *b)
{
	const struct row *left = a, *right = b;

	return left->series < right->series ? -1 : left->series > right->series;
}

/** Encode as maintenance does: by series, in any order within. */
static struct buffer encode_chunk(const struct rows *rows, uint32_t minutes, bool sums)
{
	struct chunk_encoder *encoder = chunk_encoder_new();
	struct rows *copy = malloc(sizeof(*copy)), *joined = malloc(sizeof(*joined));
	struct buffer chunk = { 0 };
	uint32_t count;

	if (sums)
		chunk_encoder_write_sums(encoder);
	*copy = *joined = *rows;
	join(joined);
	qsort(copy->rows, copy->count, sizeof(*copy->rows), compare_series);
	assert_int_equal(0, chunk_encode(encoder, copy->rows, copy->count, TEST_SLOT_NS, minutes,
					 &chunk, &count));
	EXPECT_EQ(joined->count, count, "rows left");
	struct chunk_head head;
	assert_int_equal(0, chunk_read_head((struct bytes){ chunk.bytes, chunk.size }, &head));
	EXPECT_EQ(count, head.row_count, "rows in the head");
	free(copy);
	free(joined);
	chunk_encoder_freep(&encoder);
	return chunk;
}

static struct buffer encode_raw(struct rows *rows)
{
	struct buffer record = { 0 };

	assert_int_equal(0, rows_sort_by_slot(rows->rows, rows->count));
	assert_int_equal(0, raw_rows_encode(rows->rows, rows->count, TEST_SLOT_NS, &record));
	return record;
}

TEST(decodes_the_rows_of_a_chunk)
{
	static const struct {
		uint32_t minutes;
		bool sums;
	} kinds[] = { { 0, false }, { 1, false }, { 1, true }, { CHUNK_MINUTES_MAX, true } };

	for EACH (shape, shapes) {
		struct rows *rows = random_rows(shape);

		for EACH (kind, kinds) {
			struct buffer chunk = encode_chunk(rows, kind->minutes, kind->sums);
			struct rows *joined = malloc(sizeof(*joined));

			*joined = *rows;
			join(joined); // as a chunk does, before it is asked
			expect_all_ways(joined, (struct bytes){ chunk.bytes, chunk.size },
					scan_chunk, shape);
			buffer_deinit(&chunk);
			free(joined);
		}
		free(rows);
	}
}

TEST(refuses_to_encode_what_decoders_refuse)
{
	struct chunk_encoder *encoder = chunk_encoder_new();
	struct row row = { 0 };
	struct buffer bytes = { 0 };
	uint32_t count;

	// Refused before the first row is read: there is only one.
	EXPECT_EQ(
		-E2BIG,
		chunk_encode(encoder, &row, CHUNK_ROWS_LIMIT + 1, TEST_SLOT_NS, 0, &bytes, &count),
		"chunk");
	EXPECT_EQ(-E2BIG, raw_rows_encode(&row, RUN_ROWS_MAX + 1, TEST_SLOT_NS, &bytes), "run");
	buffer_deinit(&bytes);
	chunk_encoder_freep(&encoder);
}

TEST(decodes_the_rows_of_a_run)
{
	for EACH (shape, shapes) {
		struct rows *rows = random_rows(shape);
		struct buffer record = encode_raw(rows);

		expect_all_ways(rows, (struct bytes){ record.bytes, record.size }, scan_raw, shape);
		buffer_deinit(&record);
		free(rows);
	}
}

TEST(encoder_and_decoder_are_reusable)
{
	struct chunk_encoder *encoder = chunk_encoder_new();
	struct chunk_decoder *decoder = chunk_decoder_new();

	for (int i = 0; i < 40; i++) {
		const struct shape *shape = &shapes[random_below(ARRAY_SIZE(shapes))];
		struct rows *rows = random_rows(shape), *copy = malloc(sizeof(*copy));
		struct rows *actual = calloc(1, sizeof(*actual));
		struct receiving receiving = { actual, true };
		struct row_query query = { .first_slot = FIRST_SLOT,
					   .to_slot = UINT64_MAX,
					   .context = &receiving,
					   .rows = receive };
		struct buffer chunk = { 0 };
		uint32_t count;

		join(rows);
		*copy = *rows;
		assert_int_equal(0, chunk_encode(encoder, copy->rows, copy->count, TEST_SLOT_NS,
						 i % 3, &chunk, &count));
		assert_int_equal(0, chunk_decode(decoder, (struct bytes){ chunk.bytes, chunk.size },
						 &query));
		EXPECT_EQ(rows->count, actual->count, shape->what);
		buffer_deinit(&chunk);
		free(rows);
		free(copy);
		free(actual);
	}
	chunk_encoder_freep(&encoder);
	chunk_decoder_freep(&decoder);
}

static int refuse(void *context, const struct store_rows *found)
{
	(void)context;
	(void)found;
	return -ETIMEDOUT;
}

TEST(a_receiver_can_stop_the_scan)
{
	struct rows *rows = random_rows(&shapes[3]);
	struct buffer chunk = encode_chunk(rows, 1, false);
	struct row_query query = { .to_slot = UINT64_MAX, .rows = refuse };

	EXPECT_EQ(-ETIMEDOUT, scan_chunk((struct bytes){ chunk.bytes, chunk.size }, &query), "rc");
	buffer_deinit(&chunk);
	free(rows);
}

// ---- damage ---------------------------------------------------------------------------------------------

static int ignore(void *context, const struct store_rows *found)
{
	uint64_t *sum = context; // touch everything, for the sanitizers

	for (uint32_t i = 0; i < found->count; i++) {
		uint64_t slot = found->slots ? found->slots[i] : 0;

		*sum += found->nodes[i] + (uint64_t)found->values[i] + slot +
			(found->more_slots ? found->more_slots[i] : 0);
		if (slot >= MINUTE_SLOTS_MAX)
			fail_msg("slot %llu is not of the minute", (unsigned long long)slot);
	}
	return 0;
}

static void expect_no_harm(const uint8_t *bytes, size_t size, scan_fn scan, const char *what)
{
	uint64_t sum = 0;
	struct row_query query = { .to_slot = UINT64_MAX, .context = &sum, .rows = ignore };
	_cleanup_free_ uint8_t *copy = malloc(size + 1); // exactly as large as it says

	memcpy(copy, bytes, size);
	int rc = scan((struct bytes){ copy, size }, &query);
	if (rc != 0 && rc != -EBADMSG && rc != -ENOMEM)
		fail_msg("%s: rc is %d", what, rc);
}

/** Cut anywhere, every byte changed, and several at once. */
static void damage(const struct buffer *good, scan_fn scan)
{
	size_t step = good->size / 2000 + 1;

	for (size_t i = 0; i < good->size; i += step) {
		expect_no_harm(good->bytes, i, scan, "cut");
		uint8_t before = good->bytes[i];
		good->bytes[i] = (uint8_t)(before + 1 + random_below(255));
		expect_no_harm(good->bytes, good->size, scan, "one byte");
		good->bytes[i] = before;
	}
	for (int round = 0; round < 500; round++) {
		_cleanup_free_ uint8_t *copy = malloc(good->size);

		memcpy(copy, good->bytes, good->size);
		for (uint32_t i = 0; i < 1 + random_below(8); i++)
			copy[random_below((uint32_t)(good->size < 200 ? good->size : 200))] =
				(uint8_t)random_below(256);
		expect_no_harm(copy, good->size, scan, "several bytes");
	}
}

TEST(refuses_damaged_chunks)
{
	for EACH (shape, shapes) {
		struct rows *rows = random_rows(shape);
		struct buffer chunk = encode_chunk(rows, 1, false);
		uint64_t sum = 0;
		struct row_query query = { .to_slot = UINT64_MAX, .context = &sum, .rows = ignore };

		EXPECT_EQ(-EBADMSG,
			  scan_chunk((struct bytes){ chunk.bytes, chunk.size - 1 }, &query),
			  "a byte short");
		damage(&chunk, scan_chunk);
		buffer_deinit(&chunk);
		free(rows);
	}
}

TEST(refuses_damaged_runs)
{
	for EACH (shape, shapes) {
		struct rows *rows = random_rows(shape);
		struct buffer record = encode_raw(rows);
		uint64_t sum = 0;
		struct row_query query = { .to_slot = UINT64_MAX, .context = &sum, .rows = ignore };

		EXPECT_EQ(-EBADMSG,
			  scan_raw((struct bytes){ record.bytes, record.size - 1 }, &query),
			  "a byte short");
		damage(&record, scan_raw);
		buffer_deinit(&record);
		free(rows);
	}
}

TEST(radix_sort_equals_a_comparison_sort)
{
	for EACH (shape, shapes) {
		struct rows *rows = random_rows(shape);

		assert_int_equal(0, rows_sort_by_node(rows->rows, rows->count));
		for (uint32_t i = 1; i < rows->count; i++) {
			const struct row *a = &rows->rows[i - 1], *b = &rows->rows[i];

			assert_true(a->more_slots < b->more_slots ||
				    (a->more_slots == b->more_slots && a->node <= b->node));
		}
		assert_int_equal(0, rows_sort_by_slot(rows->rows, rows->count));
		for (uint32_t i = 1; i < rows->count; i++) {
			const struct row *a = &rows->rows[i - 1], *b = &rows->rows[i];

			assert_true(a->series < b->series ||
				    (a->series == b->series && a->slot <= b->slot));
			if (a->series == b->series && a->slot == b->slot)
				assert_true(a->more_slots < b->more_slots ||
					    a->node <= b->node); // stable
		}
		free(rows);
	}
}

RUN_TESTS(cmocka_unit_test(decodes_the_rows_of_a_chunk),
	  cmocka_unit_test(refuses_to_encode_what_decoders_refuse),
	  cmocka_unit_test(decodes_the_rows_of_a_run),
	  cmocka_unit_test(encoder_and_decoder_are_reusable),
	  cmocka_unit_test(a_receiver_can_stop_the_scan), cmocka_unit_test(refuses_damaged_chunks),
	  cmocka_unit_test(refuses_damaged_runs),
	  cmocka_unit_test(radix_sort_equals_a_comparison_sort))
