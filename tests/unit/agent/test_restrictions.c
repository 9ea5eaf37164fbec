// SPDX-License-Identifier: Apache-2.0
#include "agent/restrictions.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/confined/seccomp_filter.h"
#include "tests/test.h"

/* A restriction is for good: each test has a process of its own. Its result is the line that failed. */
#define CHECK(claim)                                \
	do {                                        \
		if (!(claim))                       \
			_exit(failed_at(__LINE__)); \
	} while (0)

static int failed_at(int line)
{
	printf("# line %d: not so (%s)\n", line, strerror(errno));
	fflush(stdout);
	return 1;
}

static void in_process(void (*body)(void))
{
#ifdef __SANITIZE_ADDRESS__
	SKIP("AddressSanitizer: its leak checker does what is refused, so nothing is imposed");
#endif
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		body();
		_exit(0);
	}
	assert_int_equal(pid, waitpid(pid, &status, 0));
	assert_int_equal(0, status);
}

static bool is_refused(long rc)
{
	return rc < 0 && errno == EPERM;
}

/* The events, as one text. */
static void read_events(struct event_log *events, char *text, size_t size)
{
	struct event event;
	size_t at = 0;

	text[0] = '\0';
	while (event_log_next(events, &event))
		at += (size_t)snprintf(text + at, size - at, "%s: %s\n", event.subject, event.text);
}

static bool wait_for_refused(const struct restrictions *restrictions, uint64_t count)
{
	for (int i = 0; i < 20000 && restrictions_refused(restrictions) < count; i++)
		usleep(1000);
	return restrictions_refused(restrictions) == count;
}

static void try_what_is_never_needed(void)
{
	struct event_log *events = event_log_new();
	struct restrictions *restrictions = restrictions_impose(events, -1);
	char *const arguments[] = { "true", NULL };
	static char text[64 << 10];
	struct iovec piece = { text, 1 };

	CHECK(restrictions);
	CHECK(is_refused(execv("/bin/true", arguments)));
	CHECK(is_refused(fork()));
	CHECK(is_refused(ptrace(PTRACE_TRACEME, 0, NULL, NULL)));
	CHECK(is_refused(process_vm_writev(getpid(), &piece, 1, &piece, 1, 0)));
	CHECK(is_refused(mount("none", "/mnt", "tmpfs", 0, "")));
	CHECK(is_refused(unshare(CLONE_NEWNS)));
	CHECK(is_refused(syscall(SYS_finit_module, 0, "", 0)));
	CHECK(is_refused(setuid(0)));
	CHECK(is_refused(kill(getpid(), SIGUSR1)));
	CHECK(is_refused(syscall(SYS_tgkill, getppid(), getppid(), 0)));
	CHECK(is_refused(socket(AF_PACKET, SOCK_RAW, 0)));
	CHECK(is_refused(syscall(SYS_io_uring_setup, 1, NULL)));
	CHECK(is_refused(execv("/bin/true", arguments)));
	CHECK(wait_for_refused(restrictions, 13));
	restrictions_free(restrictions);
	CHECK(execv("/bin/true", arguments) < 0); // they stay refused
	read_events(events, text, sizeof(text));
	CHECK(strstr(text, "seccomp: refused system call execve: "));
	CHECK(!strstr(strstr(text, "execve: ") + 1, "execve: ")); // once
	CHECK(strstr(text, "seccomp: refused system call mount: "));
}

TEST(refuses_calls_that_the_agent_never_makes)
{
	in_process(try_what_is_never_needed);
}

static void *run_thread(void *context)
{
	return context;
}

static void try_what_is_needed(void)
{
	struct event_log *events = event_log_new();
	struct restrictions *restrictions = restrictions_impose(events, -1);
	char byte = 0, copy;
	struct iovec here = { &copy, 1 }, there = { &byte, 1 };
	pthread_t thread;
	int fd;

	CHECK(restrictions);
	for (int i = 0; i < 10; i++) {
		CHECK(pthread_create(&thread, NULL, run_thread, NULL) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
	CHECK(kill(getppid(), 0) == 0);
	CHECK(kill(1, 0) == 0 || errno != EPERM || geteuid() != 0);
	CHECK(process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1);
	CHECK((fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) >= 0);
	close(fd);
	CHECK((fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)) >= 0);
	close(fd);
	CHECK((fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0);
	close(fd);
	CHECK(restrictions_refused(restrictions) == 0);
	restrictions_free(restrictions);
}

TEST(allows_what_the_agent_needs)
{
	in_process(try_what_is_needed);
}

static int open_listener(struct sockaddr_un *address, const char *name)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	// In the abstract namespace: no file is left.
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "cairn-test-%s-%d", name,
		 (int)getpid());
	CHECK(bind(fd, (struct sockaddr *)address, sizeof(*address)) == 0);
	return fd;
}

static void accept_on_two(void)
{
	struct event_log *events = event_log_new();
	struct sockaddr_un admitted, other;
	int first = open_listener(&admitted, "first"), second = open_listener(&other, "second");
	int clients[2] = { socket(AF_UNIX, SOCK_STREAM, 0), socket(AF_UNIX, SOCK_STREAM, 0) };

	CHECK(listen(first, 1) == 0 && listen(second, 1) == 0);
	CHECK(restrictions_impose(events, first));
	CHECK(connect(clients[0], (struct sockaddr *)&admitted, sizeof(admitted)) == 0);
	CHECK(connect(clients[1], (struct sockaddr *)&other, sizeof(other)) == 0);
	CHECK(accept4(first, NULL, NULL, SOCK_CLOEXEC) >= 0);
	CHECK(is_refused(accept4(second, NULL, NULL, SOCK_CLOEXEC)));
	CHECK(is_refused(accept(first, NULL, NULL)));
	CHECK(is_refused(listen(first, 2)));
}

TEST(accepts_on_the_listener_only)
{
	in_process(accept_on_two);
}

static void look_for_dumps(void)
{
	struct event_log *events = event_log_new();
	struct rlimit limit;

	restrictions_impose(events, -1);
	CHECK(prctl(PR_GET_DUMPABLE) == 0);
	CHECK(getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur == 0 && limit.rlim_max == 0);
}

TEST(leaves_no_core_and_cannot_be_traced)
{
	in_process(look_for_dumps);
}

/* As under a container engine that listens itself. */
static void impose_twice(void)
{
	struct event_log *events = event_log_new();
	char *const arguments[] = { "true", NULL };
	static char text[64 << 10];

	CHECK(restrictions_impose(events, -1));
	CHECK(!restrictions_impose(events, -1));
	CHECK(is_refused(execv("/bin/true", arguments)));
	read_events(events, text, sizeof(text));
	CHECK(strstr(text, "seccomp: refused system calls are not counted: "));
}

TEST(another_listener_is_reported)
{
	in_process(impose_twice);
}

/* As under a container engine that does not let seccomp(2) through. */
static void impose_without_seccomp(void)
{
	struct event_log *events = event_log_new();
	const struct seccomp_rule rule = { .number = SYS_seccomp };
	const struct seccomp_filter filter = { .rules = &rule,
					       .count = 1,
					       .fits = SECCOMP_RET_ERRNO | EPERM,
					       .otherwise = SECCOMP_RET_ALLOW };
	static char text[64 << 10];

	CHECK(seccomp_filter_install(&filter, NULL) == 0);
	CHECK(!restrictions_impose(events, -1));
	read_events(events, text, sizeof(text));
	CHECK(strstr(text, "seccomp: cannot confine the agent: "));
}

TEST(goes_on_where_seccomp_is_refused)
{
	in_process(impose_without_seccomp);
}

RUN_TESTS(cmocka_unit_test(accepts_on_the_listener_only),
	  cmocka_unit_test(refuses_calls_that_the_agent_never_makes),
	  cmocka_unit_test(allows_what_the_agent_needs),
	  cmocka_unit_test(leaves_no_core_and_cannot_be_traced),
	  cmocka_unit_test(another_listener_is_reported),
	  cmocka_unit_test(goes_on_where_seccomp_is_refused))
