// SPDX-License-Identifier: Apache-2.0
#include "collector/http/http_peers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

#include "tests/test.h"

static const struct sockaddr *six(const char *text)
{
	static struct sockaddr_in6 address;

	address = (struct sockaddr_in6){ .sin6_family = AF_INET6 };
	assert_int_equal(1, inet_pton(AF_INET6, text, &address.sin6_addr));
	return (const struct sockaddr *)&address;
}

TEST(counts_ipv6_64_as_one_peer)
{
	struct http_peers peers;
	char text[64];

	assert_int_equal(0, http_peers_init(&peers, 100, 3));
	for (int i = 0; i < 3; i++) {
		snprintf(text, sizeof(text), "2001:db8:0:1::%d", i);
		assert_true(http_peers_have_room(&peers, six(text)));
		http_peers_add(&peers, six(text));
	}
	assert_false(http_peers_have_room(&peers, six("2001:db8:0:1:ffff::9")));
	assert_true(http_peers_have_room(&peers, six("2001:db8:0:2::")));
	assert_true(http_peers_have_room(&peers, six("::ffff:10.0.0.1")));

	http_peers_remove(&peers, six("2001:db8:0:1:7::7"));
	assert_true(http_peers_have_room(&peers, six("2001:db8:0:1:ffff::9")));
	http_peers_deinit(&peers);
}

TEST(frees_idle_peers)
{
	struct http_peers peers;
	char text[64];

	assert_int_equal(0, http_peers_init(&peers, 2, 1));
	for (int i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "2001:db8:0:%x::", i);
		assert_true(http_peers_have_room(&peers, six(text)));
		http_peers_add(&peers, six(text));
		http_peers_remove(&peers, six(text));
	}
	assert_int_equal(0, peers.count);
	http_peers_remove(&peers, six("::1")); // it has none
	assert_int_equal(0, peers.count);

	http_peers_add(&peers, six("::1"));
	http_peers_add(&peers, six("::ffff:10.0.0.1"));
	assert_false(http_peers_have_room(&peers, six("2001:db8::"))); // as many as there may be
	http_peers_deinit(&peers);
}

RUN_TESTS(cmocka_unit_test(counts_ipv6_64_as_one_peer), cmocka_unit_test(frees_idle_peers))
