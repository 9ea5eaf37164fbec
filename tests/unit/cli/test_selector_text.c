// SPDX-License-Identifier: Apache-2.0
#include "cli/selector_text.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "tests/test.h"

static const struct {
	const char *what;
	const char *selector;
	bool names;       // the label wait
	const char *with; // x="y"; NULL: not understood
} rows[] = {
	{ "everything", "", false, "{x=\"y\"}" },
	{ "spaces", "  ", false, "{x=\"y\"}" },
	{ "a service", "llm", false, "{service=\"llm\", x=\"y\"}" },
	{ "a service with the label's name", "wait", false, "{service=\"wait\", x=\"y\"}" },
	{ "no matchers", "{ }", false, "{ x=\"y\"}" },
	{ "one", " {a=\"b\"} ", false, "{a=\"b\", x=\"y\"}" },
	{ "the label", "{a=\"b\",wait!=\"lock\"}", true, "{a=\"b\",wait!=\"lock\", x=\"y\"}" },
	{ "the label, spaces", "{ wait =~ \"lock|gil\" }", true,
	  "{ wait =~ \"lock|gil\" , x=\"y\"}" },
	{ "longer names", "{wait_time=\"a\", await=\"b\"}", false,
	  "{wait_time=\"a\", await=\"b\", x=\"y\"}" },
	{ "in quotes", "{a=\"{wait=\"}", false, "{a=\"{wait=\", x=\"y\"}" },
	{ "after an escaped quote", "{a=\"\\\"wait\"}", false, "{a=\"\\\"wait\", x=\"y\"}" },
	{ "no end", "{a=\"b\"", false, NULL },
	{ "quotes without an end", "{a=\"wait", false, NULL },
	{ "a word with a quote", "a\"b", false, NULL },
};

TEST(adds_matcher_to_selector)
{
	for EACH (row, rows) {
		_cleanup_free_ char *with = selector_text_with(row->selector, "x=\"y\"");

		EXPECT_EQ(row->names, selector_text_names(row->selector, "wait"), row->what);
		EXPECT_EQ(!row->with, !with, row->what);
		if (row->with)
			EXPECT_STR(row->with, with, row->what);
	}
}

TEST(finds_service_of_selector)
{
	static const struct {
		const char *selector, *service;
	} selectors[] = {
		{ "", "" },
		{ " shop ", "shop" },
		{ "{service=\"shop\"}", "shop" },
		{ "{node=\"service=x\", service =~ \"sh.*\", a=\"b\"}", "sh.*" },
		{ "{a=\"service\"}", "" },
		{ "{service=\"\", service!=\"x\"}", "x" },
		{ "{service=", "" },
		{ "{service=\"shop", "shop" },
	};

	for EACH (row, selectors) {
		char service[SELECTOR_VALUE_BYTES];

		selector_text_service(row->selector, service);
		EXPECT_STR(row->service, service, row->selector);
	}
}

RUN_TESTS(cmocka_unit_test(finds_service_of_selector), cmocka_unit_test(adds_matcher_to_selector))
