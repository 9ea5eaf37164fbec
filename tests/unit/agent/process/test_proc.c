// SPDX-License-Identifier: Apache-2.0
#include "agent/process/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

#define NOTHING            \
	{                  \
		.state = 0 \
	}
#define BEFORE_FLAGS "1 2 3 0 -1 "
#define AFTER_FLAGS  " 1 2 3 4 5 6 7 8 20 0 1 0 "

static const struct {
	const char *what;
	const char *text;
	int rc;
	struct proc_stat stat;
} cases[] = {
	{ "a process",
	  "7 (sh) S " BEFORE_FLAGS "4194304" AFTER_FLAGS "12345 0 0\n",
	  0,
	  { .name = "sh", .state = 'S', .start_ticks = 12345 } },
	{ "a kernel thread",
	  "2 (kthreadd) S " BEFORE_FLAGS "2129984" AFTER_FLAGS "5 0\n",
	  0,
	  { .name = "kthreadd", .state = 'S', .kernel_thread = true, .start_ticks = 5 } },
	{ "parentheses in the name",
	  "7 (a) S 1 (b) Z " BEFORE_FLAGS "0" AFTER_FLAGS "9 ",
	  0,
	  { .name = "a) S 1 (b", .state = 'Z', .start_ticks = 9 } },
	{ "newline in the name",
	  "7 (a\nb) R " BEFORE_FLAGS "0" AFTER_FLAGS "9",
	  0,
	  { .name = "a\nb", .state = 'R', .start_ticks = 9 } },
	{ "no name",
	  "7 () R " BEFORE_FLAGS "0" AFTER_FLAGS "9",
	  0,
	  { .name = "", .state = 'R', .start_ticks = 9 } },
	{ "cut before the start time", "7 (sh) S " BEFORE_FLAGS "0" AFTER_FLAGS, -EBADMSG,
	  NOTHING },
	{ "cut in the middle", "7 (sh) S " BEFORE_FLAGS, -EBADMSG, NOTHING },
	{ "cut after the name", "7 (sh)", -EBADMSG, NOTHING },
	{ "cut in the name", "7 (sh", -EBADMSG, NOTHING },
	{ "parentheses turned round", "7 )sh( S", -EBADMSG, NOTHING },
	{ "empty", "", -EBADMSG, NOTHING },
};

TEST(reads_or_refuses_a_stat_line)
{
	for EACH (row, cases) {
		struct proc_stat stat = { 0 };

		EXPECT_EQ(row->rc, proc_stat_parse(row->text, strlen(row->text), &stat), row->what);
		EXPECT_STR(row->stat.name, stat.name, row->what);
		EXPECT_EQ(row->stat.state, stat.state, row->what);
		EXPECT_EQ(row->stat.kernel_thread, stat.kernel_thread, row->what);
		EXPECT_EQ(row->stat.start_ticks, stat.start_ticks, row->what);
	}
}

TEST(survives_lines_of_any_length)
{
	static char text[4096];

	memset(text, '(', sizeof(text));
	for (size_t size = 0; size < sizeof(text); size += 7) {
		struct proc_stat stat;

		text[size / 2] = ')';
		assert_int_equal(-EBADMSG, proc_stat_parse(text, size, &stat));
	}
}

TEST(opens_and_reads_this_process)
{
	struct buffer maps = { 0 };
	struct proc proc;

	assert_int_equal(0, proc_open(getpid(), &proc));
	assert_int_equal(proc.fd, proc.files);
	assert_string_equal("test_proc", proc.stat.name);
	assert_false(proc.stat.kernel_thread);
	assert_true(proc.stat.start_ticks > 0);
	assert_int_equal(0, proc_read(proc.files, "maps", 100, &maps));
	assert_int_equal(100, maps.size); // bounded
	assert_int_equal(-ESRCH, proc_read(proc.files, "no_such_file", 100, &maps));
	buffer_deinit(&maps);
	proc_close(&proc);
}

TEST(refuses_a_missing_process)
{
	struct proc proc;
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	assert_int_equal(-ESRCH, proc_open(child, &proc));
}

TEST(an_open_folder_stays_with_its_process)
{
	struct buffer maps = { 0 };
	struct proc proc;
	pid_t child = fork();

	if (child == 0)
		for (;;)
			pause();
	assert_int_equal(0, proc_open(child, &proc));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_int_equal(-ESRCH, proc_read(proc.files, "maps", 1000, &maps));
	proc_close(&proc);
	buffer_deinit(&maps);
}

static void *outlive(void *forever)
{
	while (!forever)
		pause();
	return NULL;
}

TEST(reads_by_another_thread_after_main_exits)
{
	struct buffer maps = { 0 };
	struct proc proc;
	pid_t child = fork();

	if (child == 0) {
		pthread_t thread;

		pthread_create(&thread, NULL, outlive, NULL);
		syscall(SYS_exit, 0); // this thread only
	}
	for (int i = 0; i < 1000; i++) { // until it is a zombie
		assert_int_equal(0, proc_open(child, &proc));
		if (proc.stat.state == 'Z')
			break;
		proc_close(&proc);
		usleep(1000);
	}
	assert_int_not_equal(proc.fd, proc.files);
	assert_int_equal(0, proc_read(proc.files, "maps", 1000, &maps));
	assert_true(maps.size > 100);
	assert_int_equal(0, faccessat(proc.files, "map_files", F_OK, 0));
	buffer_deinit(&maps);
	proc_close(&proc);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

TEST(finds_who_started_a_process)
{
	enum { USER = 12345 };
	struct proc proc;
	uid_t uid = 1;

	assert_int_equal(0, proc_open(getpid(), &proc));
	EXPECT_EQ(0, proc_read_uid(proc.fd, &uid), "of this process");
	EXPECT_EQ(getuid(), uid, "of this process");
	proc_close(&proc);
	if (getuid()) // only root can be others
		return;
	pid_t child = fork();
	if (child == 0) {
		prctl(PR_SET_NAME, "\nUid:\t7");
		if (setuid(USER) || prctl(PR_SET_DUMPABLE, 0)) // its folder is root's
			abort();
		raise(SIGSTOP);
		_exit(0);
	}
	waitpid(child, NULL, WUNTRACED);
	assert_int_equal(0, proc_open(child, &proc));
	EXPECT_EQ(0, proc_read_uid(proc.fd, &uid), "of a child");
	EXPECT_EQ(USER, uid, "of a child that hides");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	EXPECT_EQ(-ESRCH, proc_read_uid(proc.fd, &uid), "after its end");
	proc_close(&proc);
}

RUN_TESTS(cmocka_unit_test(reads_or_refuses_a_stat_line),
	  cmocka_unit_test(survives_lines_of_any_length),
	  cmocka_unit_test(opens_and_reads_this_process),
	  cmocka_unit_test(refuses_a_missing_process),
	  cmocka_unit_test(an_open_folder_stays_with_its_process),
	  cmocka_unit_test(reads_by_another_thread_after_main_exits),
	  cmocka_unit_test(finds_who_started_a_process))
