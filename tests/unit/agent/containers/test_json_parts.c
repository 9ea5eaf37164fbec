// SPDX-License-Identifier: Apache-2.0
#include "agent/containers/json_parts.h"

#include <errno.h>

#include "tests/test.h"

/* The parts found, each with its kind before it. */
struct found {
	char text[4096];
	int rc; // what on_part() answers
};

static int on_part(void *context, enum json_part part, const char *text, size_t size)
{
	struct found *found = context;

	assert_int_equal(size, strlen(text));
	if (size > 1000)
		text = "(long)";
	snprintf(found->text + strlen(found->text), sizeof(found->text) - strlen(found->text),
		 "%c%s;", "EMI"[part], text);
	return found->rc;
}

static const struct {
	const char *what;
	enum json_shape shape;
	const char *text, *parts;
	int rc, end_rc;
} cases[] = {
	{ "events", JSON_EVENTS, "{\"a\":{}}\n{\"b\":[1]}\n", "E{\"a\":{}};E{\"b\":[1]};", 0, 0 },
	{ "brackets in strings", JSON_EVENTS, "{\"a\":\"}{\\\"}\\\\\"}",
	  "E{\"a\":\"}{\\\"}\\\\\"};", 0, 0 },
	{ "cut", JSON_EVENTS, "{\"a\":{}", "", 0, -EBADMSG },
	{ "cut in a string", JSON_EVENTS, "{\"a", "", 0, -EBADMSG },
	{ "nothing", JSON_EVENTS, "", "", 0, 0 },
	{ "no object", JSON_EVENTS, "[{}]", "", -EBADMSG, -EBADMSG },
	{ "closed too often", JSON_EVENTS, "{}}", "E{};", -EBADMSG, 0 },
	{ "a list", JSON_LIST,
	  "{\"kind\":\"PodList\",\"metadata\":{\"x\":1},\"items\":[{\"a\":[{}]},{\"b\":2}]}\n",
	  "M{\"x\":1};I{\"a\":[{}]};I{\"b\":2};", 0, 0 },
	{ "metadata last", JSON_LIST, "{\"items\":[{}],\"metadata\":{}}", "I{};M{};", 0, 0 },
	{ "no items", JSON_LIST, "{\"metadata\":{},\"items\":null}", "M{};", 0, 0 },
	{ "other members", JSON_LIST,
	  "{\"other\":[{}],\"more\":{\"items\":[{}],\"metadata\":{}},\"items\":[{}]}", "I{};", 0,
	  0 },
	{ "a key with an escape", JSON_LIST, "{\"ite\\u006ds\":[{}]}", "", 0, 0 },
	{ "a long key", JSON_LIST, "{\"metadatametadatametadata\":{},\"items\":[]}", "", 0, 0 },
};

/* Cut at @step bytes. */
static void feed(size_t row, size_t step)
{
	struct found found = { 0 };
	struct json_parts parts;
	size_t size = strlen(cases[row].text);
	int rc = 0;

	json_parts_init(&parts, cases[row].shape);
	for (size_t i = 0; i < size && !rc; i += step)
		rc = json_parts_feed(&parts, cases[row].text + i, size - i < step ? size - i : step,
				     on_part, &found);
	EXPECT_EQ(cases[row].rc, rc, cases[row].what);
	EXPECT_STR(cases[row].parts, found.text, cases[row].what);
	if (!rc)
		EXPECT_EQ(cases[row].end_rc, json_parts_end(&parts), cases[row].what);
	json_parts_deinit(&parts);
}

TEST(cuts_streams_into_parts)
{
	for (size_t row = 0; row < sizeof(cases) / sizeof(*cases); row++)
		for (size_t step = 1; step < 100; step++)
			feed(row, step);
}

TEST(a_part_that_is_too_large_is_dropped)
{
	static char large[JSON_PART_BYTES_MAX + 100];
	struct found found = { 0 };
	struct json_parts parts;

	json_parts_init(&parts, JSON_EVENTS);
	memset(large, 'x', sizeof(large));
	assert_int_equal(0, json_parts_feed(&parts, "{\"a\":\"", 6, on_part, &found));
	assert_int_equal(0, json_parts_feed(&parts, large, sizeof(large), on_part, &found));
	assert_int_equal(0, json_parts_feed(&parts, "\"}{\"b\":1}", 9, on_part, &found));
	assert_string_equal("E{\"b\":1};", found.text);
	assert_int_equal(1, parts.dropped);
	assert_true(parts.part.capacity < JSON_PART_BYTES_MAX);
	json_parts_deinit(&parts);
}

TEST(depth_is_bounded)
{
	struct found found = { 0 };
	struct json_parts parts;
	int rc = 0, depth = 0;

	json_parts_init(&parts, JSON_EVENTS);
	for (; !rc; depth++)
		rc = json_parts_feed(&parts, "{", 1, on_part, &found);
	assert_int_equal(-EBADMSG, rc);
	assert_int_equal(JSON_DEPTH_MAX + 1, depth);
	json_parts_deinit(&parts);
}

TEST(a_reader_may_end_it)
{
	struct found found = { .rc = -ESTALE };
	struct json_parts parts;

	json_parts_init(&parts, JSON_EVENTS);
	assert_int_equal(-ESTALE, json_parts_feed(&parts, "{}{}", 4, on_part, &found));
	assert_string_equal("E{};", found.text);
	json_parts_deinit(&parts);
}

RUN_TESTS(cmocka_unit_test(cuts_streams_into_parts),
	  cmocka_unit_test(a_part_that_is_too_large_is_dropped), cmocka_unit_test(depth_is_bounded),
	  cmocka_unit_test(a_reader_may_end_it))
