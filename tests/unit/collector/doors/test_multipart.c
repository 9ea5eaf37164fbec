// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include "collector/doors/multipart.h"

#define PART(name, body) \
	"--b\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n" body "\r\n"

TEST(finds_parts_by_name)
{
	static const struct {
		const char *type, *body, *name, *expected, *what;
	} rows[] = {
		{ "multipart/form-data; boundary=b", PART("a", "one") PART("c", "two") "--b--", "c",
		  "two", "second" },
		{ "Multipart/Form-Data; boundary=\"b\"", PART("a", "one") "--b--", "a", "one",
		  "quoted" },
		{ "multipart/form-data; boundary=b", PART("a", "") "--b--", "a", "", "empty" },
		{ "multipart/form-data; boundary=b", PART("a", "one") "--b--", "c", NULL,
		  "absent" },
		{ "multipart/form-data; boundary=b", PART("a", "one"), "a", NULL, "no end" },
		{ "multipart/form-data", PART("a", "one") "--b--", "a", NULL, "no boundary" },
		{ "text/plain; boundary=b", PART("a", "one") "--b--", "a", NULL, "another type" },
		{ "multipart/form-data; boundary=b", "--b\r\nX: file name=\"a\"x", "a", NULL,
		  "no body" },
		{ "multipart/form-data; boundary=b", "", "a", NULL, "nothing" },
	};

	for EACH (row, rows) {
		struct multipart_part part;
		bool found =
			multipart_find(row->type, row->body, strlen(row->body), row->name, &part);

		EXPECT_EQ(row->expected != NULL, found, row->what);
		if (!found)
			continue;
		EXPECT_EQ(strlen(row->expected), part.size, row->what);
		assert_memory_equal(row->expected, part.bytes, part.size);
	}
}

RUN_TESTS(cmocka_unit_test(finds_parts_by_name))
