// SPDX-License-Identifier: Apache-2.0
#include "agent/dump/file_target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/test.h"

static const struct {
	const char *what;
	enum socket_kind kind;
	bool ipv6;
	const char *line;
	int rc;
	uint64_t inode;
	const char *text;
} cases[] = {
	{ "one that listens", SOCKET_TCP, false,
	  "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0       "
	  " 0 4711 1 0 100",
	  0, 4711, "tcp 127.0.0.1:8080, listening" },
	{ "a connection", SOCKET_TCP, false,
	  "  12: 0200000A:0050 0100000A:D903 01 00000000:00000000 00:00000000 00000000  1000       "
	  " 0 18446744073709551615 1",
	  0, UINT64_MAX, "tcp 10.0.0.2:80 to 10.0.0.1:55555" },
	{ "one that is still connecting", SOCKET_TCP, false,
	  "   3: 0200000A:0050 0100000A:D903 02 00000000:00000000 00:00000000 00000000  1000       "
	  " 0 9 1",
	  0, 9, "tcp 10.0.0.2:80 to 10.0.0.1:55555, connecting" },
	{ "IPv6", SOCKET_TCP, true,
	  "   0: B80D0120000000000000000001000000:0050 00000000000000000000000000000000:0000 0A "
	  "00000000:00000000 00:00000000 00000000  0 0 5 1",
	  0, 5, "tcp [2001:db8::1]:80, listening" },
	{ "IPv4 by an IPv6 socket", SOCKET_TCP, true,
	  "   0: 0000000000000000FFFF00000100007F:0050 0000000000000000FFFF00000200007F:1000 01 "
	  "00000000:00000000 00:00000000 00000000  0 0 6 1",
	  0, 6, "tcp 127.0.0.1:80 to 127.0.0.2:4096" },
	{ "UDP", SOCKET_UDP, false,
	  "  77: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0       "
	  " 0 8 2",
	  0, 8, "udp 0.0.0.0:53" },
	{ "a unix socket", SOCKET_UNIX, false,
	  "ffff8881: 00000002 00000000 00010000 0001 01 1234 /run/x y.sock", 0, 1234,
	  "unix socket /run/x y.sock" },
	{ "a unix socket without a name", SOCKET_UNIX, false,
	  "ffff8881: 00000002 00000000 00010000 0001 01 1235", 0, 1235, "unix socket" },
	{ "the heading", SOCKET_TCP, false,
	  "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  "
	  "timeout inode",
	  -EBADMSG, 0, NULL },
	{ "the heading of unix", SOCKET_UNIX, false,
	  "Num       RefCount Protocol Flags    Type St Inode Path", -EBADMSG, 0, NULL },
	{ "an IPv4 line taken for IPv6", SOCKET_TCP, true,
	  "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711 1",
	  -EBADMSG, 0, NULL },
	{ "cut in an address", SOCKET_TCP, false, "   0: 0100007F:1F90 0000", -EBADMSG, 0, NULL },
	{ "cut before the inode", SOCKET_TCP, false,
	  "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000", -EBADMSG, 0, NULL },
	{ "empty", SOCKET_TCP, false, "", -EBADMSG, 0, NULL },
};

TEST(parses_socket_lines)
{
	for EACH (c, cases) {
		struct socket_entry socket = { 0 };
		char text[FILE_TARGET_BYTES];

		EXPECT_EQ(c->rc, socket_entry_parse(c->kind, c->ipv6, c->line, &socket), c->what);
		EXPECT_EQ(c->inode, socket.inode, c->what);
		if (c->rc)
			continue;
		socket_entry_describe(&socket, text);
		EXPECT_STR(c->text, text, c->what);
	}
}

TEST(truncates_a_long_socket_path)
{
	struct socket_entry socket;
	char line[2000];

	int length = sprintf(line, "f: 2 0 10000 1 1 77 ");
	memset(line + length, 'x', sizeof(line) - (size_t)length);
	line[sizeof(line) - 1] = '\0';
	EXPECT_EQ(0, socket_entry_parse(SOCKET_UNIX, false, line, &socket), "a long path");
	EXPECT_EQ(sizeof(socket.path) - 1, strlen(socket.path), "its length");
}

static struct file_targets targets;
static struct proc proc;

static int open_self(void **state)
{
	(void)state;
	if (proc_open(getpid(), &proc))
		return -1;
	file_targets_init(&targets, &proc);
	return 0;
}

static int close_self(void **state)
{
	(void)state;
	file_targets_deinit(&targets);
	proc_close(&proc);
	return 0;
}

static void expect_target(int fd, const char *expected)
{
	char text[FILE_TARGET_BYTES] = "";

	EXPECT_EQ(0, file_target_describe(&targets, fd, text), expected);
	if (!strstr(text, expected))
		fail_msg("\"%s\" is not \"%s\"", text, expected);
	close(fd);
}

TEST(names_what_descriptors_refer_to)
{
	int ends[2], pair[2];

	assert_int_equal(0, pipe(ends));
	assert_int_equal(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	expect_target(ends[0], "pipe ");
	expect_target(ends[1], "pipe ");
	expect_target(pair[0], "unix socket");
	expect_target(pair[1], "unix socket");
	expect_target(open("/dev/null", O_RDONLY | O_CLOEXEC), "/dev/null");
	expect_target(eventfd(0, 0), "eventfd");
	expect_target(epoll_create1(0), "epoll");
	expect_target(memfd_create("x\033[2Jy", 0), "/memfd:x?[2Jy (deleted)");
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	char expected[32];
	snprintf(expected, sizeof(expected), "process %d", getpid());
	expect_target(pidfd, expected);
}

TEST(refuses_a_missing_descriptor)
{
	char text[FILE_TARGET_BYTES];

	EXPECT_EQ(-ESRCH, file_target_describe(&targets, 100000, text), "too high");
	EXPECT_EQ(-ESRCH, file_target_describe(&targets, -1, text), "negative");
	int fds[4];
	EXPECT_EQ(0, file_target_epoll(&targets, 100000, fds, 4), "too high");
}

TEST(lists_what_an_epoll_watches)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(0), fds[4];

	for (int i = 0; i < 6; i++)
		epoll_ctl(epoll, EPOLL_CTL_ADD, eventfd(0, 0), &event);
	EXPECT_EQ(4, file_target_epoll(&targets, epoll, fds, 4), "no more than there is room for");
	for (int i = 0; i < 4; i++)
		assert_true(fds[i] > epoll && fds[i] < epoll + 64);
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < i; j++)
			assert_int_not_equal(fds[i], fds[j]);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_self, close_self)

RUN_TESTS(cmocka_unit_test(parses_socket_lines), cmocka_unit_test(truncates_a_long_socket_path),
	  CASE(names_what_descriptors_refer_to), CASE(refuses_a_missing_descriptor),
	  CASE(lists_what_an_epoll_watches))
