// SPDX-License-Identifier: Apache-2.0
// JSON as it is written: any bytes become valid JSON text, numbers keep every digit.
#include "tests/test.h"

#include <jansson.h>

#include "base/json_text.h"

static const struct {
	const char *what;
	const char *string;
	const char *json;
} strings[] = {
	{ "empty", "", "\"\"" },
	{ "plain", "main", "\"main\"" },
	{ "quote and backslash", "a\"b\\c", "\"a\\\"b\\\\c\"" },
	{ "control bytes", "a\n\x01\x1f", "\"a\\u000a\\u0001\\u001f\"" },
	{ "delete", "\x7f", "\"\\u007f\"" },
	{ "two bytes", "ä", "\"ä\"" },
	{ "three bytes", "€", "\"€\"" },
	{ "four bytes", "\xf0\x9f\x94\xa5", "\"\xf0\x9f\x94\xa5\"" },
	{ "lone byte",
	  "a\xff"
	  "b",
	  "\"a\xef\xbf\xbd"
	  "b\"" },
	{ "cut character", "\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
	{ "cut at the end of four", "x\xf0\x9f\x94", "\"x\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
	{ "overlong slash", "\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
	{ "surrogate", "\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
	{ "markup", "</script>", "\"</script>\"" },
};

TEST(writes_strings_as_valid_json)
{
	for EACH (row, strings) {
		struct buffer buffer = { 0 };
		json_error_t error;

		json_append_string(&buffer, row->string);
		EXPECT_STR(row->json, buffer_string(&buffer), row->what);
		json_t *json = json_loads(buffer_string(&buffer), JSON_DECODE_ANY, &error);
		if (!json)
			fail_msg("%s: %s", row->what, error.text);
		json_decref(json);
		buffer_deinit(&buffer);
	}
}

TEST(numbers_keep_every_digit)
{
	const int64_t numbers[] = { 0, -1, 9, 10, INT64_MAX, INT64_MIN };
	struct buffer buffer = { 0 };

	json_append_ints(&buffer, numbers, 6);
	EXPECT_STR("[0,-1,9,10,9223372036854775807,-9223372036854775808]", buffer_string(&buffer),
		   "signed");
	buffer_clear(&buffer);
	json_append_uint(&buffer, UINT64_MAX);
	EXPECT_STR("18446744073709551615", buffer_string(&buffer), "unsigned");
	buffer_clear(&buffer);
	json_append_ints(&buffer, NULL, 0);
	EXPECT_STR("[]", buffer_string(&buffer), "none");
	buffer_deinit(&buffer);
}

RUN_TESTS(cmocka_unit_test(writes_strings_as_valid_json),
	  cmocka_unit_test(numbers_keep_every_digit))
