// SPDX-License-Identifier: Apache-2.0
#include "base/confined/confined_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/sanitized.h"
#include "tests/confined_tests.h"
#include "tests/test.h"

enum { WAIT_MS = 60000, MEMORY_BYTES = 64 << 20 };

static uint64_t secret = 0x5ec2e7;

/* ---- what the processes do ------------------------------------------------------------------ */

/* The first to the last; the second is absent. */
static int copy(const int *files)
{
	char bytes[64];
	ssize_t count = pread(files[0], bytes, sizeof(bytes), 0);

	return files[1] != -1 || count < 0 || write(files[2], bytes, (size_t)count) != count;
}

/* Writes the number of the first escape that worked; 0: none. */
static int escape(const int *files)
{
	const pid_t parent = getppid();
	uint64_t number = 0;
	char byte;
	const struct iovec here = { &byte, 1 }, there = { &byte, 1 };
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *const arguments[] = { "true", NULL };

#define TRY(worked)                                                          \
	do {                                                                 \
		number++;                                                    \
		if (worked)                                                  \
			return write(files[0], &number, sizeof(number)) < 0; \
	} while (0)
	TRY(page == MAP_FAILED); // it may allocate
	TRY(open("/etc/passwd", O_RDONLY) >= 0);
	TRY(open("/proc/self/mem", O_RDWR) >= 0);
	TRY(socket(AF_INET, SOCK_STREAM, 0) >= 0);
	TRY(socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
	TRY(fork() >= 0);
	TRY(execv("/bin/true", arguments) >= 0 || errno != EPERM);
	TRY(kill(parent, 0) == 0);
	TRY(kill(1, 0) == 0);
	TRY(ptrace(PTRACE_SEIZE, parent, NULL, NULL) == 0);
	TRY(process_vm_readv(parent, &here, 1, &there, 1, 0) >= 0);
	TRY(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
	TRY(mmap(NULL, 4096, PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	TRY(syscall(SYS_setuid, 0) ==
	    0); // not of all threads: ThreadSanitizer has one that is not confined
	TRY(unshare(CLONE_NEWUSER) == 0);
	TRY(fcntl(files[0], F_SETOWN, 1) == 0);
	TRY(dup(files[0]) >= 0);
	TRY(memfd_create("x", 0) >= 0);
	TRY(prctl(PR_SET_DUMPABLE, 1) == 0);
	TRY(secret != 0x5ec2e7); // the memory is of a new program
#undef TRY
	number = 0;
	return write(files[0], &number, sizeof(number)) < 0;
}

/* Returns 0 when it gets so much. */
static int allocate(const int *files)
{
	(void)files;
	return mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0) == MAP_FAILED;
}

static int spin(const int *files)
{
	while (files != (const int *)&secret)
		__asm__ volatile("");
	return 0;
}

/* Until the test reads no more. */
static int hold(const int *files)
{
	char byte;

	return read(files[0], &byte, 1) < 0;
}

static int crash(const int *files)
{
	(void)files;
	abort();
}

static const struct confined_task
	copy_task = { "copy", { .memory_bytes = MEMORY_BYTES }, copy },
	escape_task = { "escape", { .memory_bytes = MEMORY_BYTES }, escape },
	allocate_task = { "allocate", { .memory_bytes = MEMORY_BYTES }, allocate },
	spin_task = { "spin", { .memory_bytes = MEMORY_BYTES, .cpu_seconds = 1 }, spin },
	hold_task = { "hold", { .memory_bytes = MEMORY_BYTES }, hold },
	crash_task = { "crash", { .memory_bytes = MEMORY_BYTES }, crash },
	unknown_task = { "unknown", { .memory_bytes = MEMORY_BYTES }, copy };

SERVE_CONFINED(serve_confined, &copy_task, &escape_task, &allocate_task, &spin_task, &hold_task,
	       &crash_task)

/* ---- the tests ------------------------------------------------------------------------------ */

static int run(struct confined_launcher *launcher, const struct confined_task *task,
	       const int *files, uint32_t count, struct error *err)
{
	int process;
	int rc = confined_process_start(launcher, task, files, count, &process, err);

	return rc ? rc : confined_process_finish(process, WAIT_MS, err);
}

TEST(runs_a_task_on_its_files)
{
	struct confined_launcher *launcher = launch();
	struct error err = { 0 };
	char bytes[16] = "";
	int ends[2], from = memfd_create("from", MFD_CLOEXEC);

	assert_int_equal(0, pipe(ends));
	assert_int_equal(5, write(from, "hello", 5));
	const int files[] = { from, -1, ends[1] };
	for (int i = 0; i < 100; i++) {
		assert_int_equal(0, run(launcher, &copy_task, files, 3, &err));
		assert_int_equal(5, read(ends[0], bytes, sizeof(bytes)));
		assert_string_equal("hello", bytes);
	}
	close(from);
	close(ends[0]);
	close(ends[1]);
	confined_launcher_free(launcher);
}

TEST(a_confined_process_cannot_escape)
{
	struct confined_launcher *launcher = launch();
	struct error err = { 0 };
	uint64_t number = UINT64_MAX;
	int ends[2];

	secret = 1; // here only
	assert_int_equal(0, pipe(ends));
	assert_int_equal(0, run(launcher, &escape_task, &ends[1], 1, &err));
	assert_int_equal(sizeof(number), read(ends[0], &number, sizeof(number)));
	assert_int_equal(0, number);
	close(ends[0]);
	close(ends[1]);
	confined_launcher_free(launcher);
}

TEST(memory_and_cpu_time_are_bounded)
{
	struct confined_launcher *launcher = launch();
	struct error err = { 0 };

	if (!IS_SANITIZED)
		assert_int_equal(-EIO, run(launcher, &allocate_task, NULL, 0, &err));
	assert_int_equal(-EIO, run(launcher, &spin_task, NULL, 0, &err));
	assert_non_null(strstr(err.text, "ended by signal"));
	confined_launcher_free(launcher);
}

TEST(a_crash_is_reported_with_its_signal)
{
	struct confined_launcher *launcher = launch();
	struct error err = { 0 };

	assert_int_equal(-EIO, run(launcher, &crash_task, NULL, 0, &err));
	assert_string_equal("ended by signal 6 (Aborted)", err.text);
	confined_launcher_free(launcher);
}

/* Whether all writers of the pipe are gone. */
static bool ends_in_time(int pipe_end)
{
	struct pollfd wait = { .fd = pipe_end };

	return poll(&wait, 1, WAIT_MS) == 1 && (wait.revents & POLLHUP);
}

TEST(closing_kills_the_process)
{
	struct confined_launcher *launcher = launch();
	struct error err = { 0 };
	int ends[2], never[2], process;

	assert_int_equal(0, pipe(ends));
	assert_int_equal(0, pipe(never));
	const int files[] = { never[0], ends[1] };
	assert_int_equal(0, confined_process_start(launcher, &hold_task, files, 2, &process, &err));
	close(ends[1]);
	struct pollfd wait = { .fd = ends[0] };
	assert_int_equal(0, poll(&wait, 1, 50)); // it has the other end
	close(process);
	assert_true(ends_in_time(ends[0]));
	assert_int_equal(0, confined_process_start(launcher, &hold_task, files, 1, &process, &err));
	assert_int_equal(-EIO, confined_process_finish(process, 1, &err)); // too long
	close(ends[0]);
	close(never[0]);
	close(never[1]);
	confined_launcher_free(launcher);
}

TEST(processes_end_with_their_launcher)
{
	struct confined_launcher *launcher = launch();
	struct error err = { 0 };
	int ends[2], never[2], process;

	assert_int_equal(0, pipe(ends));
	assert_int_equal(0, pipe(never));
	const int files[] = { never[0], ends[1] };
	assert_int_equal(0, confined_process_start(launcher, &hold_task, files, 2, &process, &err));
	close(ends[1]);
	confined_launcher_free(launcher);
	assert_true(ends_in_time(ends[0]));
	assert_int_equal(-ECONNRESET, confined_process_finish(process, WAIT_MS, &err));
	close(ends[0]);
	close(never[0]);
	close(never[1]);
}

TEST(refuses_too_many_processes)
{
	struct confined_launcher *launcher = launch();
	int never[2], processes[CONFINED_PROCESSES_MAX], one_more;
	struct error err = { 0 };

	assert_int_equal(0, pipe(never));
	for (uint32_t i = 0; i < CONFINED_PROCESSES_MAX; i++)
		assert_int_equal(0, confined_process_start(launcher, &hold_task, never, 1,
							   &processes[i], &err));
	assert_int_equal(0,
			 confined_process_start(launcher, &hold_task, never, 1, &one_more, &err));
	assert_int_equal(-EPERM, confined_process_finish(one_more, WAIT_MS, &err));
	close(never[1]); // they return
	for (uint32_t i = 0; i < CONFINED_PROCESSES_MAX; i++)
		assert_int_equal(0, confined_process_finish(processes[i], WAIT_MS, &err));
	assert_int_equal(-EPERM, run(launcher, &unknown_task, NULL, 0, &err));
	close(never[0]);
	confined_launcher_free(launcher);
}

TEST(replaces_a_dead_launcher)
{
	struct confined_launcher *launcher = launch();
	struct error err = { 0 };
	int ends[2], never[2], process, from = memfd_create("from", MFD_CLOEXEC);
	char bytes[16];

	assert_int_equal(0, pipe(ends));
	assert_int_equal(0, pipe(never));
	assert_int_equal(5, write(from, "hello", 5));
	const int files[] = { from, -1, ends[1] };
	for (int death = 0; death < 3; death++) {
		assert_int_equal(
			0, confined_process_start(launcher, &hold_task, never, 1, &process, &err));
		for (int ms = 0; ms < WAIT_MS && !child_of(child_of(keeper_pid())); ms++)
			usleep(1000);
		kill_launcher(launcher);
		assert_int_equal(-ECONNRESET, confined_process_finish(process, WAIT_MS, &err));
		assert_int_equal(0, run(launcher, &copy_task, files, 3, &err));
		assert_int_equal(5, read(ends[0], bytes, sizeof(bytes)));
	}
	assert_int_equal(3, confined_launcher_restarts(launcher));
	close(from);
	close(ends[0]);
	close(ends[1]);
	close(never[0]);
	close(never[1]);
	confined_launcher_free(launcher);
}

TEST(requests_wait_for_the_next_launcher)
{
	struct confined_launcher *launcher = launch();
	struct error err = { 0 };
	int ends[2], from = memfd_create("from", MFD_CLOEXEC);

	assert_int_equal(0, pipe(ends));
	assert_int_equal(5, write(from, "hello", 5));
	const int files[] = { from, -1, ends[1] };
	kill_launcher(launcher);
	kill_launcher(launcher);
	assert_int_equal(0, kill(child_of(keeper_pid()), SIGKILL)); // and it takes a while
	usleep(20000);
	assert_int_equal(0, run(launcher, &copy_task, files, 3, &err));
	close(from);
	close(ends[0]);
	close(ends[1]);
	confined_launcher_free(launcher);
}

TEST(without_a_keeper_nothing_starts)
{
	struct confined_launcher *launcher = launch();
	const pid_t keeper = keeper_pid(), pid = child_of(keeper);
	struct error err = { 0 };
	int rc = 0;

	assert_int_equal(0, kill(keeper, SIGKILL));
	for (int ms = 0; ms < WAIT_MS && kill(pid, 0) == 0; ms++)
		usleep(1000);
	for (int ms = 0; ms < WAIT_MS && rc != -ENOTCONN; ms++, usleep(1000))
		rc = run(launcher, &copy_task, NULL, 0, &err);
	assert_int_equal(-ENOTCONN, rc);
	confined_launcher_free(launcher);
}

TEST(without_a_launcher_nothing_starts)
{
	struct error err = { 0 };
	int process;

	assert_int_equal(-ENOTCONN,
			 confined_process_start(NULL, &copy_task, NULL, 0, &process, &err));
}

RUN_TESTS_AFTER(serve_confined, cmocka_unit_test(runs_a_task_on_its_files),
		cmocka_unit_test(a_confined_process_cannot_escape),
		cmocka_unit_test(memory_and_cpu_time_are_bounded),
		cmocka_unit_test(a_crash_is_reported_with_its_signal),
		cmocka_unit_test(closing_kills_the_process),
		cmocka_unit_test(processes_end_with_their_launcher),
		cmocka_unit_test(refuses_too_many_processes),
		cmocka_unit_test(replaces_a_dead_launcher),
		cmocka_unit_test(requests_wait_for_the_next_launcher),
		cmocka_unit_test(without_a_keeper_nothing_starts),
		cmocka_unit_test(without_a_launcher_nothing_starts))
