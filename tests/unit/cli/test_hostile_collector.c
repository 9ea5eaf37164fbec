// SPDX-License-Identifier: Apache-2.0
// Subject: cli/api_request.c
// What a hostile collector answers to commands steers no terminal.
#include "tests/test.h"

#include <jansson.h>

#include "cli/api_request.h"
#include "tests/unit/cli/answering_collector.h"

#define OK     "\n" // a status of 200: the tenth byte
#define NEXT   "\xff" OK
#define ESCAPE "\\u001b[2J\\u009b"

static const struct {
	const char *what;
	struct command_line line;
	const char *answers;
	const char *shown; // in its output
} rows[] = {
	{ "version of a collector",
	  { cmd_status, { "status" } },
	  OK "{\"agents\": []}" NEXT "{\"version\": \"1" ESCAPE "\"}",
	  "collector 1?[2J?? at" },
	{ "no JSON", { cmd_status, { "status" } }, OK "\x1b[2J", "the answer is no JSON" },
	{ "kind of a function",
	  { cmd_diff, { "diff", "web" } },
	  OK "{\"a\": {\"total\": 1}, \"b\": {\"total\": 1, \"divisor\": 1}, \"functions\": "
	     "[{\"name\": \"main\","
	     "\"kind\": \"" ESCAPE "\", \"self\": {\"b\": 1, \"significant\": true}}]}",
	  "main" },
	{ "reason of a refusal",
	  { cmd_query, { "query", "web" } },
	  "\x03{\"error\": {\"message\": \"" ESCAPE "\"}}",
	  "?[2J??" },
};

TEST(steers_no_terminal)
{
	for EACH (row, rows) {
		struct command_output output;

		collector_set_answers(row->answers, strlen(row->answers));
		command_line_run(&row->line, &output);
		if (!strstr(output.out, row->shown) && !strstr(output.errors, row->shown))
			fail_msg("%s: %s%s", row->what, output.out, output.errors);
		EXPECT_EQ(true, is_for_terminal(output.out, output.out_size), row->what);
		EXPECT_EQ(true, is_for_terminal(output.errors, output.errors_size), row->what);
		command_output_deinit(&output);
	}
}

TEST(cut_words_are_valid_text)
{
	json_t *object = json_pack("{s:s}", "note", "ab\xc3\xa9");
	char word[4];

	EXPECT_STR("ab?", json_word_of(object, "note", word, sizeof(word)), "cut");
	EXPECT_STR("", json_word_of(object, "other", word, sizeof(word)), "absent");
	json_decref(object);
}

RUN_TESTS(cmocka_unit_test(steers_no_terminal), cmocka_unit_test(cut_words_are_valid_text))
