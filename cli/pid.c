// SPDX-License-Identifier: Apache-2.0
#include "cli/pid.h"

#include <errno.h>
#include <stdlib.h>

int pid_parse(const char *text, uint64_t *ret_pid)
{
	char *end;

	errno = 0;
	unsigned long long pid = strtoull(text, &end, 10);
	if (errno || end == text || *end || text[0] == '-' || !pid || pid > PID_MAX)
		return -EINVAL;
	*ret_pid = pid;
	return 0;
}
