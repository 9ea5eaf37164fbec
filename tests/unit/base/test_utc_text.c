// SPDX-License-Identifier: Apache-2.0
#include "base/utc_text.h"

#include "tests/test.h"

TEST(writes_any_time)
{
	static const struct {
		uint64_t unix_s;
		const char *text;
	} rows[] = {
		{ 0, "1970-01-01 00:00 UTC" },
		{ 1795838759, "2026-11-28 04:05 UTC" },
		{ 4102444800, "2100-01-01 00:00 UTC" },
		{ UINT64_MAX / 2, "?" }, // a year of more than 31 bits
	};
	char text[UTC_TEXT_BYTES];

	for EACH (row, rows)
		EXPECT_STR(row->text, utc_text(row->unix_s, text), row->text);
}

RUN_TESTS(cmocka_unit_test(writes_any_time))
