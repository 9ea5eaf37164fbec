// SPDX-License-Identifier: Apache-2.0
#include "agent/guard/hung_processes.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/test.h"

static char folder[] = "/tmp/cairn-test-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
	(void)state;
	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/hung-processes", folder);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(folder);
}

static uint64_t boot_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static struct hung_processes open_again(void)
{
	struct hung_processes hung;
	struct error err;

	assert_int_equal(0, hung_processes_open(folder, &hung, &err));
	return hung;
}

static void persists_over_restarts(void **state)
{
	uint64_t now = boot_ns();

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct hung_processes hung = open_again();

		EXPECT_EQ(i > 0, hung.count, "processes");
		EXPECT_EQ(i > 0, hung_processes_has(&hung, (uint32_t)getpid(), now), "this one");
		assert_false(hung_processes_has(&hung, 1, now));
		// Another process with its pid.
		assert_false(
			hung_processes_has(&hung, (uint32_t)getpid(), now + 3600 * NS_PER_SECOND));
		if (!i)
			hung_processes_note(&hung, getpid());
		hung_processes_close(&hung);
	}
	assert_false(hung_processes_has(NULL, 1, 0));
}

static void drops_exited_processes(void **state)
{
	struct hung_processes hung = open_again();
	pid_t child = fork();

	(void)state;
	if (!child)
		_exit(0);
	assert_int_equal(child, waitpid(child, NULL, 0));
	hung_processes_note(&hung, child);
	hung_processes_close(&hung);
	hung = open_again();
	assert_int_equal(0, hung.count);
	hung_processes_close(&hung);
}

static void drops_other_boots(void **state)
{
	struct hung_processes hung = open_again();

	(void)state;
	hung.boot++;
	hung_processes_note(&hung, getpid());
	hung_processes_close(&hung);
	hung = open_again();
	assert_int_equal(0, hung.count);
	hung_processes_close(&hung);
}

static void keeps_the_last_ones(void **state)
{
	struct hung_processes hung = open_again();
	struct stat status;

	(void)state;
	for (int i = 0; i < 10 * HUNG_PROCESSES_MAX; i++)
		hung_processes_note(&hung, i % 2 ? getpid() : getppid());
	hung_processes_close(&hung);
	hung = open_again();
	assert_int_equal(HUNG_PROCESSES_MAX, hung.count);
	assert_int_equal(0, fstat(hung.fd, &status));
	assert_int_equal(sizeof(hung.processes), status.st_size);
	hung_processes_close(&hung);
}

static void ignores_damage(void **state)
{
	uint8_t bytes[1000];
	int fd = open(path, O_CREAT | O_WRONLY, 0600);

	(void)state;
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(sizeof(bytes), write(fd, bytes, sizeof(bytes)));
	close(fd);
	struct hung_processes hung = open_again();
	assert_int_equal(0, hung.count);
	hung_processes_close(&hung);
}

static void reports_a_missing_folder(void **state)
{
	struct hung_processes hung;
	struct error err;

	(void)state;
	assert_int_equal(-ENOENT, hung_processes_open("/nowhere/at/all", &hung, &err));
	assert_non_null(strstr(err.text, "/nowhere/at/all/hung-processes"));
	assert_int_equal(-1, hung.fd);
	hung_processes_note(&hung, 1);
	hung_processes_close(&hung);
}

#define IN_A_FOLDER(claim) cmocka_unit_test_setup_teardown(claim, make_folder, remove_folder)

RUN_TESTS(IN_A_FOLDER(persists_over_restarts), IN_A_FOLDER(drops_exited_processes),
	  IN_A_FOLDER(drops_other_boots), IN_A_FOLDER(keeps_the_last_ones),
	  IN_A_FOLDER(ignores_damage), cmocka_unit_test(reports_a_missing_folder))
