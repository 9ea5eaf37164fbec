// SPDX-License-Identifier: Apache-2.0
// What real children wait for, each blocked in a call that it chose; then the words for what only a
// stack tells.
#include "agent/dump/thread_wait.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/test.h"

enum { WAIT_MS = 5000, FD = 50 }; // the children's descriptor under test

/* ---- children ------------------------------------------------------------------------------ */

static void in_read_of_a_pipe(void)
{
	int ends[2];
	char byte;

	if (pipe(ends) || dup2(ends[0], FD) < 0)
		_exit(1);
	if (read(FD, &byte, 1))
		_exit(1);
}

static void in_write_to_a_full_pipe(void)
{
	int ends[2];
	char bytes[4096] = { 0 };

	if (pipe(ends) || dup2(ends[1], FD) < 0)
		_exit(1);
	while (write(FD, bytes, sizeof(bytes)) > 0)
		;
}

static void in_poll(void)
{
	struct pollfd entries[] = { { .fd = -1 }, { .fd = FD, .events = POLLIN } };

	dup2(eventfd(0, 0), FD);
	poll(entries, 2, 100000);
}

static void in_poll_of_nothing(void)
{
	poll(NULL, 0, 2500);
}

static void in_select(void)
{
	fd_set set;

	dup2(eventfd(0, 0), FD);
	FD_ZERO(&set);
	FD_SET(FD, &set);
	select(FD + 1, &set, NULL, NULL, NULL);
}

static void in_epoll(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(0), ready = eventfd(0, 0);

	dup2(epoll, FD);
	dup2(ready, FD + 1);
	epoll_ctl(FD, EPOLL_CTL_ADD, FD + 1, &event);
	epoll_wait(FD, &event, 1, 3000);
}

static int listener(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 5))
		_exit(1);
	return fd;
}

static void in_accept(void)
{
	dup2(listener(), FD);
	accept(FD, NULL, NULL);
}

static void in_recv(void)
{
	int listening = listener(), client = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in address;
	socklen_t size = sizeof(address);
	char byte;

	getsockname(listening, (struct sockaddr *)&address, &size);
	if (connect(client, (struct sockaddr *)&address, size))
		_exit(1);
	dup2(client, FD);
	recv(FD, &byte, 1, 0);
}

static void in_nanosleep(void)
{
	syscall(SYS_nanosleep, &(struct timespec){ 12, 500000000 }, NULL);
}

static void in_clock_nanosleep(void)
{
	clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ 100, 0 }, NULL);
}

static void in_pause(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigsuspend(&set);
}

static void *sleep_long(void *context)
{
	(void)context;
	sleep(100);
	return NULL;
}

static void waiting_for_a_child(void)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sleep_long(NULL);
		_exit(0);
	}
	waitpid(-1, NULL, 0);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;

static void *hold_mutex(void *context)
{
	prctl(PR_SET_NAME, "holder");
	pthread_mutex_lock(context);
	pthread_barrier_wait(&barrier);
	return sleep_long(NULL);
}

static void block_on_mutex(pthread_mutex_t *of)
{
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, hold_mutex, of);
	pthread_barrier_wait(&barrier);
	pthread_mutex_lock(of);
}

static void on_a_mutex(void)
{
	block_on_mutex(&mutex);
}

static void on_a_mutex_with_priorities(void)
{
	pthread_mutexattr_t attributes;
	static pthread_mutex_t inheriting;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&inheriting, &attributes);
	block_on_mutex(&inheriting);
}

static void on_a_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, sleep_long, NULL);
	pthread_setname_np(thread, "sleeper");
	pthread_join(thread, NULL);
}

static void in_open_of_a_fifo(void)
{
	char path[] = "/tmp/cairn-fifo-XXXXXX";
	int fd = mkstemp(path);

	close(fd);
	unlink(path);
	if (mkfifo(path, 0600))
		_exit(1);
	open(path, O_RDONLY | O_CLOEXEC);
}

static void in_an_unknown_call(void)
{
	syscall(SYS_futex, &mutex, FUTEX_WAIT, 0, NULL, NULL, 0);
}

/* ---- looking at them ----------------------------------------------------------------------- */

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

static pid_t start(void (*body)(void))
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	body();
	_exit(0);
}

struct looked_at {
	struct proc proc;
	struct thread_list list;
	struct thread_wait wait;
};

/*
 * Until it blocks in a call; of a child that has another thread, until that one does, too. Twice in a row: threads are read
 * one after the other, and the first may have been woken by the second meanwhile.
 */
static bool read_blocked(pid_t pid, uint32_t threads, struct looked_at *ret_looked)
{
	bool was_blocked = false;

	for (int i = 0; i < WAIT_MS; i++, sleep_ms(1)) {
		if (proc_open(pid, &ret_looked->proc))
			return false;
		int rc = thread_list_read(&ret_looked->proc, false, &ret_looked->list);
		bool blocked = !rc && ret_looked->list.count == threads;

		for (uint32_t t = 0; blocked && t < threads; t++)
			blocked = ret_looked->list.threads[t].state == 'S' &&
				  ret_looked->list.threads[t].has_registers;
		if (blocked && was_blocked)
			return true;
		was_blocked = blocked;
		thread_list_deinit(&ret_looked->list);
		proc_close(&ret_looked->proc);
	}
	return false;
}

static void describe(pid_t pid, uint32_t threads, const char *what, struct looked_at *ret_looked)
{
	struct wait_memory memory;
	struct file_targets files;

	if (!read_blocked(pid, threads, ret_looked))
		fail_msg("%s: the child does not block", what);
	const struct thread *thread = thread_list_find(&ret_looked->list, pid);
	const struct wait_context context = {
		.threads = &ret_looked->list,
		.files = &files,
	};
	assert_non_null(thread);
	file_targets_init(&files, &ret_looked->proc);
	wait_memory_read(pid, thread, &thread->registers, &memory);
	thread_wait_describe(thread, &thread->registers, &memory, &context, &ret_looked->wait);
	file_targets_deinit(&files);
}

static const struct {
	const char *what;
	void (*body)(void);
	uint32_t threads;
	enum wait_kind kind;
	const char *words[4]; // in this order
	int fd;
} cases[] = {
	{ "read of a pipe", in_read_of_a_pipe, 1, WAIT_FILE, { "in read of fd 50 (pipe " }, FD },
	{ "write to a pipe",
	  in_write_to_a_full_pipe,
	  1,
	  WAIT_FILE,
	  { "in write of fd 50 (pipe" },
	  FD },
	{ "poll", in_poll, 1, WAIT_FILES, { "poll of fd 50 (eventfd", "at most 100 s" }, FD },
	{ "poll as a sleep", in_poll_of_nothing, 1, WAIT_TIME, { "poll, for at most 2.5 s" }, -1 },
	{ "select", in_select, 1, WAIT_FILES, { "select", " of fd 50 (eventfd" }, FD },
	{ "epoll", in_epoll, 1, WAIT_FILES, { "of fd 50: fd 51 (eventfd", "at most 3 s" }, FD },
	{ "accept",
	  in_accept,
	  1,
	  WAIT_FILE,
	  { "in accept", " of fd 50 (tcp 127.0.0.1:", ", listening)" },
	  FD },
	{ "recv",
	  in_recv,
	  1,
	  WAIT_FILE,
	  { "in recvfrom of fd 50 (tcp 127.0.0.1:", " to 127.0.0.1:" },
	  FD },
	{ "nanosleep", in_nanosleep, 1, WAIT_TIME, { "sleeps for 12.5 s" }, -1 },
	{ "clock_nanosleep", in_clock_nanosleep, 1, WAIT_TIME, { "sleeps for 100 s" }, -1 },
	{ "a signal", in_pause, 1, WAIT_SIGNAL, { "waits for a signal" }, -1 },
	{ "a child", waiting_for_a_child, 1, WAIT_PROCESS, { "waits for any child" }, -1 },
	{ "a mutex",
	  on_a_mutex,
	  2,
	  WAIT_MUTEX,
	  { "waits for mutex 0x", ", held by thread ", "\"holder\"" },
	  -1 },
	{ "a mutex that inherits priority",
	  on_a_mutex_with_priorities,
	  2,
	  WAIT_MUTEX,
	  { "waits for mutex 0x", ", held by thread ", "\"holder\"" },
	  -1 },
	{ "a thread's end",
	  on_a_thread,
	  2,
	  WAIT_THREAD,
	  { "waits for thread ", "\"sleeper\" to end" },
	  -1 },
	{ "open of a FIFO",
	  in_open_of_a_fifo,
	  1,
	  WAIT_FILE,
	  { "in open", " of /tmp/cairn-fifo-" },
	  -1 },
	{ "a futex of one's own",
	  in_an_unknown_call,
	  1,
	  WAIT_FUTEX,
	  { "waits for a lock (futex) 0x" },
	  -1 },
};

static void expect_words(const char *text, const char *const *words, size_t count, const char *what)
{
	const char *at = text;

	for (size_t i = 0; i < count && words[i]; i++) {
		at = strstr(at, words[i]);
		if (!at)
			fail_msg("%s: \"%s\" lacks \"%s\"", what, text, words[i]);
		at += strlen(words[i]);
	}
}

TEST(names_what_a_thread_waits_for)
{
	for EACH (c, cases) {
		struct looked_at looked;
		pid_t pid = start(c->body);

		describe(pid, c->threads, c->what, &looked);
		expect_words(looked.wait.text, c->words, ARRAY_SIZE(c->words), c->what);
		EXPECT_EQ(c->kind, looked.wait.kind, c->what);
		EXPECT_EQ(c->fd, looked.wait.fd, c->what);
		EXPECT_EQ(c->kind == WAIT_THREAD || c->kind == WAIT_MUTEX, looked.wait.owner != 0,
			  c->what);
		thread_list_deinit(&looked.list);
		proc_close(&looked.proc);
		if (c->body == in_open_of_a_fifo)
			unlink(strstr(looked.wait.text, "/tmp/"));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

/* A stop and its end make the kernel go on with the sleep by another call. */
TEST(recognizes_a_restarted_system_call)
{
	static const struct {
		const char *what;
		void (*body)(void);
		const char *words;
	} restarted[] = {
		{ "clock_nanosleep", in_clock_nanosleep, "sleeps for 100 s" },
		{ "poll", in_poll, "poll of fd 50" },
	};

	for EACH (c, restarted) {
		struct looked_at looked;
		pid_t pid = start(c->body);

		if (!read_blocked(pid, 1, &looked))
			fail_msg("%s: the child does not block", c->what);
		thread_list_deinit(&looked.list);
		proc_close(&looked.proc);
		kill(pid, SIGSTOP);
		waitpid(pid, NULL, WUNTRACED);
		kill(pid, SIGCONT);
		describe(pid, 1, c->what, &looked);
		EXPECT_EQ(SYS_restart_syscall, looked.list.threads[0].registers.syscall, c->what);
		if (!strstr(looked.wait.text, c->words))
			fail_msg("%s: \"%s\"", c->what, looked.wait.text);
		thread_list_deinit(&looked.list);
		proc_close(&looked.proc);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

/* ---- by the stack alone -------------------------------------------------------------------- */

static void describe_futex(const struct wait_function *functions, uint32_t count,
			   struct thread_wait *wait)
{
	const struct thread thread = { .tid = 1, .state = 'S', .has_registers = true };
	const struct thread_list nobody = { 0 };
	const struct wait_memory memory = { .syscall = SYS_futex, .size = 4 };
	const struct thread_registers registers = {
		.syscall = SYS_futex,
		.arguments = { 0x7f0012345678, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME },
	};
	const struct wait_context context = {
		.threads = &nobody,
		.functions = functions,
		.function_count = count,
	};

	thread_wait_describe(&thread, &registers, &memory, &context, wait);
}

static const struct {
	const char *what;
	enum wait_kind kind;
	const char *functions[8];
	const char *module; // of all; NULL: some program
} stacks[] = {
	{ "the GIL, with symbols",
	  WAIT_GIL,
	  { "", "pthread_cond_timedwait", "take_gil", "_PyEval_EvalFrameDefault" },
	  NULL },
	{ "the GIL, taken back after a call",
	  WAIT_GIL,
	  { "__futex_abstimed_wait_common", "___pthread_cond_timedwait64", "PyEval_RestoreThread" },
	  NULL },
	{ "the GIL, by a thread of another language",
	  WAIT_GIL,
	  { "pthread_cond_timedwait@@GLIBC_2.3.2", "PyGILState_Ensure", "callback" },
	  NULL },
	{ "a condition of the program's own below the interpreter",
	  WAIT_CONDITION,
	  { "pthread_cond_wait", "wait_for_work", "_PyEval_EvalFrameDefault" },
	  NULL },
	{ "a condition", WAIT_CONDITION, { "__futex_wait", "pthread_cond_wait", "worker" }, NULL },
	{ "a Python lock",
	  WAIT_MUTEX,
	  { "", "", "PyThread_acquire_lock_timed", "acquire_timed", "lock_PyThread_acquire_lock" },
	  NULL },
	{ "a semaphore", WAIT_SEMAPHORE, { "__new_sem_wait_slow64", "sem_wait", "main" }, NULL },
	{ "a read-write lock", WAIT_MUTEX, { "pthread_rwlock_wrlock", "main" }, NULL },
	{ "nothing known", WAIT_FUTEX, { "main" }, NULL },
	{ "a lock far down is not this one",
	  WAIT_FUTEX,
	  { "a", "b", "c", "d", "e", "f", "sem_wait", "main" },
	  NULL },
	{ "the GIL, without symbols",
	  WAIT_GIL,
	  { "pthread_cond_timedwait", "", "", "" },
	  "/usr/bin/python3.11" },
	{ "the GIL, without symbols, in the library",
	  WAIT_GIL,
	  { "pthread_cond_timedwait", "", "" },
	  "/opt/lib/libpython3.12.so.1.0" },
	{ "a condition of a program without symbols",
	  WAIT_CONDITION,
	  { "pthread_cond_timedwait", "", "" },
	  "/opt/lib/libtorch_python.so" },
};

TEST(recognizes_locks_by_function_name)
{
	for EACH (c, stacks) {
		struct wait_function functions[ARRAY_SIZE(c->functions)];
		struct thread_wait wait;
		uint32_t count = 0;

		for (; count < ARRAY_SIZE(functions) && c->functions[count]; count++)
			functions[count] = (struct wait_function){
				.name = c->functions[count],
				.module = c->module ? c->module : "/usr/bin/program",
			};
		describe_futex(functions, count, &wait);
		EXPECT_EQ(c->kind, wait.kind, c->what);
	}
}

/* ---- hostile ------------------------------------------------------------------------------- */

TEST(any_registers_give_a_text)
{
	static const uint64_t words[] = { 0, 1, 2, 1024, 0xffffffff, UINT64_MAX, 1ULL << 63 };
	const struct thread_list nobody = { 0 };
	const struct thread thread = { .tid = 1, .state = 'S', .has_registers = true };

	for (int64_t call = -3; call < 470; call++)
		for EACH (word, words) {
			struct thread_registers registers = { .syscall = call };
			const struct wait_context context = { .threads = &nobody };
			struct wait_memory memory;
			struct thread_wait wait;

			for (int i = 0; i < SYSCALL_ARGUMENTS; i++)
				registers.arguments[i] = *word;
			wait_memory_read(getpid(), &thread, &registers, &memory);
			memset(memory.bytes, (int)*word, sizeof(memory.bytes));
			memory.size = sizeof(memory.bytes);
			memory.has_time = true;
			thread_wait_describe(&thread, &registers, &memory, &context, &wait);
			assert_true(wait.text[0] && strlen(wait.text) < WAIT_TEXT_BYTES);
			assert_non_null(wait_kind_name(wait.kind));
		}
}

RUN_TESTS(cmocka_unit_test(names_what_a_thread_waits_for),
	  cmocka_unit_test(recognizes_a_restarted_system_call),
	  cmocka_unit_test(recognizes_locks_by_function_name),
	  cmocka_unit_test(any_registers_give_a_text))
