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

static int open_null(struct slow_open *open, int folder, const char *path, uint64_t flags,
		     uint64_t inode)
{
	(void)open;
	if (inode != 7 || strcmp(path, "null") != 0)
		return -EINVAL;
	return openat(folder, path, (int)flags | O_CLOEXEC);
}

static atomic_bool held;

static int open_once_free(struct slow_open *open, int folder, const char *path, uint64_t flags,
			  uint64_t inode)
{
	while (held)
		usleep(1000);
	return open_null(open, folder, path, flags, inode);
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

struct dead {
	char place[64];
	int server;
};

/* False where no file system can be mounted. */
static bool dead_open(struct dead *dead)
{
	strcpy(dead->place, "/tmp/cairn-dead-XXXXXX");
	assert_non_null(mkdtemp(dead->place));
	dead->server = mount_dead(dead->place);
	if (dead->server < 0)
		rmdir(dead->place);
	return dead->server >= 0;
}

/* Its server is known to be gone: those who wait fail. */
static void dead_close(const struct dead *dead)
{
	close(dead->server);
	umount2(dead->place, MNT_DETACH);
	rmdir(dead->place);
}

static int open_in(int self, const char *folder, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return foreign_file_open(self, path, 0);
}

/* The first open of a dead server. Its device number may be that of an earlier one, which rests. */
static void expect_hung(int self, const char *folder)
{
	int rc = -EBUSY;

	for (int i = 0; i < WAIT_MS && rc == -EBUSY; i += 10) {
		rc = open_in(self, folder, "lib.so");
		if (rc == -EBUSY)
			usleep(10000);
	}
	assert_int_equal(-ETIMEDOUT, rc);
}

/* A busy machine may take longer than SLOW_OPEN_WAIT_MS to run the thread that opens: try again then. */
static void expect_opened(int self, const char *path)
{
	int fd = -ETIMEDOUT;

	for (int i = 0; i < WAIT_MS && fd == -ETIMEDOUT; i++)
		fd = foreign_file_open(self, path, 0);
	assert_true(fd >= 0);
	close(fd);
}

static uint64_t hung_opens(void)
{
	struct slow_open_stats stats;

	slow_open_read_stats(&stats);
	return stats.hung;
}

/* Both ways to a file: by a path, and by what the kernel has open. */
TEST(a_dead_server_is_asked_once)
{
	int self = open("/proc/self", O_PATH | O_DIRECTORY);
	uint64_t before = hung_opens();
	struct dead dead;

	if (!dead_open(&dead))
		SKIP("no file system can be mounted here");
	int top = open(dead.place, O_PATH | O_DIRECTORY);
	expect_hung(self, dead.place);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(-EBUSY, open_in(self, dead.place, "lib.so"));
		assert_int_equal(-EBUSY, open_in(self, dead.place, "other/lib.so"));
	}
	assert_int_equal(-EBUSY, foreign_file_reopen(top));
	assert_int_equal(before + 1, hung_opens());
	close(top);
	dead_close(&dead);
	close(self);
}

TEST(files_elsewhere_are_opened_beside_dead_servers)
{
	enum { DEAD = 10 };
	int self = open("/proc/self", O_PATH | O_DIRECTORY);
	struct dead dead[DEAD];
	char folder[] = "/tmp/cairn-alive-XXXXXX", path[64], link[64];

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/file", folder);
	snprintf(link, sizeof(link), "%s/link", folder);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	for (int i = 0; i < DEAD; i++) {
		if (!dead_open(&dead[i])) {
			assert_int_equal(0, i);
			unlink(path);
			rmdir(folder);
			SKIP("no file system can be mounted here");
		}
		expect_hung(self, dead[i].place);
		expect_opened(self, path);
		expect_opened(self, "/bin/../bin/true");
	}
	// What a link leads to is to blame, not where it lies.
	struct dead behind_link;
	assert_true(dead_open(&behind_link));
	assert_int_equal(0, symlink(behind_link.place, link));
	expect_hung(self, link);
	assert_int_equal(-EBUSY, open_in(self, link, "lib.so"));
	assert_int_equal(-EBUSY, open_in(self, behind_link.place, "lib.so"));
	expect_opened(self, path);
	dead_close(&behind_link);
	for (int i = 0; i < DEAD; i++)
		dead_close(&dead[i]);
	unlink(link);
	unlink(path);
	rmdir(folder);
	close(self);
}

/* How its server is known to be gone after a while: what was asked fails. */
TEST(a_server_that_answers_again_is_asked_again)
{
	int self = open("/proc/self", O_PATH | O_DIRECTORY);
	struct dead dead;
	int rc = -EBUSY;

	if (!dead_open(&dead))
		SKIP("no file system can be mounted here");
	expect_hung(self, dead.place);
	close(dead.server); // the mount stays
	for (int i = 0; i < WAIT_MS && (rc == -EBUSY || rc == -ETIMEDOUT); i += 10) {
		usleep(10000);
		rc = open_in(self, dead.place, "lib.so");
	}
	assert_int_equal(-ENOTCONN, rc);
	umount2(dead.place, MNT_DETACH);
	rmdir(dead.place);
	close(self);
}

RUN_TESTS(cmocka_unit_test(returns_files_opened_in_time),
	  cmocka_unit_test(abandons_slow_opens_up_to_a_limit),
	  cmocka_unit_test(a_dead_server_is_asked_once),
	  cmocka_unit_test(files_elsewhere_are_opened_beside_dead_servers),
	  cmocka_unit_test(a_server_that_answers_again_is_asked_again))
