// SPDX-License-Identifier: Apache-2.0
#include "base/confined/confined_launcher.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/confined/confined_message.h"
#include "base/confined/confined_process.h"

enum {
	WATCHED_FIXED = 2, // the program's socket, signals
	// After each death the keeper waits twice as long: three minutes and a half in all.
	RESTARTS_MAX = 12, // in a row
	RESTART_MS_MIN = 50,
	CALM_MS = 10 * 60 * 1000, // a launcher that lived so long was well
};

struct running {
	pid_t pid;
	int life; // its socket; -1: the program has closed its end, and it was killed
};

struct launcher {
	const struct confined_task *const *tasks;
	uint32_t task_count;
	int signal_fd;
	struct running running[CONFINED_PROCESSES_MAX];
	uint32_t count;
};

/** What came with a request. */
struct received {
	struct confined_request request;
	int passed[CONFINED_FILES_MAX + 1];
	uint32_t count;
};

bool confined_launcher_is_wanted(int argc, char **argv)
{
	return argc == 2 && strcmp(argv[1], CONFINED_LAUNCHER_ARGUMENT) == 0;
}

/* ---- a process ----------------------------------------------------------------------------- */

static const struct confined_task *find_task(const struct launcher *launcher, const char *name)
{
	for (uint32_t i = 0; i < launcher->task_count; i++)
		if (strncmp(launcher->tasks[i]->name, name, CONFINED_TASK_NAME_BYTES) == 0)
			return launcher->tasks[i];
	return NULL;
}

/* In the child. */
static void run(const struct confined_task *task, const struct received *received, pid_t parent)
{
	int files[CONFINED_FILES_MAX];
	uint32_t next = 1;
	sigset_t none;

	for (uint32_t i = 0; i < received->request.count; i++)
		files[i] = received->request.present & (1U << i) ? received->passed[next++] : -1;
	prctl(PR_SET_NAME, "cairn-confined");
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (confine_process(&task->limits, parent, files, received->request.count))
		_exit(CONFINED_EXIT_REFUSED);
	_exit(task->run(files)); // frees its memory, too
}

static void send_end(int life, int error, int status)
{
	const struct confined_end end = { .error = error, .status = status };

	// Nobody waits: the program has closed its end.
	(void)!send(life, &end, sizeof(end), MSG_NOSIGNAL | MSG_DONTWAIT);
	close(life);
}

/* Returns the child's pid or -errno. */
static pid_t start(const struct launcher *launcher, const struct received *received)
{
	const struct confined_task *task = find_task(launcher, received->request.task);
	pid_t parent = getpid();

	if (!task)
		return -ENOSYS;
	if (launcher->count == CONFINED_PROCESSES_MAX)
		return -EAGAIN;
	pid_t pid = fork();
	if (pid == 0)
		run(task, received, parent);
	return pid < 0 ? -errno : pid;
}

static void serve_request(struct launcher *launcher, const struct received *received)
{
	pid_t pid = start(launcher, received);

	for (uint32_t i = 1; i < received->count; i++)
		close(received->passed[i]);
	if (pid < 0)
		send_end(received->passed[0], pid, 0);
	else
		launcher->running[launcher->count++] =
			(struct running){ .pid = pid, .life = received->passed[0] };
}

/* ---- messages ------------------------------------------------------------------------------ */

/* Returns 1; 0: it is no request; -1: the program has ended. */
static int receive(struct received *received)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE((CONFINED_FILES_MAX + 1) * sizeof(int))];
	} control;
	struct iovec bytes = { &received->request, sizeof(received->request) };
	struct msghdr message = {
		.msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	ssize_t size = recvmsg(CONFINED_LAUNCHER_FD, &message, MSG_CMSG_CLOEXEC);
	if (size <= 0)
		return size < 0 && errno == EINTR ? 0 : -1;
	const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	received->count = 0;
	if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
		received->count = (uint32_t)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(received->passed, CMSG_DATA(head), received->count * sizeof(int));
	}
	const struct confined_request *request = &received->request;
	if (size == sizeof(*request) && request->count <= CONFINED_FILES_MAX &&
	    !(request->present >> request->count) &&
	    received->count == 1U + (uint32_t)__builtin_popcount(request->present))
		return 1;
	for (uint32_t i = 0; i < received->count; i++)
		close(received->passed[i]);
	return 0;
}

static void reap(struct launcher *launcher)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	(void)!read(launcher->signal_fd, &info, sizeof(info));
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (uint32_t i = 0; i < launcher->count; i++) {
			struct running *running = &launcher->running[i];

			if (running->pid != pid)
				continue;
			if (running->life >= 0)
				send_end(running->life, 0, status);
			*running = launcher->running[--launcher->count];
			break;
		}
	}
}

static void end(struct running *running)
{
	kill(running->pid, SIGKILL);
	close(running->life);
	running->life = -1; // reap() removes it
}

/* Returns false when the program has ended. */
static bool serve_once(struct launcher *launcher)
{
	struct pollfd watched[WATCHED_FIXED + CONFINED_PROCESSES_MAX] = {
		{ .fd = CONFINED_LAUNCHER_FD, .events = POLLIN },
		{ .fd = launcher->signal_fd, .events = POLLIN },
	};
	struct received received;

	for (uint32_t i = 0; i < launcher->count; i++) // negative ones are ignored
		watched[WATCHED_FIXED + i] = (struct pollfd){ .fd = launcher->running[i].life };
	if (poll(watched, WATCHED_FIXED + launcher->count, -1) < 0)
		return errno == EINTR;
	for (uint32_t i = 0; i < launcher->count; i++)
		if (watched[WATCHED_FIXED + i].revents)
			end(&launcher->running[i]);
	if (watched[1].revents)
		reap(launcher);
	if (!watched[0].revents)
		return true;
	int rc = receive(&received);
	if (rc > 0)
		serve_request(launcher, &received);
	return rc >= 0;
}

/* ---- the launcher -------------------------------------------------------------------------- */

/* They end with their program, not by what a terminal or a supervisor sends to all. */
static void ignore_signals(void)
{
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
}

static int open_signals(struct launcher *launcher)
{
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	launcher->signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	return launcher->signal_fd < 0 ? -errno : 0;
}

/* In the keeper's child, until the program ends. Returns the exit status. */
static int launch(struct launcher *launcher, pid_t keeper)
{
	prctl(PR_SET_NAME, "cairn-launcher");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != keeper || open_signals(launcher))
		return EXIT_FAILURE;
	while (serve_once(launcher))
		;
	return EXIT_SUCCESS; // and the kernel ends its processes
}

/* ---- the keeper ---------------------------------------------------------------------------- */

/* Returns false when the program has ended. */
static bool wait_before_restart(uint32_t deaths)
{
	struct pollfd program = { .fd = CONFINED_LAUNCHER_FD };
	uint64_t until_ns =
		clock_monotonic_ns() + ((uint64_t)RESTART_MS_MIN << (deaths - 1)) * NS_PER_MS;

	for (;;) {
		uint64_t now_ns = clock_monotonic_ns();

		if (now_ns >= until_ns)
			return true;
		if (poll(&program, 1, (int)((until_ns - now_ns) / NS_PER_MS) + 1) > 0)
			return false;
	}
}

static int wait_for_end(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return status;
}

/* Requests wait in the program's socket while there is no launcher. Returns the exit status. */
static int keep(struct launcher *launcher, const struct confined_hello *hello)
{
	const pid_t keeper = getpid();

	for (uint32_t deaths = 0; deaths <= RESTARTS_MAX; deaths++) {
		if (deaths && !wait_before_restart(deaths))
			return EXIT_SUCCESS;
		uint64_t begin_ns = clock_monotonic_ns();
		pid_t pid = fork();

		if (pid == 0)
			_exit(launch(launcher, keeper));
		// Whoever does not read them does not count restarts.
		if (pid > 0)
			send(CONFINED_LAUNCHER_FD, hello, sizeof(*hello),
			     MSG_NOSIGNAL | MSG_DONTWAIT);
		int status = pid > 0 ? wait_for_end(pid) : -errno;
		if (status == EXIT_SUCCESS)
			return status;
		if (clock_monotonic_ns() - begin_ns > CALM_MS * NS_PER_MS)
			deaths = 0;
	}
	return EXIT_FAILURE;
}

/* ---- life ---------------------------------------------------------------------------------- */

static int give_up_privileges(struct error *err)
{
	close_range(CONFINED_LAUNCHER_FD + 1, ~0U, 0);
	if (!confinement_has_seccomp())
		return error_set(err, -ENOSYS, "no seccomp filters: kernel or container refuses");
	return confinement_drop_privileges(err);
}

int confined_launcher_serve(const struct confined_task *const *tasks, uint32_t count)
{
	struct launcher launcher = { .tasks = tasks, .task_count = count };
	struct confined_hello hello = { .has_landlock = confinement_has_landlock() };
	struct stat program;

	prctl(PR_SET_NAME, "cairn-keeper");
	if (fstat(CONFINED_LAUNCHER_FD, &program) || !S_ISSOCK(program.st_mode)) {
		fprintf(stderr, "%s: " CONFINED_LAUNCHER_ARGUMENT " is for its own use only\n",
			program_invocation_short_name);
		return EXIT_FAILURE;
	}
	ignore_signals();
	if (!give_up_privileges(&hello.err))
		return keep(&launcher, &hello);
	send(CONFINED_LAUNCHER_FD, &hello, sizeof(hello), MSG_NOSIGNAL);
	return EXIT_FAILURE;
}
