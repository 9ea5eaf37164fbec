// SPDX-License-Identifier: Apache-2.0
#include "cli/no_match.h"

#include <errno.h>

#include "base/contract/profile_types.h"
#include "tests/test.h"

#define LABELS   "[\"node\", \"process\", \"service\", \"state\"]"
#define SERVICES "[\"a\", \"b\", \"cairn-agent\", \"checkout\", \"shop\", \"sshd\", \"z\"]"
#define NEAREST  "services there: shop, sshd, a, b, z, ..."

static const struct {
	const char *what, *selector, *labels, *services, *types, *text;
} rows[] = {
	{ "a bare service", "shp", LABELS, SERVICES, "[]",
	  "no series match {service=\"shp\"} in 12:00-12:15 UTC; " NEAREST },
	{ "a service in a selector", "{service=\"shp\", node=\"a\"}", LABELS, SERVICES, "[]",
	  "no series match {service=\"shp\", node=\"a\"} in 12:00-12:15 UTC; " NEAREST },
	{ "no service", "{node=\"a\"}", LABELS, "[\"shop\"]", "[]",
	  "no series match {node=\"a\"} in 12:00-12:15 UTC; services there: shop" },
	{ "a mistyped label", "{servce=\"shop\"}", LABELS, SERVICES, "[]",
	  "there is no label \"servce\" in 12:00-12:15 UTC: did you mean \"service\"?" },
	{ "another mistyped label", "{service=\"shop\",stat=~\"run.*\"}", LABELS, SERVICES, "[]",
	  "there is no label \"stat\" in 12:00-12:15 UTC: did you mean \"state\"?" },
	{ "an unknown label", "{datacenter=\"x\"}", LABELS, SERVICES, "[]",
	  "there is no label \"datacenter\" in 12:00-12:15 UTC; labels there: " },
	{ "a tenant", "{tenant=\"x\"}", LABELS, "[]", "[]",
	  "no series match {tenant=\"x\"} in 12:00-12:15 UTC" },
	{ "another type", "shop", LABELS, SERVICES, "[\"" PROFILE_TYPE_WALL "\", \"a:b:c:d:e\"]",
	  "no samples of type cpu match {service=\"shop\"} in 12:00-12:15 UTC; types there: wall, "
	  "a:b:c:d:e" },
	{ "an empty store", "shop", "[]", "[]", "[]",
	  "nothing is stored in 12:00-12:15 UTC; `cairn status` shows whether agents report" },
	{ "no answer", "shop", "{", "[]", "[]",
	  "nothing is stored in 12:00-12:15 UTC; `cairn status` shows whether agents report" },
	{ "hostile names", "{x\033=\"y\"}", LABELS, "[\"\\u001b[2J\", 7]", "[]",
	  "there is no label \"x\" in 12:00-12:15 UTC; labels there: node, state, process, "
	  "service" },
};

TEST(explains_why_nothing_matches)
{
	for EACH (row, rows) {
		json_t *labels = json_loads(row->labels, 0, NULL);
		json_t *services = json_loads(row->services, 0, NULL);
		json_t *types = json_loads(row->types, 0, NULL);
		const struct stored_names stored = { labels, services, types };
		struct error err = { 0 };

		EXPECT_EQ(-ENODATA,
			  no_match_explain(row->selector, " in 12:00-12:15 UTC", PROFILE_TYPE_CPU,
					   &stored, &err),
			  row->what);
		if (strncmp(err.text, row->text, strlen(row->text)))
			EXPECT_STR(row->text, err.text, row->what);
		assert_null(strchr(err.text, '\033'));
		json_decref(labels);
		json_decref(services);
		json_decref(types);
	}
}

TEST(has_nothing_to_explain_if_series_match)
{
	json_t *names = json_loads("[\"" PROFILE_TYPE_CPU "\"]", 0, NULL);
	const struct stored_names stored = { names, names, names };
	struct error err = { 0 };

	assert_int_equal(0, no_match_explain("shop", "", NULL, &stored, &err));
	json_decref(names);
}

#define NOON 1795867200ULL // 2026-11-28 12:00 UTC
#define NS   1000000000ULL

TEST(shows_ranges_as_short_as_possible)
{
	static const struct {
		uint64_t from_s, to_s;
		const char *text;
	} ranges[] = {
		{ NOON, NOON + 900, " in 12:00-12:15 UTC" },
		{ NOON, NOON + 7, " in 12:00:00-12:00:07 UTC" },
		{ NOON - 86400, NOON, " from 2026-11-27 12:00 to 2026-11-28 12:00 UTC" },
		{ NOON - 86400, NOON - 86399,
		  " from 2026-11-27 12:00:00 to 2026-11-27 12:00:01 UTC" },
	};

	for EACH (range, ranges) {
		char text[RANGE_TEXT_BYTES];

		EXPECT_STR(
			range->text,
			range_text(range->from_s * NS, range->to_s * NS, (NOON + 1000) * NS, text),
			range->text);
	}
}

RUN_TESTS(cmocka_unit_test(explains_why_nothing_matches),
	  cmocka_unit_test(has_nothing_to_explain_if_series_match),
	  cmocka_unit_test(shows_ranges_as_short_as_possible))
