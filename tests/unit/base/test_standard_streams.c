// SPDX-License-Identifier: Apache-2.0
// What becomes of a program that was started with its streams closed.

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/standard_streams.h"
#include "tests/test.h"

/* In a child: bits 0 to 2 of @closed are streams that are closed before. Returns what went wrong, 0. */
static int try_without(unsigned int closed)
{
	for (int fd = 0; fd < 3; fd++) {
		if (closed >> fd & 1)
			close(fd);
	}
	standard_streams_occupy();
	int file = open("/dev/zero", O_RDWR);
	if (file < 3)
		return 1;
	for (int fd = 1; fd < 3; fd++) {
		if (closed >> fd & 1 && (write(fd, "x", 1) >= 0 || errno != EBADF))
			return 2;
	}
	for (int fd = 0; fd < 3; fd++) {
		if (!(closed >> fd & 1) && fcntl(fd, F_GETFD) < 0)
			return 3;
	}
	return 0;
}

TEST(occupies_closed_streams)
{
	for (unsigned int closed = 0; closed < 8; closed++) {
		int status = 0;
		pid_t child = fork();

		if (!child)
			_exit(try_without(closed));
		EXPECT_EQ(child, waitpid(child, &status, 0), "the child");
		EXPECT_EQ(0, status, "what went wrong, shifted by 8");
	}
}

RUN_TESTS(cmocka_unit_test(occupies_closed_streams))
