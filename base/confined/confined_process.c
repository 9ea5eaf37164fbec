// SPDX-License-Identifier: Apache-2.0
#include "base/confined/confined_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/confined/confined_message.h"

enum { HELLO_MS = 30 * 1000, PASSED_ENVIRONMENT_MAX = 8 };

struct confined_launcher {
	pid_t pid; // of its keeper
	int socket;
	bool has_landlock;
	atomic_uint restarts;
};

/* ---- the launcher -------------------------------------------------------------------------- */

/* What the loader and sanitizers need: the rest of the environment may be secret. */
static void choose_environment(char *ret_environment[PASSED_ENVIRONMENT_MAX + 1])
{
	static const char *const names[] = { "LD_LIBRARY_PATH=", "ASAN_OPTIONS=", "UBSAN_OPTIONS=",
					     "UNIT_" };
	uint32_t count = 0;

	for (char **variable = environ; *variable && count < PASSED_ENVIRONMENT_MAX; variable++)
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			if (strncmp(*variable, names[i], strlen(names[i])) == 0 &&
			    count < PASSED_ENVIRONMENT_MAX)
				ret_environment[count++] = *variable;
	ret_environment[count] = NULL;
}

/* Execute this program anew. Returns 0 or -errno. */
static int spawn(int socket, pid_t *ret_pid)
{
	char *arguments[] = { program_invocation_short_name, CONFINED_LAUNCHER_ARGUMENT, NULL };
	char *environment[PASSED_ENVIRONMENT_MAX + 1];
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none, all;

	choose_environment(environment);
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&attributes);
	// The socket first: it may be 0 or 1.
	int rc = posix_spawn_file_actions_adddup2(&files, socket, CONFINED_LAUNCHER_FD);
	for (int fd = STDIN_FILENO; !rc && fd <= STDOUT_FILENO; fd++)
		rc = posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
	if (!rc)
		rc = posix_spawnattr_setflags(&attributes,
					      POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	if (!rc)
		rc = posix_spawnattr_setsigmask(&attributes, &none);
	if (!rc)
		rc = posix_spawnattr_setsigdefault(&attributes, &all);
	if (!rc)
		rc = posix_spawn(ret_pid, "/proc/self/exe", &files, &attributes, arguments,
				 environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&files);
	return -rc;
}

static int wait_until_readable(int fd, uint32_t wait_ms)
{
	uint64_t until_ns = clock_monotonic_ns() + wait_ms * NS_PER_MS;
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	for (;;) {
		uint64_t now_ns = clock_monotonic_ns();
		int rc = poll(&wait, 1,
			      now_ns < until_ns ? (int)((until_ns - now_ns) / NS_PER_MS) + 1 : 0);

		if (rc > 0)
			return 0;
		if (rc < 0 && errno != EINTR)
			return -errno;
		if (!rc && clock_monotonic_ns() >= until_ns)
			return -ETIMEDOUT;
	}
}

static int read_hello(struct confined_launcher *launcher, struct error *err)
{
	struct confined_hello hello;
	int rc = wait_until_readable(launcher->socket, HELLO_MS);

	if (rc)
		return error_errno(err, rc, "launcher");
	if (recv(launcher->socket, &hello, sizeof(hello), 0) != sizeof(hello))
		return error_set(err, -EIO, "launcher ended at its start");
	if (hello.err.code)
		return error_set(err, hello.err.code, "%.*s", ERROR_TEXT_BYTES - 1, hello.err.text);
	launcher->has_landlock = hello.has_landlock;
	return 0;
}

int confined_launcher_start(struct confined_launcher **ret_launcher, struct error *err)
{
	struct confined_launcher *launcher = calloc(1, sizeof(*launcher));
	int ends[2];

	if (!launcher)
		return error_set(err, -ENOMEM, "out of memory");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
		free(launcher);
		return error_errno(err, -errno, "socketpair");
	}
	int rc = spawn(ends[1], &launcher->pid);
	close(ends[1]);
	launcher->socket = ends[0];
	if (rc) {
		launcher->pid = 0;
		error_errno(err, rc, "execute /proc/self/exe");
	} else {
		rc = read_hello(launcher, err);
	}
	if (rc) {
		confined_launcher_free(launcher);
		return rc;
	}
	*ret_launcher = launcher;
	return 0;
}

void confined_launcher_free(struct confined_launcher *launcher)
{
	if (!launcher)
		return;
	close(launcher->socket); // it ends, and its processes with it
	while (launcher->pid && waitpid(launcher->pid, NULL, 0) < 0 && errno == EINTR)
		;
	free(launcher);
}

bool confined_launcher_has_landlock(const struct confined_launcher *launcher)
{
	return launcher->has_landlock;
}

uint32_t confined_launcher_restarts(struct confined_launcher *launcher)
{
	struct confined_hello hello;

	if (!launcher)
		return 0;
	// Each launcher after the first says hello, too.
	while (recv(launcher->socket, &hello, sizeof(hello), MSG_DONTWAIT) == sizeof(hello))
		atomic_fetch_add(&launcher->restarts, 1);
	return atomic_load(&launcher->restarts);
}

/* ---- a process ----------------------------------------------------------------------------- */

static int send_request(int socket, const struct confined_request *request, const int *passed,
			uint32_t count)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE((CONFINED_FILES_MAX + 1) * sizeof(int))];
	} control = { 0 };
	struct iovec bytes = { (void *)request, sizeof(*request) };
	struct msghdr message = {
		.msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(count * sizeof(int)),
	};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(head), passed, count * sizeof(int));
	// Requests wait in the socket while the launcher is started again. It is full after some hundreds.
	return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

int confined_process_start(struct confined_launcher *launcher, const struct confined_task *task,
			   const int *files, uint32_t count, int *ret_process, struct error *err)
{
	struct confined_request request = { .count = count };
	int passed[CONFINED_FILES_MAX + 1], ends[2];
	uint32_t passed_count = 1;

	if (!launcher)
		return error_set(err, -ENOTCONN, "no confined processes here");
	if (count > CONFINED_FILES_MAX)
		return error_set(err, -E2BIG, "%u files (limit %d)", count, CONFINED_FILES_MAX);
	memcpy(request.task, task->name, sizeof(request.task));
	for (uint32_t i = 0; i < count; i++) {
		if (files[i] < 0)
			continue;
		request.present |= 1U << i;
		passed[passed_count++] = files[i];
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return error_errno(err, -errno, "socketpair");
	passed[0] = ends[1];
	int rc = send_request(launcher->socket, &request, passed, passed_count);
	close(ends[1]);
	if (rc) {
		close(ends[0]);
		if (rc == -EPIPE || rc == -ECONNRESET)
			return error_set(err, -ENOTCONN,
					 "the launcher of confined processes died too often");
		return error_errno(err, rc, "launcher");
	}
	*ret_process = ends[0];
	return 0;
}

static int explain_end(const struct confined_end *end, struct error *err)
{
	if (end->error)
		return error_set(err, -EPERM, "not started: %s", strerror(-end->error));
	if (WIFSIGNALED(end->status))
		return error_set(err, -EIO, "ended by signal %d (%s)", WTERMSIG(end->status),
				 strsignal(WTERMSIG(end->status)));
	if (WEXITSTATUS(end->status) == CONFINED_EXIT_REFUSED)
		return error_set(err, -EPERM, "not confined: refused by the kernel");
	if (WEXITSTATUS(end->status))
		return error_set(err, -EIO, "failed to read the file");
	return 0;
}

int confined_process_finish(int process, uint32_t wait_ms, struct error *err)
{
	_cleanup_close_ int owned = process;
	struct confined_end end;
	int rc = wait_until_readable(owned, wait_ms);

	if (rc)
		return error_set(err, -EIO, "killed: %s", strerror(-rc));
	if (recv(owned, &end, sizeof(end), 0) != sizeof(end))
		return error_set(err, -ECONNRESET,
				 "the launcher of confined processes died; it is started again");
	return explain_end(&end, err);
}
