// SPDX-License-Identifier: Apache-2.0
#include "base/standard_streams.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

void standard_streams_occupy(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
			continue;
		// The lowest that is free is this one. The wrong way round, so that it is of no use.
		if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
			return;
	}
}
