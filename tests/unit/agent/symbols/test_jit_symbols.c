// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/jit_symbols.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tests/test.h"

static int add(struct jit_symbols *symbols, uint64_t start, uint64_t size, const char *name)
{
	return jit_symbols_add(symbols, start, size, name, strlen(name));
}

static const char *find(struct jit_symbols *symbols, uint64_t address)
{
	const char *name = jit_symbols_find(symbols, address);

	return name ? name : "";
}

TEST(finds_a_function_from_start_to_end)
{
	struct jit_symbols *symbols = jit_symbols_new();

	assert_null(jit_symbols_find(symbols, 0x1000));
	assert_int_equal(0, add(symbols, 0x2000, 0x10, "second"));
	assert_int_equal(0, add(symbols, 0x1000, 0x10, "first"));
	assert_string_equal("first", find(symbols, 0x1000));
	assert_string_equal("first", find(symbols, 0x100f));
	assert_string_equal("", find(symbols, 0x1010));
	assert_string_equal("second", find(symbols, 0x2008));
	assert_string_equal("", find(symbols, 0xfff));
	jit_symbols_free(symbols);
}

TEST(newer_functions_cover_older_ones)
{
	struct jit_symbols *symbols = jit_symbols_new();

	add(symbols, 0x1000, 0x1000, "arena");
	add(symbols, 0x1100, 0x10, "a");
	assert_string_equal("a", find(symbols, 0x1100));
	add(symbols, 0x1108, 0x10, "b");
	assert_string_equal("arena", find(symbols, 0x10ff));
	assert_string_equal("a", find(symbols, 0x1107));
	assert_string_equal("b", find(symbols, 0x1108));
	assert_string_equal("arena", find(symbols, 0x1118));
	add(symbols, 0, 0x10000, "all");
	assert_string_equal("all", find(symbols, 0x1108));
	jit_symbols_free(symbols);
}

static const struct {
	const char *what;
	uint64_t start, size;
	const char *name;
	uint64_t address;
	const char *found;
} rows[] = {
	{ "empty", 0x1000, 0, "a", 0x1000, "" },
	{ "too large", 0x1000, 1ULL << 32, "a", 0x1000, "" },
	{ "in the kernel", 0xffffffff81000000, 16, "a", 0xffffffff81000000, "" },
	{ "around the end", UINT64_MAX, 16, "a", 5, "" },
	{ "no name", 0x1000, 16, "", 0x1000, "" },
	{ "at zero", 0, 16, "a", 0, "a" },
	{ "largest", 0x1000, UINT32_MAX, "a", 0x1000ULL + UINT32_MAX - 1, "a" },
};

TEST(leaves_out_senseless_functions)
{
	for EACH (row, rows) {
		struct jit_symbols *symbols = jit_symbols_new();

		EXPECT_EQ(0, add(symbols, row->start, row->size, row->name), row->what);
		EXPECT_STR(row->found, find(symbols, row->address), row->what);
		jit_symbols_free(symbols);
	}
}

/* Every address has the function that came last. */
TEST(the_last_function_counts_in_any_order)
{
	enum { ADDRESSES = 256, ROUNDS = 100000 };
	struct jit_symbols *symbols = jit_symbols_new();
	uint32_t last[ADDRESSES] = { 0 };

	srand(11);
	for (uint32_t round = 1; round < ROUNDS; round++) {
		uint32_t start = (uint32_t)rand() % ADDRESSES;
		uint32_t size = 1 + (uint32_t)rand() % (rand() % 8 ? 8 : ADDRESSES - start);
		char name[64];

		snprintf(name, sizeof(name), "function-with-a-name-of-some-length-%u", round);
		assert_int_equal(0, add(symbols, start, size, name));
		for (uint32_t i = start; i < start + size && i < ADDRESSES; i++)
			last[i] = round;
		if (rand() % 100)
			continue;
		for (uint32_t i = 0; i < ADDRESSES; i++) {
			snprintf(name, sizeof(name), "function-with-a-name-of-some-length-%u",
				 last[i]);
			assert_string_equal(last[i] ? name : "", find(symbols, i));
		}
	}
	assert_true(jit_symbols_bytes(symbols) < 2 << 20); // names of replaced functions were freed
	jit_symbols_free(symbols);
}

TEST(bounds_functions_and_names)
{
	struct jit_symbols *symbols = jit_symbols_new();
	char name[2 * JIT_NAME_BYTES_MAX];
	int rc = 0;

	memset(name, 'x', sizeof(name));
	assert_int_equal(0, jit_symbols_add(symbols, 1ULL << 40, 16, name, sizeof(name)));
	assert_int_equal(JIT_NAME_BYTES_MAX, strlen(find(symbols, 1ULL << 40)));
	for (uint64_t i = 0; !rc; i++)
		rc = add(symbols, 32 * i, 16, "f");
	assert_int_equal(-E2BIG, rc);
	assert_string_equal("f", find(symbols, 32 * (JIT_SYMBOLS_MAX - 2)));
	assert_true(jit_symbols_bytes(symbols) < 32 << 20);

	jit_symbols_clear(symbols);
	assert_int_equal(0, jit_symbols_bytes(symbols));
	rc = 0;
	for (uint64_t i = 0; !rc; i++)
		rc = jit_symbols_add(symbols, 32 * i, 16, name, sizeof(name));
	assert_int_equal(-E2BIG, rc);
	assert_true(jit_symbols_bytes(symbols) <= 2 * JIT_NAMES_BYTES_MAX);
	for (uint64_t i = 0; i < 1000; i++) // stays full, and reports it at once
		assert_int_equal(-E2BIG, jit_symbols_add(symbols, 32 * i, 16, name, sizeof(name)));
	jit_symbols_free(symbols);
}

/* Each would cost a merge of all. */
TEST(is_full_when_merging_makes_no_room)
{
	struct jit_symbols *symbols = jit_symbols_new();
	uint32_t again = 0;

	for (uint64_t i = 0; i + 1 < JIT_SYMBOLS_MAX; i++)
		assert_int_equal(0, add(symbols, 32 * i, 16, "f"));
	assert_string_equal("f", find(symbols, 0));
	while (add(symbols, 0, 16, "again") == 0 && again < 100)
		again++;
	assert_in_range(again, 1, 2);
	assert_string_equal("again", find(symbols, 0));
	jit_symbols_free(symbols);
}

/* One large function with a long name, cut into very many parts. */
TEST(parts_of_a_function_share_its_name)
{
	struct jit_symbols *symbols = jit_symbols_new();
	char name[JIT_NAME_BYTES_MAX];

	memset(name, 'x', sizeof(name));
	jit_symbols_add(symbols, 0, 1 << 28, name, sizeof(name));
	for (uint64_t i = 0; i < 100000; i++)
		add(symbols, 1024 * i, 16, "some function with a name");
	for (uint64_t i = 0; i < 100000; i++)
		add(symbols, 1024 * i, 16, "its next version, compiled better");
	assert_int_equal(sizeof(name), strlen(find(symbols, 1024 * 99999 + 16)));
	assert_true(jit_symbols_bytes(symbols) < 20 << 20);
	jit_symbols_free(symbols);
}

RUN_TESTS(cmocka_unit_test(finds_a_function_from_start_to_end),
	  cmocka_unit_test(newer_functions_cover_older_ones),
	  cmocka_unit_test(leaves_out_senseless_functions),
	  cmocka_unit_test(the_last_function_counts_in_any_order),
	  cmocka_unit_test(bounds_functions_and_names),
	  cmocka_unit_test(is_full_when_merging_makes_no_room),
	  cmocka_unit_test(parts_of_a_function_share_its_name))
