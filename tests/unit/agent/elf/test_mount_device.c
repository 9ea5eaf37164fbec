// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/mount_device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tests/test.h"

static const char mountinfo[] = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
				"30 27 0:52 /export /data rw - nfs4 server:/export rw\n"
				"31 30 0:53 / /data/deep\\040er rw - nfs4 server:/other rw\n"
				"nonsense\n"
				"32 27 0:60 / /twice rw - tmpfs tmpfs rw\n"
				"33 32 0:61 / /twice rw - tmpfs tmpfs rw\n";

TEST(finds_the_nearest_mount_above)
{
	static const struct {
		const char *path;
		unsigned int major, minor;
	} rows[] = {
		{ "/", 254, 0 },
		{ "/usr/lib/libc.so.6", 254, 0 },
		{ "/data", 0, 52 },
		{ "/data/lib.so", 0, 52 },
		{ "/database/lib.so", 254, 0 },
		{ "/data/deep er/lib.so", 0, 53 },
		{ "/twice/x", 0, 61 },
	};
	char folder[] = "/tmp/cairn-mounts-XXXXXX", path[64];
	dev_t device;

	assert_non_null(mkdtemp(folder));
	int fd = open(folder, O_PATH | O_DIRECTORY);
	assert_int_equal(-ENOENT, mount_device_find(fd, "/", &device));
	snprintf(path, sizeof(path), "%s/mountinfo", folder);
	FILE *file = fopen(path, "we");
	fputs(mountinfo, file);
	fclose(file);
	for EACH (row, rows) {
		EXPECT_EQ(0, mount_device_find(fd, row->path, &device), row->path);
		EXPECT_EQ(row->major, major(device), row->path);
		EXPECT_EQ(row->minor, minor(device), row->path);
	}
	unlink(path);
	rmdir(folder);
	close(fd);
}

RUN_TESTS(cmocka_unit_test(finds_the_nearest_mount_above))
