// SPDX-License-Identifier: Apache-2.0
// Subject: collector/store/rocksdb/
// The examples of docs/format.md: the database after one batch, and after its minute was closed.
#include "collector/store/rocksdb/rocksdb.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "collector/store/rocksdb/key.h"
#include "tests/documented.h"
#include "tests/unit/proto/format_example.h"
#include "tests/unit/collector/store/store_fixture.h"

static struct store *open_store(const char *path)
{
	const struct store_options options = { .path = path };
	struct store *store = NULL;
	struct error err = { 0 };

	EXPECT_EQ(0, rocksdb_store_open(&options, &store, &err), err.text);
	return store;
}

static void append_example(struct store *store)
{
	const struct store_batch_id batch = { .agent = EXAMPLE_AGENT,
					      .boot = EXAMPLE_BOOT,
					      .sequence = EXAMPLE_SEQUENCE };
	struct profile *profile = example_profile();
	struct store_append_result result;

	assert_int_equal(0, store_append(store, &batch, profile, &result, NULL));
	assert_int_equal(0, result.unknown_stack_count);
	profile_free(profile);
}

/** Delete the batch's minute of the example's series. */
static void delete_example(struct store *store)
{
	struct selector selector = selector_of("{}");
	struct time_range range = { 1699999980 * NS_PER_SECOND, 1700000040 * NS_PER_SECOND };
	struct store_deletion deletion;

	assert_int_equal(0, store_delete(store, &selector, range, &deletion, NULL));
	EXPECT_EQ(1, deletion.series, "series");
	selector_deinit(&selector);
}

/** The example "NAME key" must have the key, "NAME value" the value of the family's entry @number. */
static void expect_entry(struct db *db, enum db_family family, int number, const char *name)
{
	static const uint8_t first[] = { 0 }, last[64] = { [0 ... 63] = 0xff };
	_cleanup_(db_iterator_freep) struct db_iterator *iterator =
		db_iterator_open(db, family, (struct bytes){ first, 1 },
				 (struct bytes){ last, sizeof(last) }, false);
	char example[64];

	for (int i = 0; i <= number; i++)
		assert_true(db_iterator_next(iterator));
	struct bytes key = db_iterator_key(iterator), value = db_iterator_value(iterator);
	snprintf(example, sizeof(example), "%s key", name);
	expect_documented("docs/format.md", example, key.at, key.size);
	snprintf(example, sizeof(example), "%s value", name);
	// The agent's entry has the time at which the batch arrived.
	if (family != DB_META || key.size != 1 + 2 * ID128_BYTES)
		expect_documented("docs/format.md", example, value.at, value.size);
}

TEST(a_database_is_as_documented)
{
	static const struct {
		const char *name;
		enum db_family family;
		int number;
	} open_entries[] = {
		{ "agent", DB_META, 0 },
		{ "format", DB_META, 1 },
		{ "run", DB_RAW, 0 },
		{ "partition", DB_DICTIONARY, 0 },
		{ "strings", DB_DICTIONARY, 1 },
		{ "locations", DB_DICTIONARY, 2 },
		{ "nodes", DB_DICTIONARY, 3 },
		{ "stacks", DB_DICTIONARY, 4 },
		{ "series", DB_DICTIONARY, 5 },
	}, closed_entries[] = {
		{ "tombstone", DB_DICTIONARY, 7 },
		{ "presence", DB_DICTIONARY, 6 },
		{ "chunk", DB_CHUNK, 0 },
	};
	char path[64];
	struct db *db;

	directory_new(path);
	struct store *store = open_store(path);
	append_example(store);
	store_close(store);
	assert_int_equal(0, db_open(path, 32 << 20, DB_READ_WRITE, &db, NULL));
	for EACH (entry, open_entries)
		expect_entry(db, entry->family, entry->number, entry->name);
	db_close(db);

	store = open_store(path);
	assert_int_equal(0, store_flush(store, NULL));
	delete_example(store);
	store_close(store);
	assert_int_equal(0, db_open(path, 32 << 20, DB_READ_WRITE, &db, NULL));
	for EACH (entry, closed_entries)
		expect_entry(db, entry->family, entry->number, entry->name);
	db_close(db);
	directory_remove(path);
}

RUN_TESTS(cmocka_unit_test(a_database_is_as_documented))
