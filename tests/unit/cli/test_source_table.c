// SPDX-License-Identifier: Apache-2.0
#include "cli/source_table.h"

#include <errno.h>

#include "tests/test.h"

static char *print(const char *text)
{
	json_t *root = json_loads(text, 0, NULL);
	char *printed = NULL;
	size_t size;
	FILE *stream = open_memstream(&printed, &size);

	assert_non_null(root);
	assert_int_equal(0, source_table_print(root, stream));
	fclose(stream);
	json_decref(root);
	return printed;
}

#define LINES                                                                       \
	"{\"line\":7,\"self\":0,\"total\":0,\"text\":\"def f(x):\"},"               \
	"{\"line\":8,\"self\":20,\"total\":50,\"text\":\"\\treturn \\u001b[0mx\"}," \
	"{\"line\":20,\"self\":5,\"total\":5}"

TEST(prints_lines_with_text_and_origin)
{
	char *text = print(
		"{\"function\":\"f (a.py)\",\"total\":100,\"function_self\":25,"
		"\"function_total\":50,\"file_count\":3,\"files\":[{\"path\":\"/srv/a.py\","
		"\"service\":\"shop\",\"version\":\"1.4\",\"lines\":[" LINES "],\"source\":{"
		"\"path\":\"a.py\",\"from\":\"upload\",\"version\":\"1.4\",\"uploaded\":1764410400,"
		"\"who\":\"token:ci\",\"is_version\":true,\"others\":0,\"names_function\":true,"
		"\"is_short\":true}}]}");

	EXPECT_STR("f (a.py): self 25.00 %, total 50.00 %\n"
		   "\n"
		   "/srv/a.py  shop 1.4\n"
		   "text: a.py of version 1.4, uploaded 2025-11-29 10:00 UTC by token:ci\n"
		   "note: the text ends before some of these lines: it is another version\n"
		   "  self%  total%   line\n"
		   "                     7  def f(x):\n"
		   "  20.00   50.00      8      return ?[0mx\n"
		   "                    ...\n"
		   "   5.00    5.00     20  \n"
		   "\n"
		   "2 more files, services or versions have it\n",
		   text, "lines");
	free(text);
}

TEST(says_what_is_missing_or_in_doubt)
{
	static const struct {
		const char *file, *says;
	} rows[] = {
		{ "\"missing\":\"not_found\"", "cairn upload --sources" },
		{ "\"missing\":\"no_path\"", "--lines" },
		{ "\"missing\":\"not_text\"", "4 MiB" },
		{ "\"source\":{\"from\":\"folder\",\"modified\":1764410400}",
		  "from a folder of the collector, modified 2025-11-29 10:00 UTC\n" },
		{ "\"source\":{\"from\":\"folder\"}", "not known whether this version ran" },
		{ "\"version\":\"1\",\"source\":{\"from\":\"upload\",\"version\":\"2\"}",
		  "another version ran" },
		{ "\"source\":{\"from\":\"folder\"}", "may be another file" },
		{ "\"source\":{\"from\":\"folder\",\"others\":2}", "2 more uploads" },
	};
	char answer[512];

	for EACH (row, rows) {
		snprintf(answer, sizeof(answer), "{\"files\":[{\"path\":\"\",\"lines\":[],%s}]}",
			 row->file);
		char *text = print(answer);
		if (!strstr(text, row->says))
			fail_msg("%s: %s", row->file, text);
		free(text);
	}
}

TEST(refuses_another_answer)
{
	json_t *root = json_loads("{\"rows\":[]}", 0, NULL);

	EXPECT_EQ(-EBADMSG, source_table_print(root, stdout), "no files");
	EXPECT_EQ(false, source_table_has_lines(root), "none");
	json_decref(root);
}

RUN_TESTS(cmocka_unit_test(prints_lines_with_text_and_origin),
	  cmocka_unit_test(says_what_is_missing_or_in_doubt),
	  cmocka_unit_test(refuses_another_answer))
