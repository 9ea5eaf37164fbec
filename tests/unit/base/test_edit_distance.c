// SPDX-License-Identifier: Apache-2.0
#include "base/edit_distance.h"

#include <string.h>

#include "tests/test.h"

TEST(counts_insertions_removals_and_replacements)
{
	static const struct {
		const char *a, *b;
		uint32_t distance;
	} rows[] = {
		{ "", "", 0 },
		{ "service", "service", 0 },
		{ "servce", "service", 1 },
		{ "services", "service", 1 },
		{ "serbice", "service", 1 },
		{ "", "node", 4 },
		{ "kitten", "sitting", 3 },
		{ "recrod", "record", 2 },
	};

	for EACH (row, rows) {
		EXPECT_EQ(row->distance, edit_distance(row->a, row->b), row->a);
		EXPECT_EQ(row->distance, edit_distance(row->b, row->a), row->b);
	}
}

TEST(compares_bounded_part_of_names)
{
	char a[4 * EDIT_DISTANCE_BYTES_MAX] = "", b[4 * EDIT_DISTANCE_BYTES_MAX] = "";

	memset(a, 'x', sizeof(a) - 1);
	memset(b, 'y', sizeof(b) - 1);
	EXPECT_EQ(EDIT_DISTANCE_BYTES_MAX, edit_distance(a, b), "no more");
}

RUN_TESTS(cmocka_unit_test(counts_insertions_removals_and_replacements),
	  cmocka_unit_test(compares_bounded_part_of_names))
