// SPDX-License-Identifier: Apache-2.0
#include "cli/held_command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

enum {
	STOP_GRACE_MS = 5000,
	EXIT_NOT_FOUND = 127, // as shells and env(1) report it
};

static void reset_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
}

/* The child: wait for a byte, then become the command. Descriptors close on exec. */
static void __attribute__((noreturn)) run_child(char *const *argv, int wait_fd, int failure_fd)
{
	char byte;

	// Nothing to read means that the parent has gone: nobody wants the command any more.
	if (read(wait_fd, &byte, 1) != 1)
		_exit(EXIT_NOT_FOUND);
	reset_signals();
	execvp(argv[0], argv);

	int failure = errno;
	ssize_t ignored = write(failure_fd, &failure, sizeof(failure));
	(void)ignored;
	_exit(EXIT_NOT_FOUND);
}

static int fork_held(char *const *argv, int wait_pipe[2], int failure_pipe[2],
		     struct held_command *ret_command, struct error *err)
{
	pid_t pid = fork();

	if (pid < 0)
		return error_errno(err, -errno, "cannot start %s: fork", argv[0]);
	if (pid == 0) {
		close(wait_pipe[1]);
		close(failure_pipe[0]);
		run_child(argv, wait_pipe[0], failure_pipe[1]);
	}

	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0) {
		int rc = -errno;

		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return error_errno(err, rc, "cannot start %s: pidfd_open", argv[0]);
	}
	*ret_command = (struct held_command){
		.pid = pid,
		.pidfd = pidfd,
		.release_fd = take_fd(wait_pipe[1]),
		.failure_fd = take_fd(failure_pipe[0]),
	};
	return 0;
}

static void close_pipe(int pipe[2])
{
	cleanup_closep(&pipe[0]);
	cleanup_closep(&pipe[1]);
}

int held_command_start(char *const *argv, struct held_command *ret_command, struct error *err)
{
	int wait_pipe[2] = { -1, -1 };
	int failure_pipe[2] = { -1, -1 };
	int rc;

	if (pipe2(wait_pipe, O_CLOEXEC) || pipe2(failure_pipe, O_CLOEXEC))
		rc = error_errno(err, -errno, "cannot start %s: pipe", argv[0]);
	else
		rc = fork_held(argv, wait_pipe, failure_pipe, ret_command, err);
	close_pipe(wait_pipe);
	close_pipe(failure_pipe);
	return rc;
}

static void close_and_forget(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int held_command_release(struct held_command *command, const char *name, struct error *err)
{
	int failure = 0;

	if (write(command->release_fd, "", 1) != 1)
		return error_errno(err, -errno, "cannot start %s", name);
	close_and_forget(&command->release_fd);

	// The other end closes when exec succeeds.
	ssize_t size = read(command->failure_fd, &failure, sizeof(failure));
	close_and_forget(&command->failure_fd);
	if (size == (ssize_t)sizeof(failure))
		return error_errno(err, -failure, "cannot run %s", name);
	return 0;
}

static bool take_status(struct held_command *command)
{
	if (!command->ended && command->pid > 0 &&
	    waitpid(command->pid, &command->wait_status, WNOHANG) == command->pid)
		command->ended = true;
	return command->ended;
}

bool held_command_wait(struct held_command *command, int timeout_ms)
{
	struct pollfd ended = { .fd = command->pidfd, .events = POLLIN };

	if (!take_status(command) && command->pid > 0)
		poll(&ended, 1, timeout_ms);
	return take_status(command);
}

void held_command_stop(struct held_command *command)
{
	if (command->pid <= 0)
		return;
	close_and_forget(&command->release_fd);
	close_and_forget(&command->failure_fd);
	if (!held_command_wait(command, 0))
		kill(command->pid, SIGTERM);
	if (!held_command_wait(command, STOP_GRACE_MS)) {
		kill(command->pid, SIGKILL);
		held_command_wait(command, -1);
	}
	close_and_forget(&command->pidfd);
	command->pid = 0;
}
