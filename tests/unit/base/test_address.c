// SPDX-License-Identifier: Apache-2.0
#include "base/address.h"

#include "tests/test.h"

static const struct {
	const char *address;
	bool local;
} rows[] = {
	{ "127.0.0.1:7070", true },
	{ "127.8.9.10:1", true },
	{ "localhost:7070", true },
	{ "[::1]:7070", true },
	{ "unix:/run/cairn.sock", true },
	{ "0.0.0.0:7070", false },
	{ ":7070", false },
	{ "[::]:7070", false },
	{ "10.0.0.1:7070", false },
	{ "localhost.example:7070", false },
	{ "127.0.0.1.example:7070", false },
	{ "127.1:7070", false }, // not inet_pton's form: not trusted
	{ "[::ffff:10.0.0.1]:7070", false },
	{ "", false },
};

TEST(knows_what_others_can_reach)
{
	for EACH (row, rows)
		EXPECT_EQ(row->local, address_is_local(row->address), row->address);
}

RUN_TESTS(cmocka_unit_test(knows_what_others_can_reach))
