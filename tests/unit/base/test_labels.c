// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/labels.h"

// "a=1 b=2", in the order they are kept.
static void show(const struct labels *labels, struct buffer *text)
{
	buffer_clear(text);
	for (uint32_t i = 0; i < labels->count; i++)
		buffer_printf(text, "%s%s=%s", i ? " " : "", labels->pairs[i].name,
			      labels->pairs[i].value);
}

TEST(labels_are_sorted_and_unique)
{
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	_cleanup_(buffer_deinit) struct buffer text = { 0 };

	EXPECT_EQ(0, labels_set(&labels, "service", "llm"), "add");
	EXPECT_EQ(0, labels_set(&labels, "node", "a17"), "add before");
	EXPECT_EQ(0, labels_set(&labels, "thread", "x"), "add after");
	EXPECT_EQ(0, labels_set(&labels, "service", "web"), "replace");
	show(&labels, &text);
	EXPECT_STR("node=a17 service=web thread=x", buffer_string(&text), "order");
	EXPECT_EQ(0, labels_set(&labels, "service", ""), "remove");
	EXPECT_EQ(0, labels_set(&labels, "absent", ""), "remove what is not there");
	show(&labels, &text);
	EXPECT_STR("node=a17 thread=x", buffer_string(&text), "removed");
	assert_null(labels_get(&labels, "service"));
	EXPECT_STR("a17", labels_get(&labels, "node"), "get");
}

static const struct {
	const char *name;
	int rc;
} names[] = {
	{ "a", 0 },         { "_9", 0 },        { "Az_0", 0 },      { "", -EINVAL },
	{ "9a", -EINVAL },  { "a-b", -EINVAL }, { "a b", -EINVAL }, { "h\xc3\xa9", -EINVAL },
	{ "a.b", -EINVAL },
};

TEST(names_follow_the_rule)
{
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	char longest[LABEL_NAME_BYTES_MAX + 2];

	for EACH (row, names)
		EXPECT_EQ(row->rc, labels_set(&labels, row->name, "v"), row->name);
	memset(longest, 'n', sizeof(longest));
	longest[LABEL_NAME_BYTES_MAX + 1] = 0;
	EXPECT_EQ(-EINVAL, labels_set(&labels, longest, "v"), "one byte too long");
	longest[LABEL_NAME_BYTES_MAX] = 0;
	EXPECT_EQ(0, labels_set(&labels, longest, "v"), "longest");
}

TEST(the_limit_refuses_and_changes_nothing)
{
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	char name[16];

	for (int i = 0; i < LABELS_MAX; i++) {
		snprintf(name, sizeof(name), "l%d", i);
		assert_int_equal(labels_set(&labels, name, "v"), 0);
	}
	EXPECT_EQ(-E2BIG, labels_set(&labels, "more", "v"), "one more");
	EXPECT_EQ(LABELS_MAX, labels.count, "count");
	EXPECT_EQ(0, labels_set(&labels, "l3", "w"), "replacing needs no room");
}

TEST(values_are_cut_and_made_valid_text)
{
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	char value[LABEL_VALUE_BYTES_MAX + 8];

	memset(value, 'v', sizeof(value));
	memcpy(value + LABEL_VALUE_BYTES_MAX - 2, "\xe2\x82\xac", 3);
	value[sizeof(value) - 1] = 0;
	assert_int_equal(labels_set(&labels, "long", value), 0);
	EXPECT_EQ(LABEL_VALUE_BYTES_MAX - 2, strlen(labels_get(&labels, "long")), "cut");
	assert_int_equal(labels_set(&labels, "comm",
				    "a\xff\xfe"
				    "b"),
			 0);
	EXPECT_STR("a??b", labels_get(&labels, "comm"), "not UTF-8");
}

TEST(an_id_is_of_names_and_values_alone)
{
	_cleanup_(labels_deinit) struct labels one = { 0 }, other = { 0 }, shifted = { 0 };

	labels_set(&one, "a", "bc");
	labels_set(&one, "d", "e");
	labels_set(&other, "d", "e");
	labels_set(&other, "a", "bc");
	labels_set(&shifted, "ab", "c");
	labels_set(&shifted, "d", "e");
	assert_true(id128_equal(labels_id(&one), labels_id(&other)));
	assert_false(id128_equal(labels_id(&one), labels_id(&shifted)));
}

TEST(a_copy_owns_its_strings)
{
	struct labels labels = { 0 };
	_cleanup_(labels_deinit) struct labels copy = { 0 };

	EXPECT_EQ(0, labels_copy(&labels, &copy), "empty");
	labels_set(&labels, "a", "1");
	labels_set(&labels, "b", "2");
	EXPECT_EQ(0, labels_copy(&labels, &copy), "two");
	labels_deinit(&labels);
	EXPECT_STR("2", labels_get(&copy, "b"), "after the original is gone");
}

static const struct {
	const char *pair;
	int rc;
	const char *name, *value;
} pairs[] = {
	{ "team=search", 0, "team", "search" }, { "url=a=b", 0, "url", "a=b" },
	{ "gone=", 0, "gone", NULL },           { "team", -EINVAL, NULL, NULL },
	{ "=x", -EINVAL, NULL, NULL },          { "", -EINVAL, NULL, NULL },
	{ "te am=x", -EINVAL, NULL, NULL },     { "1st=x", -EINVAL, NULL, NULL },
};

TEST(pairs_are_read_or_refused_with_a_remedy)
{
	for EACH (row, pairs) {
		_cleanup_(labels_deinit) struct labels labels = { 0 };
		struct error err = { 0 };

		EXPECT_EQ(row->rc, labels_parse_pair(&labels, row->pair, &err), row->pair);
		if (row->value)
			EXPECT_STR(row->value, labels_get(&labels, row->name), row->pair);
		else
			EXPECT_EQ(0, labels.count, row->pair);
		EXPECT_EQ(row->rc != 0, strstr(err.text, "label \"") != NULL, row->pair);
	}
}

TEST(a_pair_with_an_endless_name_is_refused)
{
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	struct error err = { 0 };
	char pair[1000];

	memset(pair, 'n', sizeof(pair));
	memcpy(pair + sizeof(pair) - 3, "=v", 3);
	EXPECT_EQ(-EINVAL, labels_parse_pair(&labels, pair, &err), "997 bytes");
	assert_non_null(strstr(err.text, "longer than 128 bytes"));
}

RUN_TESTS(cmocka_unit_test(labels_are_sorted_and_unique), cmocka_unit_test(names_follow_the_rule),
	  cmocka_unit_test(the_limit_refuses_and_changes_nothing),
	  cmocka_unit_test(values_are_cut_and_made_valid_text),
	  cmocka_unit_test(an_id_is_of_names_and_values_alone),
	  cmocka_unit_test(a_copy_owns_its_strings),
	  cmocka_unit_test(pairs_are_read_or_refused_with_a_remedy),
	  cmocka_unit_test(a_pair_with_an_endless_name_is_refused))
