// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/held_command.h"

static bool ends_within(const struct held_command *command, int timeout_ms)
{
	struct pollfd ended = { .fd = command->pidfd, .events = POLLIN };

	return poll(&ended, 1, timeout_ms) == 1;
}

TEST(holds_command_until_release)
{
	char *argv[] = { "sh", "-c", "sleep 0.2; exit 7", NULL };
	struct held_command command = { 0 };
	struct error err = { 0 };

	assert_int_equal(0, held_command_start(argv, &command, &err));
	assert_false(ends_within(&command, 100));
	assert_false(held_command_wait(&command, 0));
	assert_int_equal(0, held_command_release(&command, argv[0], &err));
	assert_false(held_command_wait(&command, 0));
	assert_true(held_command_wait(&command, 5000));
	EXPECT_EQ(7, WEXITSTATUS(command.wait_status), "status");
	held_command_stop(&command);
}

TEST(reports_command_that_cannot_run)
{
	char *argv[] = { "cairn-no-such-command", NULL };
	struct held_command command = { 0 };
	struct error err = { 0 };

	assert_int_equal(0, held_command_start(argv, &command, &err));
	EXPECT_EQ(-ENOENT, held_command_release(&command, argv[0], &err), "not found");
	assert_non_null(strstr(err.text, "cairn-no-such-command"));
	held_command_stop(&command);
}

TEST(stop_ends_held_and_running_commands)
{
	char *argv[] = { "sleep", "60", NULL };
	struct error err = { 0 };

	for (int release = 0; release <= 1; release++) {
		struct held_command command = { 0 };

		assert_int_equal(0, held_command_start(argv, &command, &err));
		pid_t pid = command.pid;
		if (release)
			assert_int_equal(0, held_command_release(&command, argv[0], &err));
		held_command_stop(&command);
		EXPECT_EQ(-1, waitpid(pid, NULL, WNOHANG), "already waited for");
		EXPECT_EQ(ECHILD, errno, "no child is left");
		held_command_stop(&command);
	}
}

RUN_TESTS(cmocka_unit_test(holds_command_until_release),
	  cmocka_unit_test(reports_command_that_cannot_run),
	  cmocka_unit_test(stop_ends_held_and_running_commands))
