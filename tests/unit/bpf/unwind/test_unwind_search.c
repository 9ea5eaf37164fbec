// SPDX-License-Identifier: Apache-2.0
// What the BPF unwinder finds by searching: the rule of each byte of a table, and the mapping of an
// address, among thousands and where the words are broken.

#include "tests/unit/bpf/unwind/unwind_memory.h"

/* ---- rules --------------------------------------------------------------------------------- */

/* A generator that is the same everywhere (Marsaglia's xorshift). */
static uint32_t random_state = 1;

static uint32_t draw(uint32_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	return random_state % below;
}

enum { ROWS_MAX = 8 * TABLE_BLOCK_BYTES };

static struct recorded_row rows[ROWS_MAX];

/* Rows at random distances up to @step_max, over all of @blocks. */
static uint32_t draw_rows(uint32_t blocks, uint32_t step_max)
{
	uint32_t count = 0;

	for (uint32_t at = 0; at < blocks * TABLE_BLOCK_BYTES && count < ROWS_MAX;
	     at += 1 + draw(step_max))
		rows[count++] = (struct recorded_row){ at, draw(RULES) };
	return count;
}

static const struct unwind_rule *rule_at(uint32_t table, uint64_t offset)
{
	__u64 fills_line;

	return unwind_find_rule(table, offset, &fills_line);
}

/* Does row @row hold in all of the line of code with @at? */
static bool row_fills_line(uint32_t row, uint32_t count, uint32_t at)
{
	uint32_t line = at & ~(uint32_t)(CODE_LINE_BYTES - 1);

	return rows[row].address <= line &&
	       (row + 1 == count || rows[row + 1].address >= line + CODE_LINE_BYTES);
}

static void expect_rows_found(uint32_t blocks, uint32_t count, const char *what)
{
	uint32_t row = 0;

	for (uint32_t at = 0; at < blocks * TABLE_BLOCK_BYTES; at++) {
		while (row + 1 < count && rows[row + 1].address <= at)
			row++;
		__u64 fills_line;
		const struct unwind_rule *rule = unwind_find_rule(0, at, &fills_line);
		if (rule != &recorded.rules[rows[row].rule])
			fail_msg("%s: at 0x%x rule %td is found, not %u", what, at,
				 rule ? rule - recorded.rules : -1, rows[row].rule);
		if (fills_line != (row_fills_line(row, count, at) ? ~0ULL : 0))
			fail_msg("%s: at 0x%x the rule is of its line or not", what, at);
	}
}

static const struct {
	const char *what;
	uint32_t blocks, step_max;
} densities[] = {
	{ "a row for each byte", 7, 1 },
	{ "more rows than compilers write", 7, 8 },
	{ "as many as compilers write", 60, 100 },
	{ "few rows", 400, 3000 },
	{ "blocks without a row of their own", 400, 30000 },
	{ "one block", 1, 20 },
};

TEST(each_byte_has_the_rule_of_its_row)
{
	for EACH (c, densities)
		for (int turn = 0; turn < 5; turn++) {
			record_nothing();
			uint32_t count = draw_rows(c->blocks, c->step_max);

			record_table(0, c->blocks, rows, count);
			expect_rows_found(c->blocks, count, c->what);
			assert_null(rule_at(0, c->blocks * TABLE_BLOCK_BYTES + (2 << 20)));
		}
}

/* The index itself fills more than a page; an index word is the first of one, or the last. */
TEST(reads_an_index_across_pages)
{
	static const uint32_t blocks[] = { TABLE_PAGE_WORDS - 2, TABLE_PAGE_WORDS - 1,
					   TABLE_PAGE_WORDS, TABLE_PAGE_WORDS + 1,
					   2 * TABLE_PAGE_WORDS };

	for EACH (count, blocks) {
		record_nothing();
		for (uint32_t i = 0; i < *count; i++)
			rows[i] = (struct recorded_row){ i * TABLE_BLOCK_BYTES, i % RULES };
		record_table(0, *count, rows, *count);
		for (uint32_t i = 0; i < *count; i++)
			assert_ptr_equal(&recorded.rules[i % RULES],
					 rule_at(0, (uint64_t)i * TABLE_BLOCK_BYTES + 7));
	}
}

TEST(there_is_no_rule_outside_a_table)
{
	const struct recorded_row row = { 0, 1 };

	record_nothing();
	record_table(0, 2, &row, 1);
	assert_non_null(rule_at(0, 0));
	assert_non_null(rule_at(0, 2 * TABLE_BLOCK_BYTES - 1));
	assert_null(rule_at(0, 2 * TABLE_BLOCK_BYTES));
	assert_null(rule_at(0, 1ULL << 32));
	assert_null(rule_at(0, 1ULL << (32 + TABLE_BLOCK_BITS)));
	assert_null(rule_at(0, UINT64_MAX)); // an address below the table
	assert_null(rule_at(1, 0));          // there is no such table
}

static const struct {
	const char *what;
	uint32_t words[4]; // of a table of one block
} broken[] = {
	{ "rows beyond the table", { 100000, 100001 } },
	{ "an index that falls", { 3, 2 } },
	{ "no rows", { 2, 2 } },
	{ "more rows than a block has bytes", { 2, 2 + TABLE_BLOCK_ROWS_MAX + 1 } },
	{ "rows at the end of all words", { UINT32_MAX - 1, UINT32_MAX } },
	{ "a rule that there is not", { 2, 3, TABLE_RULE_MASK } },
};

TEST(broken_tables_give_no_rule)
{
	for EACH (c, broken) {
		record_nothing();
		record_words(0, c->words, 4);
		if (rule_at(0, 5))
			fail_msg("%s: a rule is found", c->what);
	}
}

/* ---- mappings ------------------------------------------------------------------------------ */

#define MAPPING_AT(i) (0x10000000ULL + (uint64_t)(i)*0x3000) // 2 pages, and a hole of one

/* @count mappings, each of a code of its own, in pages as they are published. */
static void record_mappings(uint32_t count)
{
	uint32_t leaves = (count + MAPPING_PAGE_ENTRIES - 1) / MAPPING_PAGE_ENTRIES;
	uint32_t first = leaves > 1;

	record_nothing();
	recorded.page_count = first + leaves;
	for (uint32_t page = 0; page < recorded.page_count; page++)
		for (uint32_t i = 0; i < MAPPING_PAGE_ENTRIES; i++)
			recorded.pages[page].starts[i] = MAPPING_START_UNUSED;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t leaf = i / MAPPING_PAGE_ENTRIES, at = i % MAPPING_PAGE_ENTRIES;

		recorded.pages[first + leaf].starts[at] = MAPPING_AT(i);
		recorded.pages[first + leaf].ranges[at] =
			(struct mapping_code_range){ i, 0x2000 >> MAPPING_UNIT_BITS,
						     MAPPING_CODE_TABLE + i };
		if (first && !at)
			recorded.pages[0].starts[leaf] = MAPPING_AT(i);
	}
}

static uint32_t code_at(uint64_t address)
{
	struct unwind unwind = { .process.mapping_page_count = recorded.page_count };

	return unwind_find_mapping(&unwind, address);
}

static const uint32_t mapping_counts[] = { 1, 2, 127, 128, 129, 256, 257, 5000, 16384 };

TEST(finds_each_of_5000_mappings_and_no_hole)
{
	for EACH (count, mapping_counts) {
		record_mappings(*count);
		for (uint32_t i = 0; i < *count; i++) {
			EXPECT_EQ(MAPPING_CODE_TABLE + i, code_at(MAPPING_AT(i)), "first byte");
			EXPECT_EQ(MAPPING_CODE_TABLE + i, code_at(MAPPING_AT(i) + 0x1fff),
				  "last byte");
			EXPECT_EQ(MAPPING_CODE_UNKNOWN, code_at(MAPPING_AT(i) + 0x2000),
				  "the hole");
		}
		EXPECT_EQ(MAPPING_CODE_UNKNOWN, code_at(MAPPING_AT(0) - 1), "below all");
		EXPECT_EQ(MAPPING_CODE_UNKNOWN, code_at(0), "no address");
		EXPECT_EQ(MAPPING_CODE_UNKNOWN, code_at(USER_ADDRESS_LIMIT - 1), "above all");
		EXPECT_EQ(MAPPING_CODE_UNKNOWN, code_at(MAPPING_START_UNUSED), "an unused place");
		EXPECT_EQ(MAPPING_CODE_UNKNOWN, code_at(UINT64_MAX), "the kernel");
	}
}

TEST(caches_a_mapping_only_within_its_range)
{
	struct unwind unwind = { 0 };

	record_mappings(200);
	unwind.process.mapping_page_count = recorded.page_count;
	for (int i = 0; i < 20000; i++) {
		uint32_t at = draw(200), offset = draw(0x3000);
		uint32_t expected =
			offset < 0x2000 ? MAPPING_CODE_TABLE + at : MAPPING_CODE_UNKNOWN;

		EXPECT_EQ(expected, unwind_find_mapping(&unwind, MAPPING_AT(at) + offset),
			  "after another one");
	}
}

/* A process of which the root is there, and a page below it is not. */
TEST(a_missing_page_ends_the_stack)
{
	record_mappings(300);
	recorded.page_count = 3;
	EXPECT_EQ(MAPPING_CODE_TABLE, code_at(MAPPING_AT(0)), "of those that are there");
	EXPECT_EQ(MAPPING_CODE_UNKNOWN, code_at(MAPPING_AT(299)), "in the missing page");
}

RUN_TESTS(cmocka_unit_test(each_byte_has_the_rule_of_its_row),
	  cmocka_unit_test(reads_an_index_across_pages),
	  cmocka_unit_test(there_is_no_rule_outside_a_table),
	  cmocka_unit_test(broken_tables_give_no_rule),
	  cmocka_unit_test(finds_each_of_5000_mappings_and_no_hole),
	  cmocka_unit_test(caches_a_mapping_only_within_its_range),
	  cmocka_unit_test(a_missing_page_ends_the_stack))
