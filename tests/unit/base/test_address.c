// SPDX-License-Identifier: Apache-2.0
#include "base/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

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

TEST(names_an_ipv6_network_as_one_peer)
{
	static const struct {
		const char *address, *name;
	} peers[] = {
		{ "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::" },
		{ "2001:db8:1:2::9", "2001:db8:1:2::" },
		{ "2001:db8:1:3::9", "2001:db8:1:3::" },
		{ "::ffff:10.0.0.7", "10.0.0.7" },
		{ "::1", "::" },
	};
	struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
	struct sockaddr_in four = { .sin_family = AF_INET };
	struct sockaddr_un local = { .sun_family = AF_UNIX };
	char name[ADDRESS_PEER_BYTES];

	for EACH (peer, peers) {
		assert_int_equal(1, inet_pton(AF_INET6, peer->address, &six.sin6_addr));
		address_peer_name((const struct sockaddr *)&six, name);
		EXPECT_STR(peer->name, name, peer->address);
	}
	assert_int_equal(1, inet_pton(AF_INET, "10.0.0.7", &four.sin_addr));
	address_peer_name((const struct sockaddr *)&four, name);
	assert_string_equal("10.0.0.7", name);
	address_peer_name((const struct sockaddr *)&local, name);
	assert_string_equal("unix", name);
}

RUN_TESTS(cmocka_unit_test(knows_what_others_can_reach),
	  cmocka_unit_test(names_an_ipv6_network_as_one_peer))
