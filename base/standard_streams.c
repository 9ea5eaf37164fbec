// SPDX-License-Identifier: Apache-2.0
#include "base/standard_streams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
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

int standard_streams_finish(const char *program, int code)
{
	// Of a line that failed earlier the cause is no longer known.
	bool failed = ferror(stdout);

	if (code)
		return code;
	if (fflush(stdout))
		fprintf(stderr, "%s: cannot write to standard output: %s\n", program,
			strerror(errno));
	else if (failed)
		fprintf(stderr, "%s: cannot write to standard output: a line was lost\n", program);
	else
		return 0;
	return 1;
}
