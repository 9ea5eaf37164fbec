// SPDX-License-Identifier: Apache-2.0
// What becomes of a program that was started with its streams closed.

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
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

/* In a child: the exit status of a program that printed a line to @path, and left with @code. */
static int finish_with(const char *path, bool flushes_early, int code)
{
	int status = 0;
	pid_t child = fork();

	if (!child) {
		int fd = open(path, O_WRONLY);

		dup2(fd, STDOUT_FILENO);
		dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
		puts("line");
		if (flushes_early)
			fflush(stdout);
		_exit(standard_streams_finish("test", code));
	}
	EXPECT_EQ(child, waitpid(child, &status, 0), "the child");
	return WEXITSTATUS(status);
}

TEST(fails_if_output_is_lost)
{
	fflush(stdout);
	EXPECT_EQ(0, finish_with("/dev/null", false, 0), "written");
	EXPECT_EQ(1, finish_with("/dev/full", false, 0), "disk full");
	EXPECT_EQ(1, finish_with("/dev/full", true, 0), "disk full before");
	EXPECT_EQ(2, finish_with("/dev/full", false, 2), "its own failure stays");
}

RUN_TESTS(cmocka_unit_test(occupies_closed_streams), cmocka_unit_test(fails_if_output_is_lost))
