// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/unwind_table_build.h"

#include <errno.h>

#include "base/cleanup.h"
#include "tests/unit/agent/unwind/table_text.h"

TEST(functions_become_rows_with_ends)
{
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	cfi_image_put_function(&image, 0x10, 0x20, CFI_PUSH_AFTER(4), 3);
	cfi_image_put_function(&image, 0x50, 0x10, NULL, 0);
	expect_rows("0 none | 10 7+8 = c-8 | 14 7+16 = c-8 | 30 none | 50 7+8 = c-8 | 60 none",
		    &image, CFI_TEXT_BYTES, "two functions");
}

TEST(sorts_functions)
{
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	for (uint32_t i = 600; i-- > 0;) // more than are put in place one by one
		cfi_image_put_function(&image, i * 16, 16, CFI_PUSH_AFTER(4), 3);
	struct unwind_table *table = build(&image);
	assert_int_equal(1200 + 1, table->row_count);
	for (uint32_t i = 0; i < 600; i++) {
		assert_int_equal(8, unwind_table_find(table, CFI_TEXT + i * 16)->cfa_offset);
		assert_int_equal(16, unwind_table_find(table, CFI_TEXT + i * 16 + 15)->cfa_offset);
	}
	unwind_table_free(table);
}

TEST(gaps_need_rows_but_alignment_does_not)
{
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	cfi_image_put_function(&image, 0x00, 0x11, CFI_PUSH_AFTER(4), 3); // 15 bytes to align
	cfi_image_put_function(&image, 0x20, 0x10, CFI_PUSH_AFTER(4), 3); // 16: code, may be
	cfi_image_put_function(&image, 0x40, 0x08, CFI_PUSH_AFTER(4), 3); // 4, but no alignment
	cfi_image_put_function(&image, 0x4c, 0x04, NULL, 0);
	expect_rows("0 7+8 = c-8 | 4 7+16 = c-8 | 20 7+8 = c-8 | 24 7+16 = c-8 | 30 none | "
		    "40 7+8 = c-8 | 44 7+16 = c-8 | 48 none | 4c 7+8 = c-8 | 50 none",
		    &image, 0x100, "gaps");
}

TEST(merges_equal_neighbours)
{
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	for (uint32_t i = 0; i < 8; i++)
		cfi_image_put_function(&image, i * 16, 16, NULL, 0);
	struct unwind_table *table = build(&image);
	assert_int_equal(2, table->row_count); // and the end
	assert_int_equal(1, table->block_count);
	assert_int_equal(2 + 2, table->word_count);
	assert_int_equal(CFI_TEXT, table->first_address);
	unwind_table_free(table);
}

TEST(the_first_of_overlapping_functions_wins)
{
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	cfi_image_put_function(&image, 0x20, 0x20, CFI_PUSH_AFTER(8), 3);
	cfi_image_put_function(&image, 0x10, 0x20, NULL, 0);              // reaches into it
	cfi_image_put_function(&image, 0x14, 0x04, CFI_PUSH_AFTER(1), 3); // lies in it
	cfi_image_put_function(&image, 0x10, 0x40, CFI_PUSH_AFTER(1), 3); // begins like it
	cfi_image_put_function(&image, 0x60, 0x10, CFI_PUSH_AFTER(2), 3); // twice the same
	cfi_image_put_function(&image, 0x60, 0x10, CFI_PUSH_AFTER(2), 3);
	expect_rows("0 none | 10 7+8 = c-8 | 30 7+16 = c-8 | 50 none | 60 7+8 = c-8 | "
		    "62 7+16 = c-8 | 70 none",
		    &image, 0x100, "overlaps");
}

TEST(each_block_begins_with_a_row)
{
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	cfi_image_put_function(&image, TABLE_BLOCK_BYTES + 4, 3 * TABLE_BLOCK_BYTES,
			       CFI_PUSH_AFTER(1), 3);
	struct unwind_table *table = build(&image);
	assert_int_equal(CFI_TEXT + TABLE_BLOCK_BYTES, table->first_address);
	assert_int_equal(4, table->block_count);
	for (uint32_t i = 0; i < table->block_count; i++) {
		assert_true(table->words[i] < table->words[i + 1]);
		assert_int_equal(0, table->words[table->words[i]] >> TABLE_RULE_BITS);
	}
	assert_int_equal(table->block_count + 1, table->words[0]);
	assert_int_equal(table->word_count, table->words[table->block_count]);
	assert_null(unwind_table_find(table, table->first_address - 1));
	assert_null(unwind_table_find(table, table->first_address + 4 * TABLE_BLOCK_BYTES));
	assert_null(unwind_table_find(table, 0));
	assert_null(unwind_table_find(table, UINT64_MAX));
	assert_int_equal(CFA_NO_TABLE, unwind_table_find(table, table->first_address + 3)->cfa);
	assert_int_equal(
		16,
		unwind_table_find(table, table->first_address + 3 * TABLE_BLOCK_BYTES)->cfa_offset);
	unwind_table_free(table);
}

/* ---- marks ----------------------------------------------------------------------------------- */

TEST(marks_split_rows)
{
	struct unwind_mark marks[] = { { CFI_TEXT + 0x22, CFI_TEXT + 0x30, RULE_PYTHON_EVAL },
				       { CFI_TEXT + 0x12, CFI_TEXT + 0x18, RULE_PYTHON_EVAL } };
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	cfi_image_put_function(&image, 0x10, 0x18, CFI_PUSH_AFTER(4), 3);
	struct unwind_table *table = build_marked(&image, marks, 2);
	EXPECT_STR("0 none | 10 7+8 = c-8 | 12 7+8 = c-8! | 14 7+16 = c-8! | 18 7+16 = c-8 | "
		   "22 7+16 = c-8! | 28 none! | 30 none",
		   rows_of(table, 0x100), "marked");
	unwind_table_free(table);
}

TEST(survives_empty_and_overlapping_marks)
{
	struct unwind_mark marks[] = { { CFI_TEXT, CFI_TEXT + 0x20, 1 },
				       { CFI_TEXT + 0x10, CFI_TEXT + 0x14, 1 },
				       { CFI_TEXT + 0x18, CFI_TEXT + 0x18, 1 },
				       { CFI_TEXT + 0x1c, CFI_TEXT + 0x02, 1 },
				       { UINT64_MAX, 0, 1 },
				       { 0, 1, 1 } };
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	cfi_image_put_function(&image, 0, 0x40, NULL, 0);
	struct unwind_table *table = build_marked(&image, marks, ARRAY_SIZE(marks));
	EXPECT_STR("0 7+8 = c-8! | 14 7+8 = c-8 | 40 none", rows_of(table, 0x100), "marked");
	unwind_table_free(table);
}

TEST(marks_do_not_reach_over_padding)
{
	struct unwind_mark mark = { CFI_TEXT + 0x14, CFI_TEXT + 0x1a, 1 };
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	cfi_image_put_function(&image, 0x10, 0x0a, NULL, 0);
	cfi_image_put_function(&image, 0x20, 0x10, CFI_PUSH_AFTER(4), 3);
	struct unwind_table *table = build_marked(&image, &mark, 1);
	EXPECT_STR("0 none | 10 7+8 = c-8 | 14 7+8 = c-8! | 1a 7+8 = c-8 | 24 7+16 = c-8 | 30 none",
		   rows_of(table, 0x100), "marked");
	unwind_table_free(table);
}

TEST(refuses_too_many_marks)
{
	static struct unwind_mark marks[UNWIND_MARKS_MAX + 1];
	struct unwind_table *table;
	struct cfi_image image;
	struct elf elf;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	assert_int_equal(0, cfi_image_open_cut(&image, CFI_IMAGE_BYTES, &elf));
	assert_int_equal(-E2BIG, unwind_table_build(&elf, marks, ARRAY_SIZE(marks),
						    UNWIND_TABLE_ROWS_MAX, &table, NULL));
	close(elf.fd);
}

RUN_TESTS(cmocka_unit_test(functions_become_rows_with_ends), cmocka_unit_test(sorts_functions),
	  cmocka_unit_test(gaps_need_rows_but_alignment_does_not),
	  cmocka_unit_test(merges_equal_neighbours),
	  cmocka_unit_test(the_first_of_overlapping_functions_wins),
	  cmocka_unit_test(each_block_begins_with_a_row), cmocka_unit_test(marks_split_rows),
	  cmocka_unit_test(survives_empty_and_overlapping_marks),
	  cmocka_unit_test(marks_do_not_reach_over_padding),
	  cmocka_unit_test(refuses_too_many_marks))
