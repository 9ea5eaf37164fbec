// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include "agent/stacks/location_cache.h"
#include "base/hash_table.h"

static const struct location_key known = { .owner = { 7, 1 }, .address = 0x1000, .detail = 3 };

TEST(finds_a_frame_by_all_of_its_key)
{
	static const struct {
		const char *what;
		struct location_key key;
		uint32_t location;
	} cases[] = {
		{ "the same", { .owner = { 7, 1 }, .address = 0x1000, .detail = 3 }, 5 },
		{ "another file",
		  { .owner = { 8, 1 }, .address = 0x1000, .detail = 3 },
		  HASH_TABLE_NONE },
		{ "other symbols",
		  { .owner = { 7, 2 }, .address = 0x1000, .detail = 3 },
		  HASH_TABLE_NONE },
		{ "another address",
		  { .owner = { 7, 1 }, .address = 0x1001, .detail = 3 },
		  HASH_TABLE_NONE },
		{ "another detail",
		  { .owner = { 7, 1 }, .address = 0x1000, .detail = 4 },
		  HASH_TABLE_NONE },
	};
	struct location_cache cache = { 0 };

	EXPECT_EQ(HASH_TABLE_NONE, location_cache_find(&cache, &known), "in an empty one");
	location_cache_add(&cache, &known, 5);
	for EACH (c, cases)
		EXPECT_EQ(c->location, location_cache_find(&cache, &c->key), c->what);
	location_cache_clear(&cache);
	EXPECT_EQ(HASH_TABLE_NONE, location_cache_find(&cache, &known), "cleared");
	location_cache_deinit(&cache);
}

TEST(stays_right_when_frames_evict_each_other)
{
	struct location_cache cache = { 0 };
	uint32_t found = 0;

	for (uint32_t i = 0; i < 4 * LOCATION_CACHE_ENTRIES_MAX; i++) {
		struct location_key key = { .owner = { 1 + i % 5, 0 }, .address = i };

		location_cache_add(&cache, &key, i);
		EXPECT_EQ(i, location_cache_find(&cache, &key), "the newest");
	}
	for (uint32_t i = 0; i < 4 * LOCATION_CACHE_ENTRIES_MAX; i++) {
		struct location_key key = { .owner = { 1 + i % 5, 0 }, .address = i };
		uint32_t location = location_cache_find(&cache, &key);

		if (location != HASH_TABLE_NONE)
			EXPECT_EQ(i, location, "its own");
		found += location != HASH_TABLE_NONE;
	}
	assert_in_range(found, 1, LOCATION_CACHE_ENTRIES_MAX);
	location_cache_deinit(&cache);
}

TEST(rejects_empty_entries)
{
	static const struct location_key nobodys = { .address = 0x1000 };
	struct location_cache cache = { 0 };

	location_cache_add(&cache, &nobodys, 5);
	location_cache_add(&cache, &known, HASH_TABLE_NONE);
	assert_null(cache.entries);
	location_cache_add(&cache, &known, 5);
	EXPECT_EQ(HASH_TABLE_NONE, location_cache_find(&cache, &nobodys), "an empty entry");
	location_cache_deinit(&cache);
}

RUN_TESTS(cmocka_unit_test(finds_a_frame_by_all_of_its_key),
	  cmocka_unit_test(stays_right_when_frames_evict_each_other),
	  cmocka_unit_test(rejects_empty_entries))
