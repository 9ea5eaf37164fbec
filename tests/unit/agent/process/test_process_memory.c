// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/process/process_memory.h"
#include "base/cleanup.h"
#include "tests/test.h"

enum { PAGE = 4096 };

static const char text[] = "what is there";

/* Two pages, of which only the first is mapped. */
static uint8_t *map_with_end(void)
{
	uint8_t *bytes =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(bytes != MAP_FAILED);
	assert_int_equal(0, munmap(bytes + PAGE, PAGE));
	return bytes;
}

TEST(reads_memory_whole_or_not_at_all)
{
	uint8_t *bytes = map_with_end();
	char copy[32];

	memcpy(bytes + PAGE - sizeof(text), text, sizeof(text));
	EXPECT_EQ(0,
		  process_memory_read(getpid(), (uint64_t)bytes + PAGE - sizeof(text), copy,
				      sizeof(text)),
		  "up to the end");
	EXPECT_STR(text, copy, "content");
	EXPECT_EQ(-EFAULT,
		  process_memory_read(getpid(), (uint64_t)bytes + PAGE - sizeof(text), copy,
				      sizeof(text) + 1),
		  "a byte more");
	EXPECT_EQ(-EFAULT, process_memory_read(getpid(), 0, copy, 1), "at 0");
	EXPECT_EQ(-EFAULT, process_memory_read(getpid(), UINT64_MAX, copy, 2), "around the end");
	EXPECT_EQ(-EFAULT, process_memory_read(getpid(), 0xffffffff81000000, copy, 8), "kernel");
	EXPECT_EQ(-ESRCH, process_memory_read(0x3fffff, (uint64_t)bytes, copy, 1), "no process");
	munmap(bytes, PAGE);
}

/* The reads whose bit is set are of unmapped memory. */
static const struct {
	const char *what;
	unsigned holes;
} holes[] = {
	{ "none", 0 },           { "the first", 1 }, { "the last", 8 }, { "two in the middle", 6 },
	{ "first and last", 9 }, { "all", 15 },
};

TEST(each_read_succeeds_or_fails_alone)
{
	uint8_t *bytes = map_with_end();

	for EACH (row, holes) {
		struct process_memory_read reads[4];
		uint8_t copies[4][8];

		for (unsigned i = 0; i < 4; i++) {
			bool hole = row->holes >> i & 1;

			bytes[i * 100] = (uint8_t)(i + 1);
			copies[i][0] = 0;
			// Such a read begins in mapped memory and ends in unmapped memory.
			reads[i] = (struct process_memory_read){
				.address = (uint64_t)bytes + (hole ? PAGE - 4 : i * 100),
				.bytes = copies[i],
				.size = 8,
				.done = hole,
			};
		}
		EXPECT_EQ(0, process_memory_read_each(getpid(), reads, 4), row->what);
		for (unsigned i = 0; i < 4; i++) {
			EXPECT_EQ(!(row->holes >> i & 1), reads[i].done, row->what);
			if (reads[i].done)
				EXPECT_EQ(i + 1, copies[i][0], row->what);
		}
	}
	munmap(bytes, PAGE);
}

TEST(reads_nothing_of_a_missing_process)
{
	uint8_t copy;
	struct process_memory_read read = {
		.address = (uint64_t)text, .bytes = &copy, .size = 1, .done = true
	};

	EXPECT_EQ(-ESRCH, process_memory_read_each(0x3fffff, &read, 1), "rc");
	EXPECT_EQ(false, read.done, "done");
	EXPECT_EQ(0, process_memory_read_each(getpid(), &read, 0), "no reads");
}

static void *wait_long(void *argument)
{
	(void)argument;
	sleep(30);
	return NULL;
}

/* Its main thread ends, the other one waits. */
static pid_t start_without_main_thread(void)
{
	pid_t pid = fork();
	pthread_t thread;

	if (pid)
		return pid;
	alarm(30);
	pthread_create(&thread, NULL, wait_long, NULL);
	pthread_exit(NULL);
}

static char state_of(pid_t pid)
{
	char path[32], state = '?';

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");

	if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		return '?';
	return state;
}

TEST(reads_a_process_without_main_thread)
{
	pid_t pid = start_without_main_thread();
	char copy[sizeof(text)] = { 0 };
	struct process_memory_read read = { .address = (uint64_t)text,
					    .bytes = copy,
					    .size = sizeof(text) };

	for (int tries = 0; state_of(pid) != 'Z' && tries < 1000; tries++)
		usleep(5000);
	EXPECT_EQ('Z', state_of(pid), "the main thread has exited");
	int rc = process_memory_read(pid, (uint64_t)text, copy, sizeof(text));
	int each = process_memory_read_each(pid, &read, 1);

	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	EXPECT_EQ(0, rc, "one read");
	EXPECT_EQ(0, each, "reads");
	EXPECT_EQ(true, read.done, "done");
	EXPECT_STR(text, copy, "content");
	EXPECT_EQ(-ESRCH, process_memory_read(pid, (uint64_t)text, copy, sizeof(text)), "gone");
}

RUN_TESTS(cmocka_unit_test(reads_memory_whole_or_not_at_all),
	  cmocka_unit_test(each_read_succeeds_or_fails_alone),
	  cmocka_unit_test(reads_nothing_of_a_missing_process),
	  cmocka_unit_test(reads_a_process_without_main_thread))
