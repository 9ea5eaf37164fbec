// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/symbol_name_cache.h"

#include <string.h>

#include "base/cleanup.h"
#include "tests/test.h"

TEST(finds_names_by_executable_and_symbol)
{
	_cleanup_(symbol_name_cache_deinit) struct symbol_name_cache names = { 0 };

	assert_string_equal("one", symbol_name_cache_add(&names, 1, 7, "one"));
	assert_string_equal("two", symbol_name_cache_add(&names, 2, 7, "two"));
	assert_string_equal("one", symbol_name_cache_find(&names, 1, 7));
	assert_string_equal("two", symbol_name_cache_find(&names, 2, 7));
	assert_null(symbol_name_cache_find(&names, 2, 8));
}

static const struct {
	const char *what;
	size_t length;
} lengths[] = {
	{ "names of one letter", 1 },
	{ "names of the usual length", 60 },
	{ "long names", 4000 },
};

TEST(counts_all_memory_against_its_limit)
{
	_cleanup_(symbol_name_cache_deinit) struct symbol_name_cache names = { 0 };
	char name[4001];

	// One cache for all rows: it keeps its memory when it is emptied.
	for EACH (row, lengths) {
		memset(name, 'f', row->length);
		name[row->length] = 0;
		for (uint32_t symbol = 0; symbol < 3 * SYMBOL_NAMES_MAX; symbol++)
			assert_non_null(symbol_name_cache_add(&names, row->length, symbol, name));
		bool is_bounded = symbol_name_cache_bytes(&names) <= SYMBOL_NAMES_BYTES_MAX;
		EXPECT_EQ(true, is_bounded, row->what);
		EXPECT_STR(name,
			   symbol_name_cache_find(&names, row->length, 3 * SYMBOL_NAMES_MAX - 1),
			   row->what);
	}
}

TEST(starts_anew_when_full)
{
	_cleanup_(symbol_name_cache_deinit) struct symbol_name_cache names = { 0 };

	for (uint32_t symbol = 0; symbol <= SYMBOL_NAMES_MAX; symbol++)
		assert_non_null(symbol_name_cache_add(&names, 1, symbol, "f"));
	assert_null(symbol_name_cache_find(&names, 1, SYMBOL_NAMES_MAX - 1));
	assert_string_equal("f", symbol_name_cache_find(&names, 1, SYMBOL_NAMES_MAX));
}

RUN_TESTS(cmocka_unit_test(finds_names_by_executable_and_symbol),
	  cmocka_unit_test(counts_all_memory_against_its_limit),
	  cmocka_unit_test(starts_anew_when_full))
