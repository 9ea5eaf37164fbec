// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>

#include "base/contract/boosts.h"

static const struct {
	const char *what, *text;
	int rc;
	uint32_t profiles;
	const char *words; // in the error
} lists[] = {
	{ "one", "wall", 0, BOOST_WALL, "" },
	{ "all", "memory,wakers,wall", 0, BOOST_PROFILES, "" },
	{ "twice", "wall,wall", 0, BOOST_WALL, "" },
	{ "nothing", "", -EINVAL, 0, "\"\" is none of wall, memory and wakers" },
	{ "an empty word", "wall,", -EINVAL, 0, "\"\" is none of" },
	{ "a part of a word", "wal", -EINVAL, 0, "\"wal\" is none of" },
	{ "a longer word", "walls", -EINVAL, 0, "\"walls\" is none of" },
	{ "what is always there", "cpu", -EINVAL, 0, "cpu is always collected" },
	{ "what cannot be added", "wall,gpu", -EINVAL, 0, "gpu cannot be added" },
};

TEST(parses_profiles_by_their_words)
{
	for EACH (row, lists) {
		struct error err = { 0 };
		uint32_t profiles = 0;

		EXPECT_EQ(row->rc, boost_profiles_parse(row->text, &profiles, &err), row->what);
		EXPECT_EQ(row->profiles, profiles, row->what);
		if (!strstr(err.text, row->words))
			fail_msg("%s: %s", row->what, err.text);
	}
}

TEST(prints_profiles_as_it_parses_them)
{
	char text[BOOST_PROFILES_BYTES];

	EXPECT_STR("", boost_profiles_text(0, text), "none");
	EXPECT_STR("wall,memory,wakers", boost_profiles_text(UINT32_MAX, text), "all");
	EXPECT_STR("memory", boost_profiles_text(BOOST_MEMORY, text), "one");
}

static const struct {
	const char *what, *text;
	int rc;
	uint32_t id;
} ids[] = {
	{ "an id", "3fa09c12", 0, 0x3fa09c12 }, { "zeroes before", "00000001", 0, 1 },
	{ "zero", "00000000", -EINVAL, 0 },     { "short", "3fa09c1", -EINVAL, 0 },
	{ "long", "3fa09c123", -EINVAL, 0 },    { "a path", "../../..", -EINVAL, 0 },
	{ "a sign", "-0000001", -EINVAL, 0 },   { "capitals", "3FA09C12", -EINVAL, 0 },
	{ "nothing", "", -EINVAL, 0 },
};

TEST(parses_only_ids)
{
	char text[BOOST_ID_BYTES];

	for EACH (row, ids) {
		uint32_t id = 0;

		EXPECT_EQ(row->rc, boost_id_parse(row->text, &id), row->what);
		EXPECT_EQ(row->id, id, row->what);
		if (!row->rc)
			EXPECT_STR(row->text, boost_id_text(id, text), row->what);
	}
}

RUN_TESTS(cmocka_unit_test(parses_profiles_by_their_words),
	  cmocka_unit_test(prints_profiles_as_it_parses_them), cmocka_unit_test(parses_only_ids))
