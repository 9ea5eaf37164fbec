// SPDX-License-Identifier: Apache-2.0
// Mappings as the BPF unwinder searches them: every address is where it belongs.

#include <errno.h>
#include <stdlib.h>

#include "tests/test.h"

#include "agent/publish/mapping_pages.h"

#define PAGE 0x1000ULL

/* What the pages say of an address, found as the unwinder does it, but step by step. */
struct found {
	uint32_t code; // MAPPING_CODE_UNKNOWN: in no range
	uint64_t bias;
};

static uint32_t last_not_above(const struct mapping_page *page, uint64_t address)
{
	uint32_t at = 0;

	for (uint32_t i = 1; i < MAPPING_PAGE_ENTRIES; i++)
		if (page->starts[i] <= address)
			at = i;
	return at;
}

static struct found look_up(const struct mapping_pages *pages, uint64_t address)
{
	struct mapping_page page;
	uint32_t at;

	if (!mapping_pages_count(pages))
		return (struct found){ 0 };
	mapping_pages_write(pages, 0, &page);
	at = last_not_above(&page, address);
	if (mapping_pages_count(pages) > 1) {
		mapping_pages_write(pages, at + 1, &page);
		at = last_not_above(&page, address);
	}
	if (address < page.starts[at] ||
	    address - page.starts[at] >= (uint64_t)page.ranges[at].units << MAPPING_UNIT_BITS)
		return (struct found){ 0 };
	return (struct found){ page.ranges[at].code, page.ranges[at].bias };
}

static struct unwind_extent extent_of(uint64_t first_address, uint32_t page_count)
{
	return (struct unwind_extent){
		.first_address = first_address,
		.block_count = (uint32_t)(page_count * (PAGE / TABLE_BLOCK_BYTES)),
		.segment_count = 1,
		.segments = { { .offset = 0x2000, .address = 0x402000, .size = 8 * PAGE } },
	};
}

/* A file's segment, mapped as a whole at 0x10000; the table is number 5. */
static const struct {
	const char *what;
	uint64_t file_offset;
	uint64_t first_address; // of the table
	uint32_t pages;         // that it covers
	const char *codes;      // of the 8 pages: T table, N none, in order
	uint64_t bias;
} tables[] = {
	{ "all", 0x2000, 0x402000, 8, "TTTTTTTT", 0x10000 },
	{ "the end is not covered", 0x2000, 0x402000, 5, "TTTTTNNN", 0x10000 },
	{ "the beginning is not covered", 0x2000, 0x405000, 8, "NNNTTTTT", 0x13000 },
	{ "the middle", 0x2000, 0x403000, 2, "NTTNNNNN", 0x11000 },
	{ "the table begins earlier", 0x2000, 0x400000, 4, "TTNNNNNN", 0x0e000 },
	{ "mapped from the middle on", 0x4000, 0x402000, 8, "TTTTTTNN", 0x0e000 },
	{ "the table lies before", 0x4000, 0x402000, 2, "NNNNNNNN", 0 },
	{ "the table lies behind", 0x2000, 0x40a000, 2, "NNNNNNNN", 0 },
	{ "the file offset is in no segment", 0x20000, 0x402000, 8, "NNNNNNNN", 0 },
	{ "no blocks", 0x2000, 0x402000, 0, "NNNNNNNN", 0 },
	{ "a hostile first address", 0x2000, 0xffffffffffff0000, 8, "NNNNNNNN", 0 },
	{ "a hostile address that wraps", 0x2000, 0x8000000000402000, 0xffffffff, "NNNNNNNN", 0 },
};

TEST(a_table_holds_within_its_range_only)
{
	for EACH (row, tables) {
		struct mapping_pages pages = { 0 };
		struct mapping mapping = {
			.start = 0x10000,
			.limit = 0x18000,
			.file_offset = row->file_offset,
		};
		struct unwind_extent extent = extent_of(row->first_address, row->pages);

		assert_int_equal(0, mapping_pages_add_table(&pages, &mapping, &extent, 5));
		for (uint64_t i = 0; i < 8; i++) {
			struct found found = look_up(&pages, 0x10000 + i * PAGE + PAGE / 2);
			bool covered = row->codes[i] == 'T';

			EXPECT_EQ(covered ? MAPPING_CODE_TABLE + 5 : MAPPING_CODE_NONE, found.code,
				  row->what);
			EXPECT_EQ(covered ? row->bias : 0, found.bias, row->what);
		}
		EXPECT_EQ(MAPPING_CODE_UNKNOWN, look_up(&pages, 0xffff).code, row->what);
		EXPECT_EQ(MAPPING_CODE_UNKNOWN, look_up(&pages, 0x18000).code, row->what);
		mapping_pages_deinit(&pages);
	}
}

TEST(a_table_may_end_within_a_page)
{
	struct mapping_pages pages = { 0 };
	struct mapping mapping = { .start = 0x10000, .limit = 0x18000, .file_offset = 0x2000 };
	struct unwind_extent extent = extent_of(0x402000 + TABLE_BLOCK_BYTES, 0);

	extent.block_count = 1;
	assert_int_equal(0, mapping_pages_add_table(&pages, &mapping, &extent, 5));
	EXPECT_EQ(MAPPING_CODE_NONE, look_up(&pages, 0x10000 + TABLE_BLOCK_BYTES - 1).code,
		  "before");
	EXPECT_EQ(MAPPING_CODE_TABLE + 5, look_up(&pages, 0x10000 + TABLE_BLOCK_BYTES).code,
		  "its first byte");
	EXPECT_EQ(MAPPING_CODE_TABLE + 5, look_up(&pages, 0x10000 + 2 * TABLE_BLOCK_BYTES - 1).code,
		  "its last byte");
	EXPECT_EQ(MAPPING_CODE_NONE, look_up(&pages, 0x10000 + 2 * TABLE_BLOCK_BYTES).code,
		  "behind it");
	mapping_pages_deinit(&pages);
}

TEST(merges_neighbours_of_equal_code)
{
	struct mapping_pages pages = { 0 };
	struct unwind_extent extent = extent_of(0x402000, 8);
	struct mapping halves[2] = { { 0x10000, 0x14000, .file_offset = 0x2000 },
				     { 0x14000, 0x18000, .file_offset = 0x6000 } };

	assert_int_equal(0, mapping_pages_add(&pages, 0x1000, 0x2000, MAPPING_CODE_JIT));
	assert_int_equal(0, mapping_pages_add(&pages, 0x2000, 0x3000, MAPPING_CODE_JIT));
	assert_int_equal(0, mapping_pages_add(&pages, 0x4000, 0x5000, MAPPING_CODE_JIT));
	EXPECT_EQ(2, pages.count, "a gap divides");
	assert_int_equal(0, mapping_pages_add_table(&pages, &halves[0], &extent, 1));
	assert_int_equal(0, mapping_pages_add_table(&pages, &halves[1], &extent, 1));
	EXPECT_EQ(3, pages.count, "a file in two mappings, split by mprotect()");
	EXPECT_EQ(8 * PAGE, (uint64_t)pages.ranges[2].code.units << MAPPING_UNIT_BITS,
		  "its length");
	mapping_pages_deinit(&pages);
}

static const uint32_t counts[] = { 0,    1,    127,  128,   129,   255,   256,  257,
				   5000, 6399, 6400, 16383, 16384, 16385, 20000 };

TEST(finds_each_range_whatever_their_number)
{
	for EACH (count, counts) {
		struct mapping_pages pages = { 0 };
		uint32_t held = *count < MAPPING_RANGES_MAX ? *count : MAPPING_RANGES_MAX;

		// Every other page, with different codes, so that nothing is merged.
		for (uint64_t i = 0; i < *count; i++)
			assert_int_equal(0, mapping_pages_add(&pages, (i + 1) * 2 * PAGE,
							      ((i + 1) * 2 + 1) * PAGE,
							      1 + (uint32_t)i));
		EXPECT_EQ(*count - held, pages.cut, "what does not fit is counted");
		EXPECT_EQ(held ? (held + 127) / 128 + (held > 128) : 0, mapping_pages_count(&pages),
			  "pages");
		EXPECT_EQ(0, look_up(&pages, PAGE).code, "before all");
		for (uint64_t i = 0; i<held; i += held> 1000 ? 61 : 1) {
			uint64_t start = (i + 1) * 2 * PAGE;

			EXPECT_EQ(1 + i, look_up(&pages, start).code, "its first byte");
			EXPECT_EQ(1 + i, look_up(&pages, start + PAGE - 1).code, "its last byte");
			EXPECT_EQ(0, look_up(&pages, start + PAGE).code, "behind it");
		}
		mapping_pages_deinit(&pages);
	}
}

TEST(leaves_out_addresses_above_user_space)
{
	struct mapping_pages pages = { 0 };

	// vsyscall
	assert_int_equal(0, mapping_pages_add(&pages, 0xffffffffff600000, 0xffffffffff601000,
					      MAPPING_CODE_NONE));
	assert_int_equal(0, mapping_pages_add(&pages, 0x2000, 0x2000, MAPPING_CODE_NONE));
	assert_int_equal(0, mapping_pages_add(&pages, 0x3000, 0x2000, MAPPING_CODE_NONE));
	EXPECT_EQ(0, pages.count, "nor empty or inverted ranges");
	// 4 TiB and more of JIT code, reserved ahead
	assert_int_equal(0, mapping_pages_add(&pages, PAGE, 1ULL << 56, MAPPING_CODE_JIT));
	EXPECT_EQ(MAPPING_CODE_JIT, look_up(&pages, 1ULL << 41).code, "as long as it can be");
	mapping_pages_deinit(&pages);
}

TEST(merges_jit_ranges_beyond_the_limit)
{
	struct mapping_pages pages = { 0 };

	mapping_pages_clear_coarse(&pages);
	for (uint64_t i = 1; i <= 20000; i++)
		assert_int_equal(0, mapping_pages_add(&pages, i * 2 * PAGE, (i * 2 + 1) * PAGE,
						      MAPPING_CODE_JIT));
	assert_int_equal(
		0, mapping_pages_add(&pages, 1ULL << 40, (1ULL << 40) + PAGE, MAPPING_CODE_NONE));
	assert_int_equal(
		0, mapping_pages_add(&pages, 1ULL << 41, (1ULL << 41) + PAGE, MAPPING_CODE_JIT));
	EXPECT_EQ(0, pages.cut, "all of it has room");
	EXPECT_EQ(MAPPING_CODE_JIT, look_up(&pages, 2 * PAGE).code, "the first");
	EXPECT_EQ(MAPPING_CODE_JIT, look_up(&pages, 40000 * PAGE).code, "the last");
	EXPECT_EQ(MAPPING_CODE_UNKNOWN, look_up(&pages, 40001 * PAGE).code, "behind it");
	EXPECT_EQ(MAPPING_CODE_NONE, look_up(&pages, 1ULL << 40).code, "a file");
	EXPECT_EQ(MAPPING_CODE_UNKNOWN, look_up(&pages, (1ULL << 40) + PAGE).code, "behind it");
	EXPECT_EQ(MAPPING_CODE_JIT, look_up(&pages, 1ULL << 41).code, "after a file");
	mapping_pages_deinit(&pages);
}

TEST(equal_pages_have_equal_hashes)
{
	struct mapping_pages pages = { 0 };

	mapping_pages_add(&pages, 0x1000, 0x2000, MAPPING_CODE_UNKNOWN);
	uint64_t before = mapping_pages_hash(&pages);
	mapping_pages_clear(&pages);
	mapping_pages_add(&pages, 0x1000, 0x2000, MAPPING_CODE_UNKNOWN);
	assert_true(before == mapping_pages_hash(&pages));
	mapping_pages_clear(&pages);
	mapping_pages_add(&pages, 0x1000, 0x2000, MAPPING_CODE_TABLE);
	assert_true(before != mapping_pages_hash(&pages));
	mapping_pages_deinit(&pages);
}

RUN_TESTS(cmocka_unit_test(a_table_holds_within_its_range_only),
	  cmocka_unit_test(a_table_may_end_within_a_page),
	  cmocka_unit_test(merges_neighbours_of_equal_code),
	  cmocka_unit_test(finds_each_range_whatever_their_number),
	  cmocka_unit_test(leaves_out_addresses_above_user_space),
	  cmocka_unit_test(merges_jit_ranges_beyond_the_limit),
	  cmocka_unit_test(equal_pages_have_equal_hashes))
