// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/slow_open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/elf/foreign_file.h"
#include "tests/test.h"

enum { WAIT_MS = 60000 };

static int open_null(int folder, const char *path, uint64_t flags, uint64_t inode)
{
	if (inode != 7 || strcmp(path, "null") != 0)
		return -EINVAL;
	return openat(folder, path, (int)flags | O_CLOEXEC);
}

static atomic_bool held;

static int open_once_free(int folder, const char *path, uint64_t flags, uint64_t inode)
{
	while (held)
		usleep(1000);
	return open_null(folder, path, flags, inode);
}

/* A busy machine may take longer than SLOW_OPEN_WAIT_MS to run the thread that opens. */
static int open_in_time(int folder, uint64_t inode)
{
	int fd = -ETIMEDOUT;

	for (int i = 0; i < WAIT_MS && (fd == -ETIMEDOUT || fd == -EBUSY); i++) {
		if (i)
			usleep(1000);
		fd = slow_open(open_null, folder, "null", O_RDONLY, inode);
	}
	return fd;
}

static uint32_t descriptor_count(void)
{
	uint32_t count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* What is left behind ends later. */
static void wait_for_descriptors(uint32_t count)
{
	for (int i = 0; i < WAIT_MS && descriptor_count() != count; i++)
		usleep(1000);
	assert_int_equal(count, descriptor_count());
}

TEST(returns_files_opened_in_time)
{
	int folder = open("/dev", O_PATH | O_DIRECTORY);
	uint32_t before = descriptor_count();

	for (int i = 0; i < 100; i++) {
		int fd = open_in_time(folder, 7);
		assert_true(fd >= 0);
		close(fd);
	}
	assert_int_equal(-EINVAL, open_in_time(folder, 8));
	wait_for_descriptors(before);
	close(folder);
}

TEST(abandons_slow_opens_up_to_a_limit)
{
	int folder = open("/dev", O_PATH | O_DIRECTORY);
	uint32_t before = descriptor_count();

	held = true;
	assert_int_equal(-ETIMEDOUT, slow_open(open_once_free, folder, "null", O_RDONLY, 7));
	assert_true(descriptor_count() > before); // it waits yet, with one of its own
	held = false;
	wait_for_descriptors(before); // what it opened in the end was closed
	close(folder);
}

/* A file system whose server never answers; -1 where there can be none. */
static int mount_dead(const char *place)
{
	char options[128];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	if (fd >= 0 && mount("dead", place, "fuse", 0, options)) {
		close(fd);
		return -1;
	}
	return fd;
}

TEST(an_unreachable_server_does_not_block_others)
{
	char place[] = "/tmp/cairn-dead-XXXXXX", path[64];
	int self = open("/proc/self", O_PATH | O_DIRECTORY);

	assert_non_null(mkdtemp(place));
	int server = mount_dead(place);
	if (server < 0) {
		rmdir(place);
		SKIP("no file system can be mounted here");
	}
	snprintf(path, sizeof(path), "%s/lib.so", place);
	for (int i = 0; i < SLOW_OPENS_MAX; i++)
		assert_int_equal(-ETIMEDOUT, foreign_file_open(self, path, 0));
	for (int i = 0; i < 1000; i++) // no more of them
		assert_int_equal(-EBUSY, foreign_file_open_no_link(self, path));

	close(server); // it is known to be gone: those who wait fail
	umount2(place, MNT_DETACH);
	int fd = -EBUSY;
	for (int i = 0; i < WAIT_MS && (fd == -EBUSY || fd == -ETIMEDOUT); i++) {
		usleep(1000);
		fd = foreign_file_open(self, "/bin/true", 0);
	}
	assert_true(fd >= 0);
	close(fd);
	close(self);
	rmdir(place);
}

RUN_TESTS(cmocka_unit_test(returns_files_opened_in_time),
	  cmocka_unit_test(abandons_slow_opens_up_to_a_limit),
	  cmocka_unit_test(an_unreachable_server_does_not_block_others))
