// SPDX-License-Identifier: Apache-2.0
// A test double of the system's clock, preloaded into a collector: Unix time is ahead by the seconds in
// the file CLOCK_DOUBLE_AHEAD (8 bytes, which the test rewrites in place). Other clocks are the system's.
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead_s;

__attribute__((constructor)) static void map_file(void)
{
	const char *path = getenv("CLOCK_DOUBLE_AHEAD");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd < 0)
		abort();
	void *bytes = mmap(NULL, sizeof(*ahead_s), PROT_READ, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED)
		abort();
	close(fd);
	ahead_s = bytes;
}

int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, ret_time);

	if (rc == 0 && clock == CLOCK_REALTIME && ahead_s)
		ret_time->tv_sec += *ahead_s;
	return rc;
}
