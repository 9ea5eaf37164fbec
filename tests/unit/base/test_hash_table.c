// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/hash_table.h"
#include "base/id128.h"

enum { KEY_COUNT = 5000 };

static bool key_equal(const void *context, uint32_t item, const void *key)
{
	const uint32_t *keys = context;

	return keys[item] == *(const uint32_t *)key;
}

static uint64_t hash_of(uint32_t key)
{
	return hash64_of(&key, sizeof(key));
}

static uint32_t find(const struct hash_table *table, const uint32_t *keys, uint32_t key)
{
	return hash_table_find(table, hash_of(key), key_equal, keys, &key);
}

TEST(an_empty_table_finds_nothing)
{
	_cleanup_(hash_table_deinit) struct hash_table table = { 0 };
	uint32_t keys[] = { 7 };

	EXPECT_EQ(HASH_TABLE_NONE, find(&table, keys, 7), "never filled");
	EXPECT_EQ(-ENOENT, hash_table_remove(&table, hash_of(7), 0), "never filled");
	hash_table_clear(&table);
	EXPECT_EQ(HASH_TABLE_NONE, find(&table, keys, 7), "cleared");
}

TEST(a_full_table_still_ends_its_searches)
{
	_cleanup_(hash_table_deinit) struct hash_table table = { 0 };
	uint32_t keys[200];

	for (uint32_t i = 0; i < 200; i++) {
		keys[i] = i;
		assert_int_equal(hash_table_add(&table, hash_of(i), i), 0);
		EXPECT_EQ(HASH_TABLE_NONE, find(&table, keys, 1000), "absent key");
	}
	assert_true(table.slot_count > table.item_count);
}

// Random adds and removes beside a plain array of what should be there.
TEST(adds_and_removes_agree_with_a_plain_set)
{
	_cleanup_(hash_table_deinit) struct hash_table table = { 0 };
	_cleanup_free_ uint32_t *keys = calloc(KEY_COUNT, sizeof(*keys));
	_cleanup_free_ bool *is_there = calloc(KEY_COUNT, sizeof(*is_there));
	uint32_t count = 0;

	srandom(2);
	for (uint32_t i = 0; i < KEY_COUNT; i++)
		keys[i] = i * 7;
	for (int round = 0; round < 100000; round++) {
		uint32_t i = (uint32_t)random() % KEY_COUNT;
		uint32_t found = find(&table, keys, keys[i]);

		EXPECT_EQ(is_there[i] ? i : HASH_TABLE_NONE, found, "found or not");
		if (is_there[i])
			EXPECT_EQ(0, hash_table_remove(&table, hash_of(keys[i]), i), "remove");
		else
			EXPECT_EQ(0, hash_table_add(&table, hash_of(keys[i]), i), "add");
		is_there[i] = !is_there[i];
		count += is_there[i] ? 1 : -1;
		EXPECT_EQ(count, table.item_count, "count");
	}
	for (uint32_t i = 0; i < KEY_COUNT; i++)
		EXPECT_EQ(is_there[i] ? i : HASH_TABLE_NONE, find(&table, keys, keys[i]),
			  "at the end");
}

// All keys with one hash: the table is a list then, and still right; a run that wraps around the
// end of the slots is closed on removal.
TEST(separates_colliding_hashes)
{
	_cleanup_(hash_table_deinit) struct hash_table table = { 0 };
	uint32_t keys[12];

	for (uint32_t i = 0; i < 12; i++) {
		keys[i] = 100 + i;
		assert_int_equal(hash_table_add(&table, 15, i), 0);
	}
	for (uint32_t i = 0; i < 12; i += 2)
		EXPECT_EQ(0, hash_table_remove(&table, 15, i), "even ones");
	for (uint32_t i = 0; i < 12; i++) {
		uint32_t found = hash_table_find(&table, 15, key_equal, keys, &keys[i]);

		EXPECT_EQ(i % 2 ? i : HASH_TABLE_NONE, found, "odd ones stay");
	}
	EXPECT_EQ(-ENOENT, hash_table_remove(&table, 15, 0), "twice");
}

TEST(clear_keeps_memory)
{
	_cleanup_(hash_table_deinit) struct hash_table table = { 0 };
	uint32_t keys[] = { 5 };

	assert_int_equal(hash_table_add(&table, hash_of(5), 0), 0);
	uint32_t slot_count = table.slot_count;
	hash_table_clear(&table);
	EXPECT_EQ(HASH_TABLE_NONE, find(&table, keys, 5), "cleared");
	EXPECT_EQ(slot_count, table.slot_count, "memory");
	assert_int_equal(hash_table_add(&table, hash_of(5), 0), 0);
	EXPECT_EQ(0, find(&table, keys, 5), "added again");
}

RUN_TESTS(cmocka_unit_test(an_empty_table_finds_nothing),
	  cmocka_unit_test(a_full_table_still_ends_its_searches),
	  cmocka_unit_test(adds_and_removes_agree_with_a_plain_set),
	  cmocka_unit_test(separates_colliding_hashes), cmocka_unit_test(clear_keeps_memory))
