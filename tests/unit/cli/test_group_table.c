// SPDX-License-Identifier: Apache-2.0
#include "cli/group_table.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/test.h"

#define WALL "\"type\": \"wall:time:nanoseconds:wall:nanoseconds\", \"unit\": \"nanoseconds\""
#define RSS  "\"type\": \"memory:rss:bytes:gauge:second\", \"unit\": \"bytes\""

static const struct {
	const char *what, *answer;
	int rc;
	bool has_values;
	const char *text;
} rows[] = {
	{ "times",
	  "{" WALL
	  ", \"group_count\": 2, \"groups\": [{\"group\": \"blocked\", \"total\": 7500000000},"
	  "{\"group\": \"running\", \"total\": 2500000000}]}",
	  0, true,
	  "10.000 s in total\n share%                s  state\n"
	  "  75.00            7.500  blocked\n  25.00            2.500  running\n" },
	{ "a level, more groups",
	  "{" RSS ", \"group_count\": 9, \"groups\": [{\"group\": \"\", \"total\": 4096},"
	  "{\"group\": \"\\u001b\", \"total\": 0}, {\"group\": \"cut\", \"total\": 0}]}",
	  0, true,
	  "4096 bytes on average, in the 3 largest of 9\n share%            bytes  state\n"
	  " 100.00             4096  -\n   0.00                0  ?\n" },
	{ "series",
	  "{" WALL ", \"series\": [{\"group\": \"page_faults, off\", \"total\": 1000000000}]}", 0,
	  true,
	  "1.000 s in total\n share%                s  state\n"
	  " 100.00            1.000  page_faults, off\n" },
	{ "nothing", "{" WALL ", \"group_count\": 0, \"groups\": []}", 0, false,
	  "0.000 s in total\n share%                s  state\n" },
	{ "sums beyond 64 bits",
	  "{" WALL ", \"groups\": [{\"group\": \"a\", \"total\": 9223372036854775807},"
	  "{\"group\": \"b\", \"total\": 9223372036854775807}]}",
	  0, true,
	  "9223372036.855 s in total\n share%                s  state\n"
	  " 100.00   9223372036.855  a\n 100.00   9223372036.855  b\n" },
	{ "no groups", "{" WALL ", \"total\": 1, \"rows\": []}", -EBADMSG, true, "" },
	{ "functions", "{\"total\": 0, \"rows\": [{}]}", -EBADMSG, true, "" },
	{ "no object", "[]", -EBADMSG, false, "" },
};

TEST(prints_values_by_label)
{
	for EACH (row, rows) {
		json_t *root = json_loads(row->answer, 0, NULL);
		char *text = NULL;
		size_t size = 0;
		FILE *stream = open_memstream(&text, &size);

		EXPECT_EQ(row->has_values, group_table_has_values(root), row->what);
		EXPECT_EQ(row->rc, group_table_print(root, "state", 2, stream), row->what);
		fclose(stream);
		EXPECT_STR(row->text, text, row->what);
		free(text);
		json_decref(root);
	}
}

RUN_TESTS(cmocka_unit_test(prints_values_by_label))
